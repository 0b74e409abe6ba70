"""One optimizer step: its report, and a gradient that is not finite."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.analysis.step_lowering import build_step
from albert_tf.config import OptimizerConfig, TrainConfig
from albert_tf.tasks.pretraining import PRETRAINING
from helpers.packed import alone_and_packed, as_batch
from helpers.tiny import tiny_config


def take_step(features, **changes):
    """The report of one step, and the weights before and after it."""
    config = tiny_config(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    optimizer = OptimizerConfig(learning_rate=0.01, num_warmup_steps=0)
    train = TrainConfig("unused", **changes)
    step = build_step(PRETRAINING, config, optimizer, train)
    before = [v.numpy() for v in step.model.trainable_variables]
    report = step(features, tf.constant([1, 2]))
    after = [v.numpy() for v in step.model.trainable_variables]
    return {name: float(mean) for name, (mean, _) in report.items()}, before, after


def test_a_step_reports_losses_and_norm_whatever_its_parts(features):
    report, before, after = take_step(features)
    assert report.keys() == {*PRETRAINING.losses, "gradient_norm", "skipped"}
    assert report["skipped"] == 0 and report["gradient_norm"] > 0
    assert any(not np.array_equal(*pair) for pair in zip(before, after, strict=True))
    parts, *_ = take_step(features, gradient_accumulation_steps=2)
    assert parts == pytest.approx(report, rel=1e-5)


def test_a_step_whose_gradient_is_not_finite_changes_no_weight(features):
    weights = tf.fill(features["masked_lm_weights"].shape, np.inf)
    broken = {**features, "masked_lm_weights": tf.cast(weights, tf.float32)}
    report, before, after = take_step(broken)
    assert report["skipped"] == 1 and report["gradient_norm"] == 0
    assert all(np.array_equal(*pair) for pair in zip(before, after, strict=True))


def test_a_step_of_packed_rows_is_that_of_the_same_pairs_unpacked():
    alone, packed, _ = alone_and_packed()
    names = packed.keys() - alone.keys()
    assert len(packed["input_ids"]) < len(alone["input_ids"]) and len(names) == 3
    expected, _, weights = take_step(as_batch(alone))
    report, _, packed_weights = take_step(as_batch(packed))
    assert report == pytest.approx(expected, rel=1e-4)
    for ours, theirs in zip(packed_weights, weights, strict=True):
        # The first step of an optimizer magnifies gradients of almost nothing.
        assert np.mean(np.isclose(ours, theirs, atol=1e-5)) > 0.98
