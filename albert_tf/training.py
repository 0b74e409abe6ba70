"""The one loop that trains and evaluates every task under every strategy.

orbit drives it: many steps inside one graph call, checkpoints and summaries between.
Loss and gradient are those of the whole global batch: sums over replicas divided by
global weights, gradients summed and then clipped.
"""

import dataclasses
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orbit
import tensorflow as tf
import tf_keras
from official.common import distribute_utils

from albert_tf import batches, checkpoints, losses, optimization
from albert_tf.config import AlbertConfig, OptimizerConfig, TrainConfig
from albert_tf.records import TOKENIZER_FILE, RecordSet, write_json
from albert_tf.tasks import Task


def create_strategy(tpu: str = "") -> tf.distribute.Strategy:
    """The strategy for the devices that are there.

    Args:
      tpu: a TPU's name, its `grpc://` address, or "local" on a TPU VM; empty: all GPUs
        of this machine, or its CPU.
    """
    if tpu:
        return distribute_utils.get_distribution_strategy("tpu", tpu_address=tpu)
    gpus = len(tf.config.list_physical_devices("GPU"))
    kind = "mirrored" if gpus > 1 else "one_device"
    return distribute_utils.get_distribution_strategy(kind, num_gpus=gpus)


class Trainer(orbit.StandardTrainer):
    """Optimizer steps of one task."""

    def __init__(self, task: Task, model, optimizer, config, record_set, seed: int):
        """Args:
        task: what to minimise.
        model: from `task.build_model`, made under the strategy in scope.
        optimizer: built on the model's trainable variables.
        config: (OptimizerConfig, TrainConfig).
        record_set: training rows.
        seed: of dropout and the order of rows.
        """
        self._task, self._model, self._optimizer = task, model, optimizer
        self._optimizer_config, self._train_config = config
        self._strategy = tf.distribute.get_strategy()
        self._record_set, self._seed = record_set, seed
        self._means = _mean_metrics([*task.losses, "gradient_norm"])
        self._began = None
        super().__init__(train_dataset=None)

    @property
    def global_step(self) -> tf.Variable:
        """Optimizer steps done, int64."""
        return self._optimizer.iterations

    def train_loop_begin(self):
        """Starts the clock; opens the data where the step count says."""
        if self.train_dataset is None:
            first_step = int(self.global_step.numpy())
            self.train_dataset = self._strategy.distribute_datasets_from_function(
                lambda context: batches.training_batches(
                    self._record_set,
                    self._train_config.train_batch_size,
                    self._seed,
                    first_step,
                    context,
                )
            )
        for mean in self._means.values():
            mean.reset_state()
        self._began = (time.monotonic(), int(self.global_step.numpy()))

    def train_step(self, iterator):
        """One optimizer step on the next global batch; runs inside the graph."""
        self._strategy.run(self._replica_step, args=(next(iterator),))

    def train_loop_end(self) -> dict[str, Any]:
        """Means over the loop, speed, and the time that is left."""
        start, first_step = self._began
        step = int(self.global_step.numpy())
        speed = (step - first_step) / max(time.monotonic() - start, 1e-9)
        left = (self._optimizer_config.num_train_steps - step) / speed if speed else 0.0
        rate = optimization.learning_rate(self._optimizer_config)(max(step - 1, 0))
        return {
            **{name: float(mean.result()) for name, mean in self._means.items()},
            "learning_rate": float(rate),
            "examples_per_second": speed * self._train_config.train_batch_size,
            "minutes_left": left / 60,
        }

    def _replica_step(self, features):
        batch = self._task.read_batch(features)
        replica = tf.distribute.get_replica_context()
        weights = _sums(
            {n: loss.weights(batch) for n, loss in self._task.losses.items()}
        )
        global_weights = replica.all_reduce("sum", weights)
        variables = self._model.trainable_variables
        with tf.GradientTape() as tape:
            outputs = self._model(
                batch, training=True, dropout_seed=self._dropout_seed(replica)
            )
            sums = _sums(
                {
                    name: loss.values(outputs, batch) * loss.weights(batch)
                    for name, loss in self._task.losses.items()
                }
            )
            total = tf.add_n(
                [losses.weighted_mean(sums[n], global_weights[n]) for n in sums]
            )
        gradients = tape.gradient(total, variables)
        # Dense, so that the norm is the gradient's own: that of slices counts the
        # rows of a piece which stands twice in the batch one by one.
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        gradients = replica.all_reduce("sum", gradients)
        gradients, norm = optimization.clip_gradients(gradients, self._optimizer_config)
        self._optimizer.apply_gradients(
            zip(gradients, variables, strict=True), skip_gradients_aggregation=True
        )
        for name, loss_sum in sums.items():
            mean = losses.weighted_mean(loss_sum, weights[name])
            self._means[name].update_state(mean, weights[name])
        self._means["gradient_norm"].update_state(norm)

    def _dropout_seed(self, replica):
        """int32 [2], another in every step and on every replica."""
        step = tf.cast(self.global_step, tf.int32)
        seed = tf.stack([tf.constant(self._seed, tf.int32), step])
        return tf.random.experimental.stateless_fold_in(
            seed, replica.replica_id_in_sync_group
        )


