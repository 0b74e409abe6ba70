"""Masks that cannot be drawn are refused; rates follow the step."""

import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.records.masking_config import (
    MaskingConfig,
    ReadTimeMasks,
    needed_predictions,
)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"masked_lm_prob": 0.0}, "masked_lm_prob .* Received 0.0"),
        ({"masked_lm_prob": 0.81}, r"above 0 and at most 0\.8 .* Received 0\.81"),
        ({"masked_lm_prob_end": 0.0}, "masked_lm_prob_end must be above 0"),
        ({"masked_lm_prob_end": 0.9}, "masked_lm_prob_end .* Received 0.9"),
        ({"masked_lm_prob_end": 0.3, "num_train_steps": 0}, "num_train_steps"),
        ({"masked_lm_prob_end_step": 7}, "needs the rate from that step on"),
        ({"masked_lm_prob_end_step": -1}, "must be 0 or a step. Received -1"),
        ({"replace_with_mask": 0.9}, r"add up to 1.* Received 0\.9, 0\.1, 0\.1"),
        ({"replace_with_keep": -0.1, "replace_with_random": 0.3}, "add up to 1"),
        ({"replace_with_keep": float("nan")}, "add up to 1"),
        ({"ngram": 0}, "ngram must be from 1"),
    ],
)
def test_masks_that_cannot_be_drawn_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        ReadTimeMasks.for_length(128, **{"num_train_steps": 10, **change})


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, [0.4, 0.4, 0.4, 0.4]),
        ({"masked_lm_prob_end": 0.1, "num_train_steps": 100}, [0.4, 0.37, 0.1, 0.1]),
        (
            {"masked_lm_prob_end": 0.1, "masked_lm_prob_end_step": 10},
            [0.4, 0.1, 0.1, 0.1],
        ),
        (
            {"masked_lm_prob_end": 0.1, "masked_lm_prob_end_step": 11},
            [0.4, 0.4, 0.1, 0.1],
        ),
    ],
)
def test_the_rate_is_a_function_of_the_step(change, expected):
    masks = ReadTimeMasks.for_length(128, masked_lm_prob=0.4, **change)
    steps = np.array([0.0, 10.0, 100.0, 200.0])
    assert masks.rate(steps) == pytest.approx(expected)
    assert np.array_equal(masks.rate(tf.constant(steps)).numpy(), masks.rate(steps))


def test_predictions_are_what_the_largest_rate_needs_unless_they_are_given():
    assert needed_predictions(512, 0.15) == 77
    rising = {"masked_lm_prob_end": 0.3, "num_train_steps": 5}
    assert ReadTimeMasks.for_length(100, **rising).masking.max_predictions_per_seq == 30
    falling = ReadTimeMasks.for_length(100, masked_lm_prob_end=0.05, num_train_steps=5)
    assert falling.masking.max_predictions_per_seq == 15
    assert ReadTimeMasks.for_length(100, 7).masking.max_predictions_per_seq == 7


def test_values_that_decide_the_masks_are_json():
    linear = ReadTimeMasks.for_length(100, masked_lm_prob_end=0.05, num_train_steps=5)
    values = json.loads(json.dumps(linear.to_dict()))
    assert values["masked_lm_prob"] == 0.15 and values["masked_lm_prob_steps"] == 5
    # Without a linear change the number of steps decides nothing.
    other = [
        ReadTimeMasks.for_length(100, num_train_steps=steps).to_dict()
        for steps in (5, 6)
    ]
    assert other[0] == other[1]


def test_the_paper_s_shares_are_the_default():
    assert MaskingConfig().replacement_bounds == (0.8, 0.9)
