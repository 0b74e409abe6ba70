"""The inner loop that orbit's controller calls: steps of training.

`step.py` has what an optimizer step computes.
"""

import dataclasses
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import orbit
import tensorflow as tf
import tf_keras

from albert_tf.progress import say
from albert_tf.records import batches
from albert_tf.records.cutting import MASKED_TOKENS_CUT
from albert_tf.training import devices, optimization, phases, schedules
from albert_tf.training.hard_examples import HardExamples
from albert_tf.training.job import Job
from albert_tf.training.loss_scale import create_loss_scale
from albert_tf.training.step import ROW_LOSSES, TrainStep


class Trainer(orbit.StandardTrainer):
    """Optimizer steps of a job on its training rows.

    Attributes:
      train_seconds: time spent in loops, those before a resumption included.
      loop_seconds: that of the last loop alone.
      longest_skip: the most steps in a row, up to now in this loop, whose gradients
        were not finite. In float16 only those count that had the lowest loss scale:
        others lower it.
    """

    train_dataset: Any

    def __init__(self, job: Job, model: tf_keras.Model, optimizer: optimization.AdamW):
        """Prepares the step; opens no data. Call it in the strategy's scope.

        Args:
          job: a job with training rows.
          model: from `job.task.build_model`.
          optimizer: built on the variables to train.
        Raises:
          ValueError: the replicas cannot share a batch evenly.
        """
        if job.train_rows is None:
            raise ValueError("Training needs rows: the job's train_rows are None.")
        self._optimizer_config, self._config = job.optimizer_config, job.train_config
        self._optimizer = optimizer
        self._phases, self._sets = job.all_phases, job.train_sets
        # That of the steps of the current loop.
        self._place: tuple[phases.Place, int] | None = None
        self._hard_examples = HardExamples.of_job(job)
        self._strategy = tf.distribute.get_strategy()
        self._check_batch_size()
        self._loss_scale = create_loss_scale(self._config.precision)
        self._depths, self._all_layers = job.depths, job.model_config.num_hidden_layers
        self._make_step = partial(
            TrainStep,
            job.task,
            model,
            optimizer,
            self._config.gradient_accumulation_steps,
            self._config.jit_compile,
            self._loss_scale,
            keeps_row_losses=self._hard_examples is not None,
        )
        # Layers that the steps of the current loop apply; None: all.
        self._num_layers = self._depths.layers_after(0)
        self._step_function = self._make_step(self._num_layers)
        self.global_step = optimizer.iterations
        names = [*job.task.losses, "gradient_norm", "skipped"]
        if any(phases.loses_masks(self._sets, phase) for phase in self._phases):
            names.append(MASKED_TOKENS_CUT)
        self._means = mean_metrics(names)
        # Made at the first loop, outside the strategy's scope, so it stays on the host.
        self._input_seconds: Any = None
        self.train_seconds = tf.Variable(0.0, trainable=False)
        self.skipped_in_a_row = devices.shared_number(0)
        self.longest_skip = devices.shared_number(0)
        # What the last loop took.
        self.loop_seconds = 0.0
        # The clock and the step at which a loop began.
        self._began = (0.0, 0)
        super().__init__(train_dataset=None)

    @property
    def state(self) -> dict[str, tf.Variable]:
        """Variables that a checkpoint stores besides weights, moments and step."""
        return {
            "train_seconds": self.train_seconds,
            "skipped_in_a_row": self.skipped_in_a_row,
            **(self._loss_scale.state if self._loss_scale else {}),
            **(self._hard_examples.state if self._hard_examples else {}),
        }

    def _seconds(self) -> float:
        return float(self.train_seconds.numpy())

    def _check_batch_size(self) -> None:
        replicas = self._strategy.num_replicas_in_sync
        parts = self._config.gradient_accumulation_steps
        for phase in self._phases:
            if phase.batch_size % (replicas * parts):
                raise ValueError(
                    f"A batch of {phase.batch_size} rows cannot be shared by {replicas}"
                    f" replicas in {parts} gradient accumulation steps: use a multiple "
                    f"of {replicas * parts}."
                )

    def train_loop_begin(self) -> None:
        """Starts the clock; at the beginning of a phase, and the first time, opens the
        data at the current step."""
        if self._input_seconds is None:
            self._input_seconds = tf.Variable(0.0, dtype=tf.float64)
        self.open_data()
        self._set_depth(self._depths.layers_after(int(self.global_step.numpy())))
        for mean in self._means.values():
            mean.reset_state()
        self._input_seconds.assign(0.0)
        self.longest_skip.assign(self.skipped_in_a_row)
        if self._optimizer.time_share is not None:
            share = schedules.share_of_time(
                devices.chiefs_seconds(self._strategy, self._seconds()),
                self._config.max_train_hours,
            )
            self._optimizer.time_share.assign(share)
        self._began = (time.monotonic(), int(self.global_step.numpy()))

    def _set_depth(self, num_layers: int | None) -> None:
        """Makes the graph of the next steps anew if they apply other layers."""
        if num_layers != self._num_layers:
            self._num_layers = num_layers
            self._step_function = self._make_step(num_layers)
            self._train_loop_fn = None

    def open_data(self) -> None:
        """Opens the rows of the current step's phase, or of its round of hard examples,
        if another one's are open."""
        step = int(self.global_step.numpy())
        place = phases.place_of(self._phases, step)
        hard = self._hard_examples
        opened = place, step // hard.steps_of_round if hard else 0
        if opened == self._place:
            return
        self._place = opened
        phase, config = place.phase, self._config
        rows = phases.records_for(self._sets, phase.length)
        length = phase.length if phases.is_cut(self._sets, phase) else 0
        if phase.length:
            cut = f", cut from {phases.rows_length(rows)}" if length else ""
            last_step = place.first_step + phase.steps
            say(
                f"Phase {place.number + 1} of {len(self._phases)}, to step {last_step}:"
                f" rows of {phase.length} tokens{cut}, {phase.batch_size} in a step."
            )
        first_step = int(self.global_step.numpy()) - place.first_step
        seed = phases.seed_of(config.random_seed, place.number)
        if rows.masks and phase.length:
            masks = rows.masks.for_phase(phase.length, place.first_step, seed)
            rows = dataclasses.replace(rows, masks=masks)
        order = config.batching if rows.varies else config.row_order
        drawn = hard.draw(step) if hard else None
        if hard:
            first_step %= hard.steps_of_round
        self.train_dataset = self._strategy.distribute_datasets_from_function(
            lambda context: batches.training_batches(
                rows,
                phase.batch_size,
                seed,
                first_step,
                context,
                batches.length_multiple(config, self._strategy),
                order,
                length,
                drawn,
            )
        )
        # Phases whose batches look alike to orbit may differ in their number of rows.
        self._train_loop_fn = None

    @tf.autograph.experimental.do_not_convert
    def train_step(self, iterator: Iterator) -> None:
        """One optimizer step on the next global batch; runs inside the graph."""
        before = tf.timestamp()
        with tf.control_dependencies([before]):
            features = next(iterator)
        with tf.control_dependencies(tf.nest.flatten(features, expand_composites=True)):
            self._input_seconds.assign_add(tf.timestamp() - before)
        self._strategy.run(self._replica_step, args=(features,))

    def _replica_step(self, features: Mapping[str, tf.Tensor]) -> None:
        can_fall = self._loss_scale.can_fall() if self._loss_scale else False
        # With several workers tf.distribute takes the number of rows for unknown, and a
        # graph of unknown shapes rounds otherwise than that of fixed ones.
        rows = self._batch_size // self._strategy.num_replicas_in_sync
        features = {
            name: tf.ensure_shape(value, [rows, *value.shape[1:]])
            for name, value in features.items()
        }
        lost = features.pop(MASKED_TOKENS_CUT, None)
        report = self._step_function(features, self._dropout_seed())
        if self._hard_examples:
            row_losses, _ = report.pop(ROW_LOSSES)
            self._hard_examples.keep(features["row_index"], row_losses)
        if lost is not None:
            lost = tf.reduce_sum(lost)
            masked = lost + tf.reduce_sum(features["masked_lm_weights"])
            share = tf.math.divide_no_nan(lost, masked)
            report[MASKED_TOKENS_CUT] = (share, masked)
        for name, (mean, weight) in report.items():
            self._means[name].update_state(mean, weight)
        skipped = tf.where(can_fall, 0, tf.cast(report["skipped"][0], tf.int32))
        in_a_row = skipped * (self.skipped_in_a_row + 1)
        self.skipped_in_a_row.assign(in_a_row)
        self.longest_skip.assign(tf.maximum(self.longest_skip, in_a_row))

    @property
    def _batch_size(self) -> int:
        """Rows in a step of the current phase."""
        place = self._place[0] if self._place else phases.place_of(self._phases, 0)
        return place.phase.batch_size

    def _dropout_seed(self) -> tf.Tensor:
        """int32 [2], different in every step and on every replica."""
        step = tf.cast(self.global_step, tf.int32)
        seed = tf.stack([tf.constant(self._config.random_seed, tf.int32), step])
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        return tf.random.experimental.stateless_fold_in(seed, replica)

    def train_loop_end(self) -> dict[str, Any]:
        """Name -> number: means over the loop, speed, and the time that is left."""
        start, first_step = self._began
        step = int(self.global_step.numpy())
        seconds = max(time.monotonic() - start, 1e-9)
        self.loop_seconds = seconds
        self.train_seconds.assign_add(seconds)
        steps = step - first_step
        left = phases.work_left(self._phases, step, step - 1) * seconds / steps
        if self._config.max_train_hours:
            limit = self._config.max_train_hours * schedules.SECONDS_PER_HOUR
            left = max(min(left, limit - self._seconds()), 0.0)
        rate = self._optimizer.schedule(step - 1)
        means = {name: float(mean.result()) for name, mean in self._means.items()}
        means["skipped_steps"] = round(means.pop("skipped") * steps)
        if self._loss_scale:
            means["loss_scale"] = self._loss_scale.value()
        if self._depths.stages:
            means["layers"] = self._num_layers or self._all_layers
        return {
            **means,
            "learning_rate": float(rate),
            "examples_per_second": steps * self._batch_size / seconds,
            "waiting_for_input": float(self._input_seconds.numpy()) / seconds,
            "minutes_left": left / 60,
        }


def mean_metrics(names: Iterable[str]) -> dict[str, tf_keras.metrics.Mean]:
    return {name: tf_keras.metrics.Mean(name) for name in names}
