"""Record files hold all rows, shuffled, and the same bytes every time."""

import json
from collections import Counter

import numpy as np
import pytest

from albert_tf.records.reader import read_rows
from albert_tf.records.sidecar import read_metadata, sidecar_path
from data_prep.corpus import tokenized_corpus
from data_prep.corpus.statistics import Statistics
from data_prep.pretraining import shards, shuffle
from data_prep.pretraining.config import ASSIGNMENT, ROWS, PretrainingDataConfig
from data_prep.pretraining.job import make_pretraining_data
from helpers.letters import CONFIG, TOKENIZER, make_documents, unmasked_segments
from helpers.pretraining_jobs import digests, make, make_job


@pytest.fixture(scope="module")
def documents():
    return make_documents(700, np.random.default_rng(1))


def fingerprint(row):
    return tuple(np.concatenate([row[name].ravel() for name in sorted(row)]))


@pytest.fixture
def plans(monkeypatch):
    """A list that gets the text and the plan of each job."""
    found = []

    def keep(text, config, count):
        segments = [text.load(segment) for segment in range(len(text.names))]
        plan = shards.plan_rows(text, config, count)
        found.append((text, segments, plan))
        return plan

    monkeypatch.setattr("data_prep.pretraining.job.plan_rows", keep)
    return found


def test_rows_read_back_are_the_rows_made(documents, tmp_path, monkeypatch, plans):
    # Many runs and buckets, so that rows could get lost between them.
    monkeypatch.setattr(shards, "_ROWS_PER_BUCKET", 37)
    monkeypatch.setattr(shards, "_ROWS_PER_BLOCK", 11)
    job = make_job(documents[:200], CONFIG, tmp_path, files=3)
    report = make_pretraining_data(job)
    ((text, (segment,), plan),) = plans
    maker = shuffle.RowMaker(TOKENIZER, CONFIG, text)
    expected = Counter()
    for number, (_, first, end) in enumerate(plan.blocks.tolist()):
        for duplicate in range(CONFIG.dupe_factor):
            block = shuffle.RowBlock(0, first, end, number, duplicate)
            rng = CONFIG.rng(ROWS, number, duplicate)
            rows = shuffle.block_rows(maker, segment, block, rng, Statistics())
            expected.update(
                fingerprint({name: values[index] for name, values in rows.items()})
                for index in range(len(rows["input_ids"]))
            )
    read = Counter(
        fingerprint(row) for path in job.outputs.paths for row in read_rows(path)
    )
    assert read == expected
    assert report["rows"] == sum(read.values()) > 500
    assert not list((tmp_path / "out").glob(".*"))


def test_a_plan_deals_every_block_and_duplicate_once():
    config = PretrainingDataConfig(dupe_factor=7)
    blocks = np.arange(33).reshape(11, 3)
    dealt = config.rng(ASSIGNMENT).permutation(77)
    plan = shards.RowPlan(blocks, 128, dealt, 5, 7)
    parts = [plan.row_blocks(shard) for shard in range(5)]
    assert sorted(map(len, parts)) == [15, 15, 15, 16, 16]
    pairs = {(part.block, part.duplicate) for shard in parts for part in shard}
    assert pairs == {
        (block, duplicate) for block in range(11) for duplicate in range(7)
    }
    assert all(
        [part.segment, part.first, part.end] == blocks[part.block].tolist()
        for shard in parts
        for part in shard
    )


def test_same_seed_same_bytes_other_seed_other_bytes(documents, tmp_path):
    same, _ = make(documents[:90], CONFIG, tmp_path / "a")
    again, _ = make(documents[:90], CONFIG, tmp_path / "b")
    assert digests(same) == digests(again)
    sidecars = [sidecar_path(paths[0]).read_bytes() for paths in (same, again)]
    assert sidecars[0] == sidecars[1]
    other = PretrainingDataConfig(**{**vars(CONFIG), "random_seed": 54321})
    assert not set(digests(make(documents[:90], other, tmp_path / "c")[0])) & set(
        digests(same)
    )


def test_files_share_the_rows(documents, tmp_path):
    paths, _ = make(documents, CONFIG, tmp_path, files=4)
    counts = [read_metadata(path)["rows"] for path in paths]
    assert min(counts) > 0.5 * max(counts) > 0


