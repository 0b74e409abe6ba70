"""Samples for short evaluations: drawn from the whole set, by seed, whole questions."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.records import batches
from albert_tf.records.features import Feature
from albert_tf.records.sampling import sample_rows
from albert_tf.records.sidecar import read_record_set
from albert_tf.records.writer import write_records
from helpers.tiny import write_rows

COUNT = 41
# Question -> its number of rows.
SIZES = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5}


@pytest.fixture(scope="module")
def fixed(tmp_path_factory):
    path = write_rows(tmp_path_factory.mktemp("fixed") / "rows", COUNT)
    return read_record_set([str(path)], {})


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    features = {"question_id": Feature((), "string"), "input_ids": Feature((None,))}
    names = [name for name, size in SIZES.items() for _ in range(size)]
    rows = [
        {"question_id": name.encode(), "input_ids": [place, *range(9 - place % 7)]}
        for place, name in enumerate(names)
    ]
    path = tmp_path_factory.mktemp("questions") / "rows"
    write_records(path, rows, features, {"max_seq_length": 12})
    return names, read_record_set([str(path)], {})


def test_a_sample_is_a_function_of_the_seed_and_reaches_all_rows(fixed):
    samples = [sample_rows(fixed, 7, seed) for seed in range(40)]
    for sample in samples:
        assert len(sample) == 7 and (np.diff(sample) > 0).all()
    assert np.array_equal(samples[3], sample_rows(fixed, 7, 3))
    counts = np.bincount(np.concatenate(samples), minlength=COUNT)
    assert len(counts) == COUNT and counts.min() > 0 and counts.max() < 20
    assert sample_rows(fixed, COUNT, 1) is None


@pytest.mark.parametrize("most", [1, 4, 9, 14])
def test_questions_are_drawn_whole(questions, most):
    names, record_set = questions
    drawn = set()
    for seed in range(30):
        sample = sample_rows(record_set, most, seed)
        chosen = {names[place] for place in sample}
        expected = [place for place, name in enumerate(names) if name in chosen]
        assert sample.tolist() == expected
        # One question at least, even if it alone has more rows.
        assert len(sample) <= most or len(chosen) == 1
        drawn |= chosen
    assert drawn == SIZES.keys()


@pytest.mark.parametrize("size", [1, 3, 10])
def test_an_evaluation_reads_the_rows_of_the_sample_once(fixed, questions, size):
    context = tf.distribute.InputContext(1, 0, 1)
    sample = np.array([0, 5, 6, 12])
    found = [*batches.evaluation_batches(questions[1], size, context, 8, sample)]
    assert len(found) == batches.evaluation_steps(questions[1], size, sample)
    real = np.concatenate([b["row_index"][b["row_weight"] > 0] for b in found])
    assert sorted(real) == sample.tolist()
    whole = next(iter(batches.evaluation_batches(fixed, COUNT, context)))
    found = [*batches.evaluation_batches(fixed, size, context, sample=sample)]
    ids = np.concatenate([b["input_ids"][b["row_weight"] > 0] for b in found])
    assert np.array_equal(ids, whole["input_ids"].numpy()[sample])
