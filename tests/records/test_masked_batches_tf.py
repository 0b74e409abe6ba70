"""Masked batches are the same for any workers, blocks and resumptions."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.records import batches, lanes, masked_batches_tf
from albert_tf.records.features import pretraining_features
from albert_tf.records.masking_config import ReadTimeMasks
from albert_tf.records.sidecar import read_record_set
from helpers import compact_rows
from helpers.numbered import ONE, contexts

LENGTH, COUNT, SIZE, STEPS = 23, 60, 8, 10


def write(folder, metadata=None, count=COUNT):
    text = compact_rows.pairs(count, LENGTH, np.random.default_rng(1))
    metadata = compact_rows.metadata(LENGTH) if metadata is None else metadata
    return compact_rows.write(folder / "rows.tfrecord", text, metadata)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    found = read_record_set([write(tmp_path_factory.mktemp("compact"))], {})
    masks = ReadTimeMasks.for_length(
        LENGTH, masked_lm_prob=0.15, masked_lm_prob_end=0.6, num_train_steps=STEPS
    )
    return dataclasses.replace(found, masks=masks)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(masked_batches_tf, "_ROWS_PER_BLOCK", 24)


@pytest.fixture
def in_lanes(monkeypatch):
    monkeypatch.setattr(lanes, "_ROWS_IN_MEMORY", 10)
    monkeypatch.setattr(lanes, "_LANES", 4)


def training(rows, steps, first_step=0, context=ONE):
    """Features of some per-replica batches, stacked."""
    stream = batches.training_batches(rows, SIZE, 5, first_step, context)
    found = [*stream.take(steps).as_numpy_iterator()]
    return {name: np.stack([part[name] for part in found]) for name in found[0]}


def evaluation(rows, size=SIZE, context=ONE, sample=None):
    stream = batches.evaluation_batches(rows, size, context, sample=sample)
    return [*stream.as_numpy_iterator()]


def assert_equal(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert np.array_equal(found[name], value), name


def test_workers_and_replicas_see_the_rows_and_masks_of_one(rows):
    whole = training(rows, STEPS)
    parts = [training(rows, 2 * STEPS, context=each) for each in contexts(2, 2)]
    for name, value in whole.items():
        shape = STEPS, -1, *value.shape[2:]
        joined = [part[name].reshape(shape) for part in parts]
        assert np.array_equal(np.concatenate(joined, axis=1), value), name


@pytest.mark.usefixtures("in_lanes")
def test_a_resumed_run_goes_on_with_the_same_masks(rows, monkeypatch):
    whole = training(rows, STEPS)
    rest = {name: value[7:] for name, value in whole.items()}
    assert_equal(training(rows, STEPS - 7, 7), rest)
    monkeypatch.setattr(masked_batches_tf, "_ROWS_PER_BLOCK", 40)
    assert_equal(training(rows, STEPS), whole)


def test_epochs_and_seeds_have_other_masks(rows):
    epochs = training(rows, 2 * COUNT // SIZE + 1)
    ids = epochs["masked_lm_positions"].reshape(-1, epochs["masked_lm_ids"].shape[-1])
    first, second = ids[:COUNT], ids[COUNT : 2 * COUNT]
    assert len(np.unique(first, axis=0)) > 0.8 * COUNT
    assert not np.array_equal(np.unique(first, axis=0), np.unique(second, axis=0))
    masks = dataclasses.replace(rows.masks, random_seed=6)
    other = training(dataclasses.replace(rows, masks=masks), 5)
    same = {name: value[:5] for name, value in epochs.items()}
    assert np.array_equal(other["input_mask"], same["input_mask"])
    assert not np.array_equal(other["masked_lm_positions"], same["masked_lm_positions"])


def test_the_rate_follows_the_step(rows):
    found = training(rows, STEPS)
    lengths = found["input_mask"].sum(axis=-1)
    rates = 0.15 + 0.45 * np.arange(STEPS)[:, None] / STEPS
    budget = np.maximum(np.rint(lengths * rates), 1)
    weights = found["masked_lm_weights"].sum(axis=-1)
    assert np.all(weights <= budget) and weights.sum() > 0.9 * budget.sum()
    assert (
        rows.masks.masking.max_predictions_per_seq
        == 14
        == found["masked_lm_ids"].shape[-1]
    )


def test_evaluation_masks_each_row_always_alike(rows):
    def by_row(parts):
        found = {}
        for part in parts:
            for row in np.flatnonzero(part["row_weight"]):
                values = {name: value[row].tolist() for name, value in part.items()}
                ids = part["input_ids"][row].copy()
                used = part["masked_lm_weights"][row] > 0
                places = part["masked_lm_positions"][row][used]
                ids[places] = part["masked_lm_ids"][row][used]
                found[tuple(ids)] = values
        return found

    whole = by_row(evaluation(rows))
    assert len(whole) == COUNT
    sample = np.array([3, 40, 41, 50, 59])
    part = by_row(evaluation(rows, 4, sample=sample))
    assert len(part) == 5 and part.items() <= whole.items()


def test_batches_have_fixed_shapes_under_the_names_of_static_rows(rows):
    expected = {
        name: (SIZE // 2, *feature.shape)
        for name, feature in pretraining_features(LENGTH, 14).items()
    }
    del expected["token_boundary"]
    [context] = contexts(1, 2)
    stream = batches.training_batches(rows, SIZE, 5, 0, context)
    found = {name: tuple(spec.shape) for name, spec in stream.element_spec.items()}
    assert found == expected
    stream = batches.evaluation_batches(rows, SIZE, context)
    found = {name: tuple(spec.shape) for name, spec in stream.element_spec.items()}
    assert found == {**expected, "row_weight": (SIZE // 2,)}


def test_rows_without_masks_are_not_read_as_they_are(rows):
    plain = dataclasses.replace(rows, masks=None)
    for read in (
        lambda: training(plain, 1),
        lambda: evaluation(plain),
    ):
        with pytest.raises(ValueError, match="rows without masks: say how to mask"):
            read()


@pytest.mark.parametrize(
    "change",
    [
        {"token_bytes": 4},
        {"mask_id": 700},
        {"cls_id": None},
        {"ordinary_ids": [[5, 5]]},
        {"ordinary_ids": [[5, 701]]},
        {"ordinary_ids": []},
        {"pair_objective": "spo"},
        {"max_seq_length": 4},
    ],
)
def test_sidecars_that_cannot_be_of_such_rows_are_refused(change, tmp_path):
    path = write(tmp_path, {**compact_rows.metadata(LENGTH), **change}, 5)
    rows = read_record_set([path], {})
    name = next(iter(change))
    with pytest.raises(ValueError, match=f"sidecar of {path} says {name}="):
        assert rows.compact_format


def test_damaged_rows_are_an_error_of_the_batch(tmp_path):
    path = write(tmp_path, {**compact_rows.metadata(11)}, 30)
    masks = ReadTimeMasks.for_length(11)
    rows = dataclasses.replace(read_record_set([path], {}), masks=masks)
    with pytest.raises(tf.errors.InvalidArgumentError, match="make the records again"):
        training(rows, 1)
