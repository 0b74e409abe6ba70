"""Evaluations: their graph, their speed, and reports with a count that is checked."""

import math

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints.load import weights_checkpoint
from albert_tf.config import TrainConfig
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.heads import PretrainingModel
from albert_tf.records.sidecar import read_record_set
from albert_tf.tasks.pretraining import PRETRAINING
from albert_tf.training.evaluation import evaluate_splits, finish_report
from albert_tf.training.evaluator import without_fill
from helpers.tiny import tiny_config, write_rows
from helpers.training_jobs import one_device


def test_a_report_has_its_count_first_and_no_nan(tmp_path):
    rows = read_record_set([write_rows(tmp_path / "rows.tfrecord", 3)], {})
    report = {"eval_loss": 0.5, "pearson": math.nan, "rows": 3.0}
    expected = {"eval_rows": 3, "eval_loss": 0.5, "pearson": None}
    assert finish_report(report, rows) == expected
    assert list(finish_report(report, rows)) == list(expected)


def test_a_count_that_is_not_the_sidecars_is_refused(tmp_path):
    rows = read_record_set([write_rows(tmp_path / "rows.tfrecord", 3)], {})
    with pytest.raises(ValueError, match=r"Counted 2 rows of .*, expected 3"):
        finish_report({"rows": 2.0}, rows)


def test_a_sample_says_of_how_many_rows_it_is(tmp_path):
    rows = read_record_set([write_rows(tmp_path / "rows.tfrecord", 5)], {})
    sample = np.array([1, 4])
    found = finish_report({"rows": 2.0}, rows, sample)
    assert found == {"eval_rows": 2, "eval_rows_of": 5}
    with pytest.raises(ValueError, match=r"Counted 5 .* expected 2"):
        finish_report({"rows": 5.0}, rows, sample)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_rows_are_computed_without_padding_and_counted_a_second(
    jit_compile, tmp_path, monkeypatch, capsys
):
    """XLA compiles no evaluation, so that it takes the inference form as well."""
    rows = read_record_set([write_rows(tmp_path / "rows.tfrecord", 5)], {})
    config = tiny_config()
    prefix = weights_checkpoint(PretrainingModel(config, seed=3), 0).write(
        str(tmp_path / "model.ckpt-0")
    )
    taken, infer = [], AlbertEncoder._infer
    monkeypatch.setattr(
        AlbertEncoder, "_infer", lambda *a: taken.append(a) or infer(*a)
    )
    train_config = TrainConfig("unused", eval_batch_size=3, jit_compile=jit_compile)
    splits = {"dev": rows}
    [evaluated] = evaluate_splits(
        PRETRAINING, config, train_config, prefix, splits, one_device()
    ).values()
    # Traced once for all batches.
    assert len(taken) == 1
    speed = evaluated.report["eval_examples_per_second"]
    assert evaluated.report["eval_rows"] == 5 and 0 < speed < 5 / 1e-3
    assert capsys.readouterr().out.endswith(f"dev: 5 rows, {speed:.1f} a second.\n")


@pytest.mark.parametrize("shape", [(3, 4), (3, 2, 4)])
def test_rows_that_fill_a_batch_are_padding(shape):
    mask = np.random.default_rng(1).integers(0, 2, shape)
    batch = {
        "input_mask": tf.constant(mask, tf.int32),
        "row_weight": tf.constant([1.0, 0.0, 1.0]),
    }
    found = without_fill(batch)
    assert found["row_weight"] is batch["row_weight"]
    expected = mask * np.reshape([1, 0, 1], [3, *[1] * (len(shape) - 1)])
    np.testing.assert_array_equal(found["input_mask"], expected)
    assert found["input_mask"].dtype == tf.int32
