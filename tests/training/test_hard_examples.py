"""Rows that are drawn by their last loss."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.records.bucketing import LengthBatches
from albert_tf.training.hard_examples import HardExamples, steps_of_round
from albert_tf.training.run import run
from helpers import fine_tuning_toys as toys
from helpers.training_jobs import (
    assert_equal_weights,
    one_device,
    train_until,
    two_devices,
    weights,
)

ROWS, BATCH = 37, 8
ROUND = 5


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("toys")


@pytest.fixture(scope="module")
def rows(place):
    return toys.write_rows(
        place / "train.tfrecord", toys.write_vocabulary(place), ROWS, 3
    )


def make_job(place, rows, folder, **changes):
    known = {"hard_examples": 1.0, "num_train_steps": 4 * ROUND, "eval_steps": 0}
    return toys.make_job(folder, place / "vocab.txt", rows, **(known | changes))


def state(losses, power=1.0, seed=4):
    losses = np.array(losses, np.float32)
    return HardExamples(power, seed, 6, tf.Variable(losses), tf.Variable(losses * 0))


def test_chances_are_powers_of_the_losses():
    losses = np.r_[np.full(500, 0.29), np.full(500, 0.99), np.full(500, -1.0)]
    for power in (1.0, 2.0):
        hard = state(losses, power)
        step = 3 * hard.steps_of_round
        drawn = hard.draw(step)
        assert drawn.shape == (hard.steps_of_round * 6,) and drawn.dtype == np.int64
        # A loss that is not known counts as the mean of the others, 0.64.
        expected = np.array([0.3, 1.0, 0.65]) ** power
        found = np.bincount(drawn // 500, minlength=3) / len(drawn)
        np.testing.assert_allclose(found, expected / expected.sum(), atol=0.04)
    assert hard.draw(0) is None, "in the first round every row comes once"


def test_a_round_that_is_resumed_draws_the_same():
    hard = state(np.linspace(0, 1, 40))
    begun = hard.draw(2 * hard.steps_of_round)
    hard.losses.assign(tf.ones([40]))
    resumed = hard.draw(2 * hard.steps_of_round + 3)
    assert np.array_equal(begun, resumed)
    after = hard.draw(3 * hard.steps_of_round)
    assert not np.array_equal(begun, after)
    np.testing.assert_array_equal(hard.round_losses, np.ones(40))


def test_the_last_losses_are_kept():
    hard = state([-1, 0.5, 0.25, -1, 3])
    kept = tf.constant([4, 1, 4, 2]), tf.constant([0.1, np.nan, 0.7, 2.0])
    tf.function(hard.keep)(*kept)
    np.testing.assert_allclose(hard.losses, [-1, 0.5, 2.0, -1, 0.7])


@pytest.mark.parametrize("by_length", [True, False])
def test_batches_hold_the_rows_that_were_drawn(rows, by_length):
    batches = LengthBatches(rows, BATCH, 4)
    drawn = np.random.default_rng(2).integers(0, ROWS, ROUND * BATCH)
    found = [r.numpy() for r, _, _ in batches.drawn(drawn, 9, 0, by_length)]
    assert [len(each) for each in found] == [BATCH] * ROUND
    assert sorted(np.concatenate(found)) == sorted(drawn)
    later = [r.numpy() for r, _, _ in batches.drawn(drawn, 9, 2, by_length)]
    np.testing.assert_array_equal(later, found[2:])
    for _, weight, length in batches.drawn(drawn, 9, 0, by_length):
        assert weight.numpy().tolist() == [1] * BATCH and length % 4 in (0, 1)


def test_the_rows_of_a_run_get_their_losses(place, rows, tmp_path):
    job = make_job(place, rows, tmp_path)
    assert steps_of_round(job) == ROUND
    results = run(job, one_device())
    assert results["global_step"] == 4 * ROUND and results["status"] == "finished"
    stored = {k.split("/")[0]: v for k, v in weights(tmp_path).items()}
    assert stored["row_losses"].shape == (ROWS,) and stored["row_losses"].min() >= 0
    assert len(np.unique(stored["row_losses"])) > ROWS / 2
    assert not np.array_equal(stored["row_losses"], stored["round_losses"])


def test_a_run_that_is_resumed_in_a_round_ends_alike(place, rows, tmp_path):
    run(make_job(place, rows, tmp_path / "whole"), one_device())
    job = make_job(place, rows, tmp_path / "stopped")
    train_until(job, 2 * ROUND + 3)
    run(job, one_device())
    found, expected = (weights(tmp_path / name) for name in ("stopped", "whole"))
    assert_equal_weights(found, expected)


def test_without_it_nothing_is_stored(place, rows, tmp_path):
    job = make_job(place, rows, tmp_path, hard_examples=0.0, num_train_steps=3)
    assert steps_of_round(job) == 0
    run(job, one_device())
    assert not any("losses" in name for name in weights(tmp_path))


def test_other_devices_are_refused(place, rows, tmp_path):
    with pytest.raises(ValueError, match=r"one replica.* Received 2 and 1"):
        run(make_job(place, rows, tmp_path / "two"), two_devices())
    job = make_job(place, rows, tmp_path / "parts", gradient_accumulation_steps=2)
    with pytest.raises(ValueError, match=r"one replica.* Received 1 and 2"):
        run(job, one_device())