def test_the_sidecar_tells_vocabulary_settings_and_numbers(documents, tmp_path):
    (path,), report = make(documents[:20], CONFIG, tmp_path, files=1)
    sidecar = read_metadata(path)
    assert sidecar["vocabulary_sha256"] == "letters"
    assert sidecar["max_seq_length"] == 67
    assert sidecar["max_predictions_per_seq"] == 11
    assert sidecar["random_seed"] == 12345
    assert sidecar["pair_objective"] == "sop"
    assert sidecar["statistics"]["rows"] == sidecar["rows"] == report["rows"]
    assert sidecar["text"]["documents"] == 20
    assert json.loads((tmp_path / "out" / "report.json").read_text())["documents"] == 20


def test_more_files_than_rows_are_an_error(tmp_path):
    with pytest.raises(ValueError, match="too short for 50 output files"):
        make([["a b c"], ["d e"]], CONFIG, tmp_path, files=50)
    assert not list((tmp_path / "out").glob("rows*"))


def test_text_without_a_row_is_an_error_and_leaves_no_file(tmp_path):
    with pytest.raises(ValueError, match="No row for"):
        make([["a"], ["b"]], CONFIG, tmp_path, files=1)
    assert not list((tmp_path / "out").glob("rows*"))


def test_one_document_is_too_little_for_next_sentence_pairs(documents, tmp_path):
    config = PretrainingDataConfig(**{**vars(CONFIG), "pair_objective": "nsp"})
    with pytest.raises(ValueError, match="pair_objective=nsp"):
        make(documents[:1], config, tmp_path, files=1)


# Next-sentence pairs.


def test_random_segments_come_from_another_document(tmp_path, monkeypatch, plans):
    """Every document is of one letter, in any block, segment and part."""
    monkeypatch.setattr(tokenized_corpus, "_SENTENCES_PER_BATCH", 40)
    monkeypatch.setattr(tokenized_corpus.tokenize_sentences, "__defaults__", (400,))
    monkeypatch.setattr(shards, "_ROWS_PER_BLOCK", 9)
    rng = np.random.default_rng(5)
    sizes = rng.integers(1, 30, 26)
    sizes[7] = 300  # fills several segments
    documents = [
        [" ".join([chr(97 + place) * 3] * 4) for _ in range(size)]
        for place, size in enumerate(sizes)
    ]
    settings = {"pair_objective": "nsp", "dupe_factor": 4}
    config = PretrainingDataConfig(**{**vars(CONFIG), **settings})
    paths, report = make(documents, config, tmp_path)
    seen = Counter()
    for path in paths:
        for row in read_rows(path):
            ((first, second),) = unmasked_segments({k: v[None] for k, v in row.items()})
            assert len(set(first.lower())) == len(set(second.lower())) == 1
            is_random = first[0].lower() != second[0].lower()
            assert is_random == row["next_sentence_labels"].item()
            seen[second[0].lower() if is_random else None] += 1
    rows = sum(seen.values())
    assert seen[None] / rows == pytest.approx(0.5, abs=0.05)
    assert report["pair_labels"] == {"next": seen[None], "random": rows - seen[None]}
    # All documents take part, not only those near by.
    assert len(seen) == 27
    ((text, _, plan),) = plans
    assert len(text.names) > 4 and len(plan.blocks) > 8
    assert text.first_documents[-1] == 26 and any(text.continues)


def test_pairs_in_order_have_label_0(documents, tmp_path):
    config = PretrainingDataConfig(**{**vars(CONFIG), "pair_objective": "none"})
    (path,), report = make(documents[:50], config, tmp_path, files=1)
    texts = " ".join("".join(map(TOKENIZER.words, d)) for d in documents[:50])
    compared = 0
    for row in read_rows(path):
        assert row["next_sentence_labels"].item() == 0
        ((first, second),) = unmasked_segments({k: v[None] for k, v in row.items()})
        if row["input_mask"].sum() < config.max_seq_length:
            assert first + second in texts
            compared += 1
    assert compared > 50
    assert report["pair_labels"]["in order"] == report["rows"]
