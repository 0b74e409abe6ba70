"""Evaluation of the current weights on rows: losses, metrics and predictions."""

import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import orbit
import tensorflow as tf
import tf_keras

from albert_tf.config import TrainConfig
from albert_tf.progress import progress_bar
from albert_tf.records import batches
from albert_tf.records.sidecar import RecordSet
from albert_tf.tasks import losses
from albert_tf.tasks.base import Task, join_rows
from albert_tf.training import devices
from albert_tf.training.loops import mean_metrics


class Evaluation(NamedTuple):
    """The result of an evaluation.

    Attributes:
      report: name -> mean loss or metric, and the number of rows.
      predictions: name -> [R, ...], as `Task.predictions` has them, in the order of the
        rows; empty if the task has none.
    """

    report: dict[str, Any]
    predictions: dict[str, np.ndarray]


class Evaluator(orbit.StandardEvaluator):
    """Losses, metrics and predictions of a task over all rows of a split.

    `evaluate` returns an `Evaluation`, whose report has the number of rows as `rows`,
    and `eval_examples_per_second`. Nothing is compiled by XLA but on TPUs, also with
    `jit_compile`, so the encoder takes its inference form (`model/inference.py`).
    """

    def __init__(
        self,
        task: Task,
        model: tf_keras.Model,
        record_set: RecordSet,
        config: TrainConfig,
        sample: np.ndarray | None = None,
    ):
        """Prepares the data; call it in the strategy's scope.

        Args:
          task: what to report.
          model: from `task.build_model`.
          record_set: evaluation rows, each counted once.
          config: its `eval_batch_size`, and how rows are padded.
          sample: places of the rows to evaluate, rising, int64; None: all rows.
        """
        self._task, self._model = task, model
        self._strategy = tf.distribute.get_strategy()
        # Tasks with predictions report their loss under the original's name, `eval_`.
        prefix = "eval_" if task.predictions else ""
        reported = task.evaluation_losses or task.losses
        numbers = {f"{prefix}{name}": loss for name, loss in reported.items()}
        self._numbers = {**numbers, **task.metrics}
        self._means = mean_metrics(self._numbers)
        self._rows = tf_keras.metrics.Sum("rows")
        self._began = 0.0
        multiple = batches.length_multiple(config, self._strategy)
        dataset = self._strategy.distribute_datasets_from_function(
            lambda context: batches.evaluation_batches(
                record_set, config.eval_batch_size, context, multiple, sample
            )
        )
        super().__init__(eval_dataset=dataset)

    def evaluate(self, num_steps: tf.Tensor) -> Evaluation:
        """Evaluates batches, and shows how far it is.

        Args:
          num_steps: their number, int32 [].
        """
        with progress_bar(int(num_steps), "batches", "Evaluation") as self._bar:
            return super().evaluate(num_steps)

    def eval_begin(self) -> list:
        """Starts the clock; returns the list that collects predictions."""
        for metric in (*self._means.values(), self._rows):
            metric.reset_state()
        self._began = time.monotonic()
        return []

    @tf.autograph.experimental.do_not_convert
    def eval_step(self, iterator: Iterator) -> dict[str, tf.Tensor]:
        """One global batch; runs inside the graph.

        Returns:
          Name -> predictions of the batch's rows, their places and weights; empty if
          the task has no predictions.
        """

        def replica_step(features):
            batch = without_fill(self._task.read_batch(features))
            outputs = self._model(batch, training=False)
            for name, number in self._numbers.items():
                weights = number.weights(batch)
                self._means[name].update_state(number.values(outputs, batch), weights)
            self._rows.update_state(losses.row_weights(batch))
            if not self._task.predictions:
                return {}
            places = {name: batch[name] for name in ("row_index", "row_weight")}
            return {**places, **self._task.predictions(outputs, batch)}

        predicted = self._strategy.run(replica_step, args=(next(iterator),))
        return {
            name: devices.all_rows(self._strategy, value)
            for name, value in predicted.items()
        }

    def eval_reduce(
        self,
        state: list | None = None,
        step_outputs: Mapping[str, tf.Tensor] | None = None,
    ) -> list | None:
        """Moves a batch's predictions to the host."""
        self._bar.update()
        if state is not None and step_outputs:
            values = {name: value.numpy() for name, value in step_outputs.items()}
            state.append(values)
        return state

    def eval_end(self, state: list | None = None) -> Evaluation:
        """The result, from the means and the collected predictions."""
        rows = float(self._rows.result())
        # Reading the number waits for the last batch.
        seconds = max(time.monotonic() - self._began, 1e-9)
        report = {name: float(mean.result()) for name, mean in self._means.items()}
        predictions = _in_order(state) if state else {}
        if predictions and self._task.host_metrics:
            report |= self._task.host_metrics(predictions)
        predictions.pop("row_index", None)
        report |= {"rows": rows, "eval_examples_per_second": rows / seconds}
        return Evaluation(report, predictions)


class ReportingEvaluator(orbit.AbstractEvaluator):
    """An evaluator whose output is the report alone, for orbit to print and store."""

    def __init__(self, evaluator: Evaluator):
        super().__init__()
        self._evaluator = evaluator

    def evaluate(self, num_steps: tf.Tensor) -> dict[str, Any]:
        """Evaluates so many batches; returns name -> mean loss or metric."""
        return self._evaluator.evaluate(num_steps).report


def without_fill(batch: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Makes padding of the rows that only fill the last batch.

    The inference form computes nothing for padding. The fill repeats the last row, the
    longest one if rows are sorted by length.

    Args:
      batch: features, with `row_weight` [B], 0 for such rows, and `input_mask`, int32
        [B, ...].
    """
    mask = batch["input_mask"]
    is_row = tf.cast(batch["row_weight"] > 0, mask.dtype)
    shape = [-1, *[1] * (mask.shape.rank - 1)]
    return {**batch, "input_mask": mask * tf.reshape(is_row, shape)}


def _in_order(parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Predictions of batches -> those of the real rows, in the order of the rows, and
    `row_index`, their places."""
    whole = {name: join_rows([part[name] for part in parts]) for name in parts[0]}
    real = np.flatnonzero(whole.pop("row_weight"))
    order = real[np.argsort(whole["row_index"][real], kind="stable")]
    return {name: values[order] for name, values in whole.items()}
