"""The working parts of a run: model, optimizer, loops and checkpoints.

orbit runs the inner loops (many steps inside one graph call) and writes their reports
to the log and as TensorBoard summaries. Checkpoints are read and written here.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import orbit
import tensorflow as tf

from albert_tf.checkpoints.load import (
    HEADS,
    LoadReport,
    load_weights,
    released_name,
)
from albert_tf.checkpoints.output_folders import locate_best, locate_trained
from albert_tf.checkpoints.tensorflow_files import read_state
from albert_tf.model.precision import precision_policy
from albert_tf.progress import say
from albert_tf.records import batches
from albert_tf.records.sampling import sample_rows
from albert_tf.training import (
    devices,
    model_parts,
    optimization,
    run_checkpoints,
    schedules,
)
from albert_tf.training.averaging import averages_in_place
from albert_tf.training.checkpoint_folder import CheckpointFolder
from albert_tf.training.evaluation import finish_report
from albert_tf.training.evaluator import Evaluator, ReportingEvaluator
from albert_tf.training.job import Job
from albert_tf.training.loops import Trainer
from albert_tf.training.run_folder import RunFolder
from albert_tf.training.run_output import evaluation_line, loop_messages_logged

# A limit that no loop reaches.
_ANY_NUMBER = 2**31 - 1
# If the gradients of so many steps in a row are not finite, the run is lost.
MAX_SKIPPED_IN_A_ROW = 10


class Session:
    """Model, optimizer, loops and checkpoints of a run, restored and ready to use.

    Attributes:
      model: the model that is trained or evaluated.
      averaged: whether averaged weights are evaluated; None: there are none.
    """

    def __init__(self, job: Job, folder: RunFolder):
        """Builds all parts and restores the run; call it in the strategy's scope.

        Args:
          job: the job.
          folder: this worker's folder of checkpoints and summaries. Checkpoints are
            restored from the job's own output folder, which all workers share.
        Raises:
          ValueError: no weights to evaluate; a checkpoint is damaged or of another
            model; replicas cannot share a batch.
        """
        self._job, self._folder = job, folder
        config = job.train_config
        with precision_policy(config.precision):
            self.model = job.task.build_model(
                job.model_config,
                seed=config.random_seed,
                rematerialize=config.rematerialize,
            )
        optimizer = optimization.create_optimizer(job.optimizer_config)
        if job.train_rows:
            trained = model_parts.trained_variables(self.model, job.optimizer_config)
            optimizer.build(trained)
        else:
            optimizer.build([])
        self._optimizer = optimizer
        evaluator = None
        self._trainer: Trainer | None = None
        if job.train_rows:
            self._trainer = Trainer(job, self.model, optimizer)
        trainer = self._trainer
        self._sample = None
        if job.eval_rows:
            if config.max_eval_steps:
                most = config.max_eval_steps * config.eval_batch_size
                self._sample = sample_rows(job.eval_rows, most, config.random_seed)
            evaluator = Evaluator(
                job.task, self.model, job.eval_rows, config, self._sample
            )
        checkpoint = run_checkpoints.training_checkpoint(
            self.model, optimizer, **(trainer.state if trainer else {})
        )
        options = devices.checkpoint_options(tf.distribute.get_strategy())
        latest, self.averaged = _restore_or_start(
            job, self.model, checkpoint, optimizer, options
        )
        self._checkpoints = CheckpointFolder(
            checkpoint,
            folder.path,
            config.keep_checkpoint_max or None,
            options,
            folder.check,
        )
        self._report: dict[str, float] = {}
        self._evaluation: tuple[int, dict[str, Any]] | None = None
        self._controller = orbit.Controller(
            trainer=trainer,
            evaluator=ReportingEvaluator(evaluator) if evaluator else None,
            global_step=optimizer.iterations,
            # A call of `train` is a loop.
            steps_per_loop=_ANY_NUMBER,
            train_actions=[self._report.update],
            summary_dir=str(folder.events / "train"),
            eval_summary_dir=str(folder.events / "eval"),
        )
        _describe(job, self.model, optimizer, latest)

    @property
    def step(self) -> int:
        """Optimizer steps done."""
        return int(self._controller.global_step.numpy())

    @property
    def train_seconds(self) -> float:
        """Seconds spent in training steps, those before a resumption included."""
        return float(self._trainer.train_seconds.numpy()) if self._trainer else 0.0

    @property
    def loop_seconds(self) -> float:
        """Seconds that the last loop took."""
        return self._trainer.loop_seconds if self._trainer else 0.0

    def train(self, last_step: int) -> dict[str, float]:
        """One loop of steps, up to `last_step`.

        Returns:
          Name -> number: means over the loop, speed, and the time that is left.
        Raises:
          ValueError: too many gradients in a row were not finite.
        """
        if self._trainer:
            self._trainer.open_data()
        with loop_messages_logged(self._folder, trains=True):
            self._controller.train(last_step, checkpoint_at_completion=False)
        skipped = self._trainer.longest_skip.numpy() if self._trainer else 0
        if skipped >= MAX_SKIPPED_IN_A_ROW:
            is_scaled = "loss_scale" in self._report
            raise ValueError(
                f"{MAX_SKIPPED_IN_A_ROW} gradients in a row were not finite"
                f"{' at the lowest loss scale, 1' * is_scaled}, at step "
                f"{self.step} at the latest: lower --learning_rate"
                f"{' or train in --precision=float32' * is_scaled}; the last good "
                f"checkpoint is {self.latest_checkpoint()}."
            )
        return dict(self._report)

    def evaluate(self) -> dict[str, Any]:
        """Losses and metrics of the current weights; computed once for each step."""
        if self._evaluation and self._evaluation[0] == self.step:
            return self._evaluation[1]
        config, rows = self._job.train_config, self._job.eval_rows
        if rows is None:
            raise ValueError("The job has no rows to evaluate on: pass eval_rows.")
        steps = batches.evaluation_steps(rows, config.eval_batch_size, self._sample)
        trains = self._job.train_rows is not None
        with self.evaluated_weights(), loop_messages_logged(self._folder, trains):
            report = self._controller.evaluate(steps)
        report = finish_report(report, rows, self._sample)
        say(evaluation_line(self.step, report))
        self._evaluation = (self.step, report)
        return report

    @contextlib.contextmanager
    def evaluated_weights(self) -> Iterator[None]:
        """Gives `model` the weights that are evaluated: the averages, if there are any
        and they are not declined."""
        with contextlib.ExitStack() as stack:
            if self._job.keeps_averages:
                stack.enter_context(averages_in_place(self._optimizer))
            yield

    def latest_checkpoint(self) -> str | None:
        """The newest checkpoint in this worker's folder; None: there is none."""
        return run_checkpoints.latest_of_run(self._folder.path)

    def save(self) -> None:
        """Saves a checkpoint, unless there is one of this step, and the events so far.

        Raises:
          OSError: as `run_checkpoints.save`.
        """
        run_checkpoints.save(self._checkpoints, self.step)
        self._folder.upload_events()