class Evaluator(orbit.StandardEvaluator):
    """A task's losses and metrics over a whole set of rows."""

    def __init__(self, task: Task, model, record_set: RecordSet, batch_size: int):
        """Args:
        task: what to report.
        model: from `task.build_model`, made under the strategy in scope.
        record_set: evaluation rows, each counted once.
        batch_size: rows in one step over all replicas.
        """
        self._task, self._model = task, model
        self._strategy = tf.distribute.get_strategy()
        self._numbers = {**task.losses, **task.metrics}
        self._means = _mean_metrics(self._numbers)
        self._rows = tf_keras.metrics.Sum("rows")
        dataset = self._strategy.distribute_datasets_from_function(
            lambda context: batches.evaluation_batches(record_set, batch_size, context)
        )
        super().__init__(eval_dataset=dataset)

    def eval_begin(self):
        """Forgets the last evaluation."""
        for metric in (*self._means.values(), self._rows):
            metric.reset_state()

    def eval_step(self, iterator):
        """One global batch; runs inside the graph."""

        def replica_step(features):
            batch = self._task.read_batch(features)
            outputs = self._model(batch, training=False)
            for name, number in self._numbers.items():
                weights = number.weights(batch)
                self._means[name].update_state(number.values(outputs, batch), weights)
            self._rows.update_state(losses.row_weights(batch))

        self._strategy.run(replica_step, args=(next(iterator),))

    def eval_end(self) -> dict[str, Any]:
        """Name -> mean, and `rows`, how many were counted."""
        report = {name: float(mean.result()) for name, mean in self._means.items()}
        return {**report, "rows": float(self._rows.result())}


@dataclasses.dataclass(frozen=True)
class Job:
    """What `run` does, all of it.

    Attributes:
      task: the task.
      model_config: the model's shape.
      optimizer_config: the optimizer and schedule.
      train_config: lengths, sizes, intervals, seed and output folder.
      train_rows: rows to train on; None: no training.
      eval_rows: rows to evaluate on after it; None: no evaluation.
      init_checkpoint: weights to start from where the output folder has none.
      settings: JSON values that `results.json` keeps beside the configurations.
    """

    task: Task
    model_config: AlbertConfig
    optimizer_config: OptimizerConfig
    train_config: TrainConfig
    train_rows: RecordSet | None = None
    eval_rows: RecordSet | None = None
    init_checkpoint: str = ""
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def run(job: Job, strategy: tf.distribute.Strategy) -> dict[str, Any]:
    """Trains, resuming what the output folder holds, then evaluates.

    Returns:
      What `results.json` holds: `global_step`, the metrics, `train`, the last loop's
      report, and `settings`.
    Raises:
      ValueError: nothing to start an evaluation from, or a checkpoint that does not
        match the model.
      OSError: the output folder cannot be written.
    """
    config = job.train_config
    output_dir = Path(config.output_dir)
    output_dir.mkdir(parents=True, exist_ok=True)
    write_json(output_dir / "albert_config.json", job.model_config.to_dict())
    if job.train_rows:
        tokenizer_settings = job.train_rows.tokenizer_settings
        write_json(output_dir / TOKENIZER_FILE, tokenizer_settings)
    with strategy.scope():
        controller, manager = _controller(job, strategy)
    results: dict[str, Any] = {}
    if job.train_rows:
        results["train"] = _train(job, controller)
    elif not manager.latest_checkpoint and not job.init_checkpoint:
        raise ValueError(
            f"{config.output_dir} holds no checkpoint to evaluate: train first, or "
            "pass --init_checkpoint."
        )
    if job.eval_rows:
        results.update(_evaluate(job, controller))
    results = {
        "global_step": int(controller.global_step.numpy()),
        **results,
        "settings": {
            "task": job.task.name,
            "model": job.model_config.to_dict(),
            "optimizer": dataclasses.asdict(job.optimizer_config),
            "train": dataclasses.asdict(config),
            "replicas": strategy.num_replicas_in_sync,
            **job.settings,
        },
    }
    write_json(output_dir / "results.json", results)
    return results


