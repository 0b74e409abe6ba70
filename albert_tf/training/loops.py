"""The inner loops, as orbit's controller calls them: steps of training and evaluation.

What an optimizer step computes is in `train_step.py`.
"""

import time
from typing import Any

import numpy as np
import orbit
import tensorflow as tf
import tf_keras

from albert_tf.config import OptimizerConfig, TrainConfig
from albert_tf.records import batches
from albert_tf.records.sidecar import RecordSet
from albert_tf.tasks import losses
from albert_tf.tasks.base import Task
from albert_tf.training import devices, optimization
from albert_tf.training.step import TrainStep

_LENGTH_MULTIPLE, _XLA_LENGTH_MULTIPLE = 8, 64


class Trainer(orbit.StandardTrainer):
    """Optimizer steps of one task on one set of rows."""

    def __init__(
        self,
        task: Task,
        model,
        optimizer,
        configs: tuple[OptimizerConfig, TrainConfig],
        rows: RecordSet,
    ):
        """Args:
        task: what to minimise.
        model: made under the strategy in scope.
        optimizer: built on the model's trainable variables.
        configs: the optimizer's and the loop's.
        rows: what to train on.
        """
        self._optimizer_config, self._config = configs
        self._rows = rows
        self._strategy = tf.distribute.get_strategy()
        self._check_batch_size()
        self._step_function = TrainStep(
            task,
            model,
            optimizer,
            self._optimizer_config,
            self._config.gradient_accumulation_steps,
            self._config.jit_compile,
        )
        self.global_step = optimizer.iterations
        self._means = _mean_metrics([*task.losses, "gradient_norm", "skipped"])
        self._input_seconds = None
        self.train_seconds = tf.Variable(0.0, trainable=False)
        self.skipped_in_a_row = _counter()
        self.longest_skip = _counter()
        self._began = None
        super().__init__(train_dataset=None)

    @property
    def state(self) -> dict[str, tf.Variable]:
        """What a checkpoint keeps of the loop beside weights, moments and step."""
        return {
            "train_seconds": self.train_seconds,
            "skipped_in_a_row": self.skipped_in_a_row,
        }

    def _check_batch_size(self):
        replicas = self._strategy.num_replicas_in_sync
        parts = self._config.gradient_accumulation_steps
        if self._config.train_batch_size % (replicas * parts):
            raise ValueError(
                f"A batch of {self._config.train_batch_size} rows cannot be shared by "
                f"{replicas} replicas in {parts} gradient accumulation steps: use a "
                f"multiple of {replicas * parts}."
            )

    def train_loop_begin(self):
        """Starts the clock; opens the data where the step count says."""
        if self.train_dataset is None:
            # Made here, outside the strategy's scope: it stays on the host.
            self._input_seconds = tf.Variable(0.0, dtype=tf.float64)
            first_step = int(self.global_step.numpy())
            self.train_dataset = self._strategy.distribute_datasets_from_function(
                lambda context: batches.training_batches(
                    self._rows,
                    self._config.train_batch_size,
                    self._config.random_seed,
                    first_step,
                    context,
                    length_multiple(self._config, self._strategy),
                )
            )
        for mean in self._means.values():
            mean.reset_state()
        self._input_seconds.assign(0.0)
        self.longest_skip.assign(self.skipped_in_a_row)
        self._began = (time.monotonic(), int(self.global_step.numpy()))

    def train_step(self, iterator):
        """One optimizer step on the next global batch; runs inside the graph."""
        before = tf.timestamp()
        with tf.control_dependencies([before]):
            features = next(iterator)
        with tf.control_dependencies(tf.nest.flatten(features, expand_composites=True)):
            self._input_seconds.assign_add(tf.timestamp() - before)
        self._strategy.run(self._replica_step, args=(features,))

    def _replica_step(self, features):
        report = self._step_function(features, self._dropout_seed())
        for name, (mean, weight) in report.items():
            self._means[name].update_state(mean, weight)
        skipped = tf.cast(report["skipped"][0], tf.int32)
        in_a_row = skipped * (self.skipped_in_a_row + 1)
        self.skipped_in_a_row.assign(in_a_row)
        self.longest_skip.assign(tf.maximum(self.longest_skip, in_a_row))

    def _dropout_seed(self):
        """int32 [2], another in every step and on every replica."""
        step = tf.cast(self.global_step, tf.int32)
        seed = tf.stack([tf.constant(self._config.random_seed, tf.int32), step])
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        return tf.random.experimental.stateless_fold_in(seed, replica)

    def train_loop_end(self) -> dict[str, Any]:
        """Means over the loop, speed, and the time that is left."""
        start, first_step = self._began
        step = int(self.global_step.numpy())
        seconds = max(time.monotonic() - start, 1e-9)
        self.train_seconds.assign_add(seconds)
        steps = step - first_step
        left = (self._optimizer_config.num_train_steps - step) * seconds / steps
        rate = optimization.learning_rate(self._optimizer_config)(step - 1)
        means = {name: float(mean.result()) for name, mean in self._means.items()}
        means["skipped_steps"] = round(means.pop("skipped") * steps)
        return {
            **means,
            "learning_rate": float(rate),
            "examples_per_second": steps * self._config.train_batch_size / seconds,
            "waiting_for_input": float(self._input_seconds.numpy()) / seconds,
            "minutes_left": left / 60,
        }