def _restore_or_start(
    job: Job,
    model: tf.Module,
    checkpoint: tf.train.Checkpoint,
    optimizer: optimization.AdamW,
    options: tf.train.CheckpointOptions | None,
) -> tuple[str | None, bool | None]:
    """Restores the run, or loads the weights that it starts from or evaluates.

    Args:
      job: the job.
      model: its model.
      checkpoint: the state of the run.
      optimizer: its averages start as the weights; without training its step is set to
        that of the weights.
      options: how checkpoints are read.
    Returns:
      (the checkpoint that the run goes on from; None: it starts from step 0, and
      `averaged` of `Session`).
    """
    latest, use_ema = _latest_of_run(job), job.train_config.use_ema
    if not job.train_rows:
        weights = latest or locate_best(job.init_checkpoint)
        # Nothing may be missing: a head of random weights is not to be evaluated.
        report = load_weights(model, weights, None, HEADS, job.unshare, use_ema)
        _tell_start(weights, report)
        optimizer.iterations.assign(report.global_step)
        is_told = report.averaged or use_ema is False
        return latest, report.averaged if is_told else None
    if latest:
        run_checkpoints.read_run(checkpoint, latest, options)
        return latest, job.keeps_averages
    loaded: tuple[str, ...] = ()
    if job.init_checkpoint:
        weights = locate_best(job.init_checkpoint)
        # A head may start from random weights.
        report = load_weights(model, weights, HEADS, HEADS, job.unshare, use_ema)
        _tell_start(weights, report)
        loaded = report.loaded
    model_parts.require_loaded(job.optimizer_config, loaded, model)
    optimizer.restart_averages()
    return None, job.keeps_averages


def _tell_start(weights: str, report: LoadReport) -> None:
    of_step = f" of step {report.global_step}" if report.global_step else ""
    print(f"Initial weights from {weights}{of_step}: {report}", flush=True)


def _latest_of_run(job: Job) -> str | None:
    """The checkpoint of the output folder to go on from or to evaluate; None: none.

    Raises:
      ValueError: there is none to evaluate, or its files are missing.
    """
    folder = job.train_config.output_dir
    if job.train_rows:
        latest = run_checkpoints.latest_of_run(folder)
        listed = read_state(folder)
        if latest and latest != listed[-1]:
            print(
                f"WARNING: {listed[-1]} is missing, which was saved last.", flush=True
            )
        return latest
    if job.init_checkpoint:
        return None  # exactly these weights are to be evaluated
    if not read_state(folder):
        raise ValueError(
            f"{folder} holds no checkpoint to evaluate: train first, or pass "
            "--init_checkpoint."
        )
    return locate_trained(folder)


def _describe(
    job: Job, model: tf.Module, optimizer: optimization.AdamW, latest: str | None
) -> None:
    """Prints devices, precision, where the run starts, and warnings."""
    strategy = tf.distribute.get_strategy()
    all_trainable = model.trainable_variables
    trained = optimizer.trained_variables if job.train_rows else all_trainable
    decayed = [optimization.is_decayed(released_name(v)) for v in trained]
    frozen = len(all_trainable) - len(trained)
    start = f"resumed from {latest}" if latest else "from step 0"
    replicas = strategy.num_replicas_in_sync
    print(
        f"{type(strategy).__name__}, {replicas} replica{'s' * (replicas > 1)}, "
        f"{job.train_config.precision}, {start}; weight decay on {sum(decayed)} of "
        f"{len(decayed)} variables{f', {frozen} frozen' if frozen else ''}.",
        flush=True,
    )
    if job.train_rows:
        batch_size = job.all_phases[0].batch_size
        for warning in schedules.warnings(job.optimizer_config, batch_size):
            print(f"WARNING: {warning}", flush=True)
