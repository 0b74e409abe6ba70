"""Losses and best spans of question answering against plain formulas."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.tasks import span_losses
from helpers.span_batches import MASKED, random_batch


@pytest.mark.parametrize("length", [8, 11, 17])
def test_best_spans_are_the_best_of_all_that_are_allowed(length):
    batch = random_batch(rows=5, length=length, seed=length, paddings=1)
    rng = np.random.default_rng(length)
    outputs = {
        name: tf.constant(rng.normal(size=(5, length)), tf.float32)
        for name in ("start_logits", "end_logits")
    }
    longest, count = 4, 23
    found = span_losses.best_spans(count, longest)(outputs, batch)
    assert {tuple(value.shape) for value in found.values()} == {(5, count)}
    for row in range(5):
        may_start = np.flatnonzero(batch["token_is_max_context"][row])
        may_end = np.flatnonzero(batch["input_mask"][row] * (1 - batch["p_mask"][row]))
        wanted = sorted(
            (
                (
                    -float(outputs["start_logits"][row, start])
                    - float(outputs["end_logits"][row, end]),
                    start,
                    end,
                )
                for start, end in itertools.product(may_start, may_end)
                if start <= end < start + longest
            )
        )[:count]
        real = found["span_scores"][row] > MASKED
        assert np.sum(real) == len(wanted)
        for place, (score, start, end) in enumerate(wanted):
            assert found["span_starts"][row, place] == start
            assert found["span_ends"][row, place] == end
            np.testing.assert_allclose(
                found["span_scores"][row, place], -score, atol=1e-6
            )


def test_a_certain_model_loses_nothing_and_a_blind_one_the_logarithm_of_the_length():
    batch = random_batch(rows=3, length=9, seed=1)
    sure = {
        f"{name}_logits": 100 * tf.one_hot(batch[f"{name}_positions"], 9)
        for name in ("start", "end")
    }
    np.testing.assert_allclose(span_losses.span_loss(sure, batch), 0, atol=1e-5)
    blind = dict.fromkeys(sure, tf.zeros([3, 9]))
    np.testing.assert_allclose(
        span_losses.span_loss(blind, batch), np.log(9), rtol=1e-6
    )
    log_probs = {"start_log_probs": tf.fill([3, 9], -3.0)}
    log_probs["end_log_probs"] = tf.fill([3, 9], -5.0)
    assert (
        span_losses.conditional_span_loss(log_probs, batch).numpy().tolist() == [4] * 3
    )


def test_half_the_cross_entropy_of_answerability():
    outputs = {"no_answer_logits": tf.constant([0.0, 2.0])}
    loss = span_losses.half_answerability_loss(
        outputs, {"is_impossible": tf.constant([1, 0])}
    )
    expected = [np.log(2) / 2, np.log1p(np.exp(2.0)) / 2]
    np.testing.assert_allclose(loss, expected, rtol=1e-6)
