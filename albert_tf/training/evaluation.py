"""Evaluation of trained weights on splits: metrics and predictions."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints.load import HEADS, load_weights
from albert_tf.config import AlbertConfig, TrainConfig
from albert_tf.model.precision import precision_policy
from albert_tf.records import batches
from albert_tf.records.sidecar import RecordSet
from albert_tf.tasks.base import Task
from albert_tf.training.evaluator import Evaluation, Evaluator
from albert_tf.training.readable_rows import readable_rows


def evaluate_splits(
    task: Task,
    model_config: AlbertConfig,
    train_config: TrainConfig,
    checkpoint: str,
    splits: Mapping[str, RecordSet],
    strategy: tf.distribute.Strategy,
    use_ema: bool | None = None,
) -> dict[str, Evaluation]:
    """Evaluates weights on splits, each row once, and prints how fast.

    Args:
      task: what to compute.
      model_config: the model's configuration.
      train_config: batch size, precision and padding.
      checkpoint: as `checkpoints.load.load_weights` takes it.
      splits: name -> rows.
      strategy: the devices.
      use_ema: whether to take averaged weights; None: if there are any.
    Returns:
      Name of the split -> its metrics and predictions. The metrics of rows without
      labels mean nothing.
    Raises:
      ValueError: the checkpoint is of another model, or its head was never trained.
    """
    evaluations = {}
    with strategy.scope():
        with precision_policy(train_config.precision):
            model = task.build_model(model_config, seed=train_config.random_seed)
        # Nothing may be missing: a head of random numbers predicts nothing.
        loaded = load_weights(model, checkpoint, unused_ok=HEADS, use_ema=use_ema)
        if loaded.averaged:
            print(f"{checkpoint}: averaged weights.", flush=True)
        for name, rows in splits.items():
            steps = batches.evaluation_steps(rows, train_config.eval_batch_size)
            with (
                batches.explain_corruption([rows]),
                readable_rows(rows, strategy) as readable,
            ):
                evaluator = Evaluator(task, model, readable, train_config)
                evaluation = evaluator.evaluate(tf.constant(steps))
            report = finish_report(evaluation.report, rows)
            if task.details and rows.metadata.get("labelled", True):
                report |= task.details(evaluation.predictions)
            print(
                f"{name}: {report['eval_rows']:,} rows, "
                f"{report['eval_examples_per_second']:.1f} a second.",
                flush=True,
            )
            evaluations[name] = evaluation._replace(report=report)
    return evaluations


def finish_report(
    report: Mapping[str, Any], record_set: RecordSet, sample: np.ndarray | None = None
) -> dict[str, Any]:
    """An evaluator's report as JSON values, with its count of rows as `eval_rows`.

    Args:
      report: as of `Evaluation`; NaN becomes None, since JSON has no sign for it.
      record_set: the rows.
      sample: places of those that were evaluated; None: all of them. Of a sample the
        report has the number of rows that it is drawn from, too, as `eval_rows_of`.
    Raises:
      ValueError: the count of rows is not that of the sidecars.
    """
    metrics = dict(report)
    counted = int(metrics.pop("rows"))
    expected = record_set.total_rows if sample is None else len(sample)
    if counted != expected:
        raise ValueError(
            f"Counted {counted} rows of {record_set.paths[0]}, expected {expected} as "
            "the sidecars say: make the records again."
        )
    metrics = {name: None if v != v else v for name, v in metrics.items()}
    counts = {"eval_rows": counted}
    if sample is not None:
        counts["eval_rows_of"] = record_set.total_rows
    return {**counts, **metrics}
