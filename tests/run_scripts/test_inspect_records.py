"""inspect_records.py as a user runs it: rows as text, and broken ones by number."""

import numpy as np
import pytest

from albert_tf.records.writer import write_records
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.corpus.reader import Sentence
from data_prep.corpus.statistics import Statistics
from data_prep.corpus.tokenized_corpus import tokenize_sentences
from data_prep.pretraining.rows import make_rows
from helpers.letters import CONFIG
from helpers.scripts import assert_one_line, run_script


@pytest.fixture
def vocabulary(shared_data):
    return shared_data / "vocabulary" / "30k-clean.model"


def write_rows(path, vocabulary, change=None):
    tokenizer = AlbertTokenizer(vocabulary)
    story = [Sentence("the cat sat on the mat .", "", 1), Sentence("a dog .", "", 1)]
    (segment,) = tokenize_sentences(story * 40, tokenizer, 64, Statistics())
    block = segment.corpus.block(0, 80)
    rng = np.random.default_rng(1)
    columns = make_rows(block, tokenizer, CONFIG, rng, Statistics())
    if change:
        change(columns)
    rows = [
        dict(zip(columns, row, strict=True))
        for row in zip(*columns.values(), strict=True)
    ]
    write_records(path, rows, CONFIG.features, tokenizer.metadata())


def test_records_are_shown_and_checked(vocabulary, tmp_path):
    path = tmp_path / "rows.tfrecord"
    write_rows(path, vocabulary)
    flag = f"--vocabulary={vocabulary}"
    done = run_script("inspect_records.py", path, flag, "--rows=1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "A: [CLS]" in done.stdout and ">[MASK]}" in done.stdout
    assert "all rows keep the record contract" in done.stdout
    path.write_bytes(path.read_bytes() + b"x")
    done = run_script("inspect_records.py", path, "--rows=0", cwd=tmp_path)
    assert_one_line(done, 1, "bytes, but its sidecar says")
    done = run_script("inspect_records.py", cwd=tmp_path)
    assert_one_line(done, 2, "FILE")


def test_a_broken_row_is_named_and_ends_with_exit_code_1(vocabulary, tmp_path):
    def change(columns):
        columns["next_sentence_labels"][2] = 7

    path = tmp_path / "rows.tfrecord"
    write_rows(path, vocabulary, change)
    done = run_script("inspect_records.py", path, "--rows=0", cwd=tmp_path)
    assert_one_line(done, 1, "1 rows break", "first row 2: the label is not 0, 1 or -1")
