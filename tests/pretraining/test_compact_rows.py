"""Rows that are made without masks have the text of those made with masks."""

import dataclasses
from collections import Counter

import numpy as np
import pytest

from albert_tf.records.compact import unpack_compact
from albert_tf.records.reader import read_rows
from albert_tf.records.sidecar import read_metadata, read_record_set
from data_prep.corpus.statistics import Statistics
from data_prep.pretraining import estimate, inspection
from data_prep.pretraining.config import PretrainingDataConfig
from data_prep.pretraining.rows import make_rows
from helpers.letters import CONFIG, TOKENIZER, make_documents, tokenize
from helpers.letters import unmasked_segments as segments_of
from helpers.pretraining_jobs import digests, make, make_job

COMPACT = dataclasses.replace(CONFIG, masking=None, dupe_factor=1)


@pytest.fixture(scope="module")
def documents():
    return make_documents(300, np.random.default_rng(1))


def stored_segments(path):
    """(first segment, second, label) of each row of a file as text."""
    for row in read_rows(path):
        ids, starts = unpack_compact([row["tokens"]], [row["word_starts"]], 2)
        split, label = int(row["segment_split"]), row["next_sentence_labels"].item()
        first, second = (TOKENIZER.decode(part) for part in np.split(ids[0], [split]))
        expected = [letter.isupper() for letter in first + second]
        expected[0] = expected[split] = True
        assert starts[0].tolist() == expected
        yield first, second, label


@pytest.mark.parametrize("objective", ["sop", "nsp", "none"])
def test_rows_have_the_text_of_static_rows(objective, documents, tmp_path):
    config = dataclasses.replace(COMPACT, pair_objective=objective)
    (path,), report = make(documents, config, tmp_path / "compact", files=1)
    with_masks = dataclasses.replace(CONFIG, pair_objective=objective, dupe_factor=1)
    (static,), _ = make(documents, with_masks, tmp_path / "static", files=1)
    expected = Counter()
    for row in read_rows(static):
        label = row["next_sentence_labels"].item()
        rows = {name: value[None] for name, value in row.items()}
        ((first, second),) = segments_of(rows)
        if objective == "sop":
            first, second = (second, first) if label == 1 else (first, second)
            label = min(label, 0)
        expected[first, second, label] += 1
    assert Counter(stored_segments(path)) == expected
    assert report["rows"] == sum(expected.values()) > 250
    without = {"inside a sentence, no order label"}
    if objective == "sop":
        assert set(report["pair_labels"]) == without
        assert 0 < report["pair_labels"].popitem()[1] < report["rows"] / 2
    else:
        assert not set(report["pair_labels"]) & without


def test_padding_and_tokens_are_counted_as_in_static_rows(documents):
    found = []
    for config in (COMPACT, dataclasses.replace(CONFIG, dupe_factor=1)):
        statistics = Statistics()
        rng = np.random.default_rng(2)
        make_rows(tokenize(documents), TOKENIZER, config, rng, statistics)
        found.append(
            (statistics.rows, statistics.row_pieces, statistics.padding_pieces)
        )
    assert found[0] == found[1]


def test_bytes_do_not_depend_on_processes_and_the_sidecar_says_all(documents, tmp_path):
    one, report = make(documents, COMPACT, tmp_path / "one", workers=1)
    two, _ = make(documents, COMPACT, tmp_path / "two", workers=2)
    assert digests(one) == digests(two)
    sidecar = read_metadata(one[0])
    assert sidecar["masking"] == "none" and sidecar["token_bytes"] == 2
    assert "masked_lm_prob" not in sidecar
    assert read_record_set(one, {}).compact_format.mask_id == TOKENIZER.mask_id
    # A second run keeps the files; one of other rows refuses them.
    assert (
        make(documents, COMPACT, tmp_path / "one")[1]["shards_kept_from_earlier_runs"]
        == 2
    )
    with pytest.raises(ValueError, match="made with dupe_factor=1, but"):
        make(documents, CONFIG, tmp_path / "one")
    with_masks = dataclasses.replace(CONFIG, dupe_factor=1)
    with pytest.raises(ValueError, match="made with max_predictions_per_seq=None"):
        make(documents, with_masks, tmp_path / "one")
    other, _ = make(documents, with_masks, tmp_path / "static", workers=1)
    with pytest.raises(ValueError, match="differ in masking"):
        read_record_set([one[0], other[0]], {})
    sizes = [
        sum(read_metadata(path)["bytes"] for path in paths) for paths in (one, other)
    ]
    assert sizes[0] < sizes[1] * 0.6 and report["record_bytes"] == sizes[0]


def test_the_estimate_is_near_the_outcome(documents, tmp_path):
    job = make_job(documents, COMPACT, tmp_path, files=1)
    predicted = estimate.estimate(job)
    _, report = make(documents, COMPACT, tmp_path, files=1)
    for name in ("rows", "record_bytes"):
        assert predicted[name] == pytest.approx(report[name], rel=0.05)


def test_rows_are_shown_and_keep_the_contract(documents, tmp_path):
    (path,), _ = make(documents[:60], COMPACT, tmp_path, files=1)
    assert list(inspection.find_problems(path)) == []
    metadata = inspection.read_pretraining_metadata(path)
    row = next(read_rows(path))
    first, second, _ = next(iter(stored_segments(path)))
    text = inspection.describe_row(row, metadata)
    count = len(first) + len(second)
    assert text.startswith(f"{count} tokens of ")
    assert "no masks, order drawn by training" in text.splitlines()[0]
    shown = "".join(text.splitlines()[1:]).replace("A:", "").replace("B:", "").split()
    assert TOKENIZER.decode(map(int, shown)) == first + second


def test_several_passes_are_refused():
    with pytest.raises(ValueError, match=r"dupe_factor must be 1 .* Received 7"):
        PretrainingDataConfig(masking=None, dupe_factor=7)