def _controller(job: Job, strategy):
    """orbit's controller and the manager of its checkpoints, restored or started."""
    config = job.train_config
    model = job.task.build_model(job.model_config, config.random_seed)
    optimizer = optimization.create_optimizer(job.optimizer_config)
    optimizer.build(model.trainable_variables)
    manager = tf.train.CheckpointManager(
        checkpoints.training_checkpoint(model, optimizer),
        config.output_dir,
        max_to_keep=config.keep_checkpoint_max or None,
        step_counter=optimizer.iterations,
        checkpoint_interval=config.save_checkpoints_steps,
        checkpoint_name="model.ckpt",
    )
    if job.init_checkpoint and not manager.latest_checkpoint:
        report = checkpoints.load_weights(
            model, job.init_checkpoint, checkpoints.HEADS, checkpoints.HEADS
        )
        print(f"Initial weights from {job.init_checkpoint}: {report}", flush=True)
    trainer = evaluator = None
    if job.train_rows:
        configs = (job.optimizer_config, config)
        trainer = Trainer(
            job.task, model, optimizer, configs, job.train_rows, config.random_seed
        )
    if job.eval_rows:
        evaluator = Evaluator(job.task, model, job.eval_rows, config.eval_batch_size)
    controller = orbit.Controller(
        strategy=strategy,
        trainer=trainer,
        evaluator=evaluator,
        global_step=optimizer.iterations,
        steps_per_loop=lambda step: _steps_to_boundary(step, config),
        checkpoint_manager=manager,
        summary_dir=str(Path(config.output_dir) / "train"),
        eval_summary_dir=str(Path(config.output_dir) / "eval"),
    )
    return controller, manager


def _steps_to_boundary(step: int, config: TrainConfig) -> int:
    """Steps of the next loop: never past a multiple of the checkpoint interval."""
    to_checkpoint = config.save_checkpoints_steps - step % config.save_checkpoints_steps
    return int(min(config.iterations_per_loop, to_checkpoint))


def _train(job: Job, controller) -> dict[str, float]:
    last_report: dict[str, float] = {}

    def keep(report):
        last_report.update(report)
        bad = [name for name in job.task.losses if not math.isfinite(report[name])]
        if bad:
            raise ValueError(
                f"{bad[0]} is not finite at step {int(controller.global_step)}: lower "
                "--learning_rate, and start again from the last checkpoint in "
                f"{job.train_config.output_dir}."
            )

    controller.train_actions = (keep,)
    if not controller.checkpoint_manager.latest_checkpoint:
        # From here on the manager counts its intervals, and no start is lost.
        controller.save_checkpoint()
    controller.train(job.optimizer_config.num_train_steps)
    return last_report


def _evaluate(job: Job, controller) -> dict[str, float]:
    config = job.train_config
    steps = batches.evaluation_steps(job.eval_rows, config.eval_batch_size)
    limited = 0 < config.max_eval_steps < steps
    steps = config.max_eval_steps if limited else steps
    report = controller.evaluate(steps)
    if not limited and report["rows"] != job.eval_rows.total_rows:
        raise ValueError(
            f"Counted {report['rows']:.0f} rows, the sidecars say "
            f"{job.eval_rows.total_rows}: make the records again."
        )
    return {"eval_rows": int(report.pop("rows")), **report}


def _sums(tensors: Mapping) -> dict:
    return {name: tf.reduce_sum(tensor) for name, tensor in tensors.items()}


def _mean_metrics(names) -> dict[str, tf_keras.metrics.Mean]:
    return {name: tf_keras.metrics.Mean(name) for name in names}
