"""A model as it is on sets of rows: their scores and their predictions."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints.load import HEADS, load_weights
from albert_tf.config import AlbertConfig, TrainConfig
from albert_tf.model.precision import precision_policy
from albert_tf.records import batches
from albert_tf.records.sidecar import RecordSet
from albert_tf.tasks.base import Task
from albert_tf.training.loops import Evaluator


class Evaluation(NamedTuple):
    """What a model makes of a set.

    Attributes:
      report: name -> loss or score, and `eval_rows`; of rows without labels the losses
        and scores mean nothing.
      predictions: name -> [R, ...], as `Task.predictions` has them, in the set's order.
    """

    report: dict[str, Any]
    predictions: dict[str, np.ndarray]


def evaluate_sets(
    task: Task,
    model_config: AlbertConfig,
    train_config: TrainConfig,
    checkpoint: str,
    sets: Mapping[str, RecordSet],
    strategy: tf.distribute.Strategy,
) -> dict[str, Evaluation]:
    """Evaluates some weights on some sets, each row of them once.

    Args:
      task: what to compute.
      model_config: the weights' shape.
      train_config: batch size, precision and padding.
      checkpoint: as `checkpoints.load_weights` takes it.
      sets: name -> rows.
      strategy: the devices.
    Raises:
      ValueError: the checkpoint is of another model, or its head was never trained.
    """
    found = {}
    with strategy.scope():
        with precision_policy(train_config.precision):
            model = task.build_model(model_config, seed=train_config.random_seed)
        # Nothing may be missing: a head of random numbers predicts nothing.
        load_weights(model, checkpoint, unused_ok=HEADS)
        for name, rows in sets.items():
            evaluator = Evaluator(task, model, rows, train_config)
            steps = batches.evaluation_steps(rows, train_config.eval_batch_size)
            with batches.explain_corruption([rows]):
                report = evaluator.evaluate(tf.constant(steps))
            counted = counted_rows(report, rows)
            report = {"eval_rows": counted, **without_nan(report)}
            found[name] = Evaluation(report, evaluator.predictions)
    return found


def counted_rows(report: dict[str, Any], rows: RecordSet) -> int:
    """Takes the count of an evaluation out of its report and checks it.

    Raises:
      ValueError: it is not that of the sidecars.
    """
    counted = int(report.pop("rows"))
    if counted != rows.total_rows:
        raise ValueError(
            f"Counted {counted} rows, the sidecars say {rows.total_rows}: make the "
            "records again."
        )
    return counted


def without_nan(report: dict[str, Any]) -> dict[str, Any]:
    """None for what is not a number, for which JSON has no sign."""
    return {name: None if value != value else value for name, value in report.items()}