class Evaluator(orbit.StandardEvaluator):
    """A task's losses, metrics and predictions over a whole set of rows."""

    def __init__(self, task: Task, model, record_set: RecordSet, config: TrainConfig):
        """Args:
        task: what to report.
        model: from `task.build_model`, made under the strategy in scope.
        record_set: evaluation rows, each counted once.
        config: its `eval_batch_size`, and how rows are padded.
        """
        self._task, self._model = task, model
        self._strategy = tf.distribute.get_strategy()
        # Where data sets have scores, the loss too is called the original's name.
        prefix = "eval_" if task.predictions else ""
        numbers = {f"{prefix}{name}": loss for name, loss in task.losses.items()}
        self._numbers = {**numbers, **task.metrics}
        self._means = _mean_metrics(self._numbers)
        self._rows = tf_keras.metrics.Sum("rows")
        self.predictions: dict[str, np.ndarray] = {}
        multiple = length_multiple(config, self._strategy)
        dataset = self._strategy.distribute_datasets_from_function(
            lambda context: batches.evaluation_batches(
                record_set, config.eval_batch_size, context, multiple
            )
        )
        super().__init__(eval_dataset=dataset)

    def eval_begin(self) -> list | None:
        """Forgets the last evaluation; returns where predictions are collected."""
        for metric in (*self._means.values(), self._rows):
            metric.reset_state()
        return [] if self._task.predictions else None

    def eval_step(self, iterator):
        """One global batch; runs inside the graph. Returns its rows' predictions."""

        def replica_step(features):
            batch = self._task.read_batch(features)
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

    def eval_reduce(self, state=None, step_outputs=None):
        """Moves a batch's predictions to the host."""
        if state is not None:
            values = {name: value.numpy() for name, value in step_outputs.items()}
            state.append(values)
        return state

    def eval_end(self, state=None) -> dict[str, Any]:
        """Name -> mean or score, and `rows`, how many were counted.

        The rows' predictions are in `predictions` then, [R, ...], in the set's order.
        """
        report = {name: float(mean.result()) for name, mean in self._means.items()}
        if state:
            self.predictions = _in_order(state)
            if self._task.host_metrics:
                report |= self._task.host_metrics(self.predictions)
        return {**report, "rows": float(self._rows.result())}


def _in_order(parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Predictions of batches -> those of the rows that count, in the set's order."""
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    places, weights = whole.pop("row_index"), whole.pop("row_weight")
    real = np.flatnonzero(weights)
    order = real[np.argsort(places[real], kind="stable")]
    return {name: values[order] for name, values in whole.items()}


def length_multiple(config: TrainConfig, strategy: tf.distribute.Strategy) -> int:
    """What batches are padded to a multiple of; 0: all to the longest allowed.

    A TPU compiles one shape of a batch, and so do all steps there. XLA elsewhere
    compiles each shape once, so there are few of them.
    """
    if not config.length_buckets or isinstance(strategy, tf.distribute.TPUStrategy):
        return 0
    return _XLA_LENGTH_MULTIPLE if config.jit_compile else _LENGTH_MULTIPLE


def _mean_metrics(names) -> dict[str, tf_keras.metrics.Mean]:
    return {name: tf_keras.metrics.Mean(name) for name in names}


def _counter() -> tf.Variable:
    return tf.Variable(
        0, trainable=False, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA
    )
