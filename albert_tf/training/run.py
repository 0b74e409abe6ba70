"""A run: the one path from settings to results, for every task and strategy.

orbit drives the loops of `loop.py`: many steps inside one graph call; checkpoints,
summaries and evaluations between.
"""

import contextlib
import dataclasses
import errno
import json
import os
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orbit
import tensorflow as tf

from albert_tf import files
from albert_tf.checkpoints.load import HEADS, load_weights, released_name
from albert_tf.checkpoints.model_dir import CONFIG_FILE, TOKENIZER_FILE
from albert_tf.config import AlbertConfig, OptimizerConfig, TrainConfig
from albert_tf.files import json_bytes, write_json, write_whole
from albert_tf.model.precision import precision_policy
from albert_tf.records import batches
from albert_tf.records.sidecar import RecordSet
from albert_tf.tasks.base import Task
from albert_tf.training import devices as training_devices
from albert_tf.training import optimization, run_checkpoints
from albert_tf.training.best_checkpoint import BestWeights
from albert_tf.training.evaluation import counted_rows, without_nan
from albert_tf.training.loops import Evaluator, Trainer
from albert_tf.training.stop_signals import StopSignals

# So many steps in a row whose gradient is not finite mean that a run is lost.
MAX_SKIPPED_IN_A_ROW = 10
SETTINGS_FILE = "settings.json"
# Held while a run trains into its folder; locks of a killed run end with it.
LOCK_FILE = ".lock"
PRE_EMPTED = "pre-empted"
# Settings of the loop that decide the weights; the others may change on resuming.
_DECISIVE = ("train_batch_size", "precision", "random_seed")


@dataclasses.dataclass(frozen=True)
class Job:
    """What `run` does, all of it.

    Attributes:
      task: the task.
      model_config: the model's shape.
      optimizer_config: the optimizer and schedule.
      train_config: sizes, intervals, devices' use, seed and output folder.
      train_rows: rows to train on; None: no training.
      eval_rows: rows to evaluate on; None: no evaluation.
      init_checkpoint: weights to start from where the output folder has none.
      unshare: whether layers that share weights there may start as copies of them.
      files: name -> content of what lies beside the weights and makes them a model that
        needs nothing else: the vocabulary, what the task knows.
      settings: JSON values that `results.json` keeps beside the configurations.
    """

    task: Task
    model_config: AlbertConfig
    optimizer_config: OptimizerConfig
    train_config: TrainConfig
    train_rows: RecordSet | None = None
    eval_rows: RecordSet | None = None
    init_checkpoint: str = ""
    unshare: bool = False
    files: Mapping[str, bytes] = dataclasses.field(default_factory=dict)
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def run(job: Job, strategy: tf.distribute.Strategy) -> dict[str, Any]:
    """Trains, resuming what the output folder holds, and evaluates.

    SIGTERM, to any worker, stops the training at the end of a loop, with a checkpoint;
    the results then say `pre-empted`. So does SIGINT, Ctrl-C's; a second one interrupts
    at once.

    Returns:
      What `results.json` holds: `global_step`, the metrics, `train`, the last loop's
      report, `status`, and `settings`.
    Raises:
      ValueError: settings that do not fit each other or the output folder; nothing to
        start an evaluation from; a checkpoint that does not match the model or is
        damaged; a damaged record; workers that were told different things; a run whose
        gradients are not finite.
      OSError: the output folder cannot be written, or another run trains into it;
        another worker is lost.
      KeyboardInterrupt: SIGINT came; all is saved.
    """
    chief = training_devices.is_chief(strategy)
    with contextlib.ExitStack() as stack:
        stack.enter_context(training_devices.explain_lost_worker(strategy))
        sets = [rows for rows in (job.train_rows, job.eval_rows) if rows]
        stack.enter_context(batches.explain_corruption(sets))
        # Every worker must take part in saving; what the others write is of no use.
        folder = Path(
            job.train_config.output_dir
            if chief
            else stack.enter_context(tempfile.TemporaryDirectory())
        )
        _make_folder(folder)
        if chief and job.train_rows:
            lock = files.exclusive(str(folder / LOCK_FILE), f"training into {folder}")
            stack.enter_context(lock)
        session = _Session(job, strategy, folder)
        session.check_settings()
        training_devices.require_equal(
            strategy,
            session.digest(),
            "differ in settings or records: give all of them the same command",
        )
        if chief:
            session.write_settings()
        with strategy.scope():
            session.build()
        training_devices.require_equal(
            strategy,
            session.step,
            "see different checkpoints: "
            f"{job.train_config.output_dir} must be one folder that all of them share",
        )
        results = session.train() if job.train_rows else {"status": "evaluated"}
        if job.eval_rows and results["status"] != PRE_EMPTED:
            results.update(session.evaluate())
            results |= session.best_evaluation()
        results = {
            "global_step": session.step,
            **results,
            "settings": session.settings(),
        }
        if chief:
            results = _with_earlier(folder / "results.json", results)
            write_json(folder / "results.json", results)
        # No worker leaves, and is taken for lost, before all of them are done.
        training_devices.gather(strategy, session.step)
    if session.stop_signals.interrupted:
        raise KeyboardInterrupt
    return results


def _make_folder(folder: Path) -> None:
    """Raises OSError where no files can be made in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise OSError(
            f"--output_dir {folder} cannot be used ({error.strerror}): give a folder "
            "that can be written."
        ) from error


def _with_earlier(file: Path, results: dict[str, Any]) -> dict[str, Any]:
    """Results that keep what an earlier call knew of the training, if this did none."""
    if results.get("train") or not file.is_file():
        return results
    earlier = files.read_json(file)
    if earlier.get("global_step") != results["global_step"] or "train" not in earlier:
        return results
    kept = {name: earlier[name] for name in ("train", "status", "settings")}
    return {**results, **kept}


class _StopTraining(Exception):
    """Ends orbit's loop; its message is the run's status."""


class _Session:
    """One process's share of a run."""

    def __init__(self, job: Job, strategy, folder: Path):
        self._job, self._strategy, self._folder = job, strategy, folder
        self._config = job.train_config
        self.stop_signals = StopSignals()
        self._stop_status = ""
        self._last_report: dict[str, float] = {}
        self._evaluation: tuple[int, dict] | None = None
        self._best = BestWeights(folder, job.task.best_metric, self._model_files())

    @property
    def step(self) -> int:
        """Optimizer steps done."""
        return int(self._controller.global_step.numpy())

    def settings(self) -> dict[str, Any]:
        """All that the run was told."""
        return {
            "task": self._job.task.name,
            "model": self._job.model_config.to_dict(),
            "optimizer": dataclasses.asdict(self._job.optimizer_config),
            "train": dataclasses.asdict(self._config),
            "replicas": self._strategy.num_replicas_in_sync,
            **self._job.settings,
        }

    def _identity(self) -> dict[str, Any]:
        """The settings that decide the weights: to change one is another run."""
        train = dataclasses.asdict(self._config)
        identity = {
            "task": self._job.task.name,
            **self._job.model_config.to_dict(),
        }
        if self._job.train_rows:
            identity |= dataclasses.asdict(self._job.optimizer_config)
            identity |= {name: train[name] for name in _DECISIVE}
            identity["training_rows"] = self._job.train_rows.total_rows
            identity |= self._job.train_rows.tokenizer_settings
            # Of rows that come from a file of labels: what it held.
            content = self._job.train_rows.metadata.get("content_sha256")
            identity |= {"content_sha256": content} if content else {}
        return identity

    def check_settings(self) -> None:
        """Refuses a folder that holds checkpoints of another run."""
        folder = self._config.output_dir
        self._check_rows()
        if not run_checkpoints.latest_of_run(folder):
            if self._job.train_rows and any(Path(folder).glob("model.ckpt-[1-9]*")):
                raise ValueError(
                    f"{folder} holds parts of a run, but no whole checkpoint: bring "
                    "its files back, or give another --output_dir."
                )
            return
        file = Path(folder) / SETTINGS_FILE
        stored = files.read_json(file, missing_ok=True)
        for name, value in json.loads(json.dumps(self._identity())).items():
            if stored.get(name) != value:
                raise ValueError(
                    f"{folder} holds a run with {name}={stored.get(name)}, but "
                    f"{name}={value} is asked for: give another --output_dir, and "
                    "--init_checkpoint to start from its weights."
                )

    def _check_rows(self) -> None:
        """Refuses to evaluate on rows of another vocabulary than is trained with."""
        train, evaluation = self._job.train_rows, self._job.eval_rows
        if not (train and evaluation):
            return
        for name, value in train.tokenizer_settings.items():
            other = evaluation.tokenizer_settings[name]
            if value != other:
                raise ValueError(
                    f"{evaluation.paths[0]} was made with {name}={other}, the training "
                    f"rows with {value}: make them alike."
                )

    def digest(self) -> int:
        """A number that is the same on workers which were told the same."""
        settings = self.settings()
        # The one thing that may have another name on another machine.
        del settings["train"]["output_dir"]
        sets = (self._job.train_rows, self._job.eval_rows)
        told = [settings, [rows and rows.rows for rows in sets]]
        return zlib.crc32(json.dumps(told).encode())

    def _model_files(self) -> dict[str, bytes]:
        """Name -> content of what weights need beside them to be understood."""
        files = {CONFIG_FILE: json_bytes(self._job.model_config.to_dict())}
        if self._job.train_rows:
            settings = self._job.train_rows.tokenizer_settings
            files[TOKENIZER_FILE] = json_bytes(settings)
        return {**files, **self._job.files}

    def write_settings(self) -> None:
        """Leaves beside the checkpoints what they need to be understood."""
        for name, content in self._model_files().items():
            write_whole(self._folder / name, content)
        if self._job.train_rows:
            write_json(self._folder / SETTINGS_FILE, self._identity())

    def build(self) -> None:
        """Makes model and loops, restored or started; in the strategy's scope."""
        job, config = self._job, self._config
        with precision_policy(config.precision):
            self._model = job.task.build_model(
                job.model_config, config.random_seed, config.rematerialize
            )
        optimizer = optimization.create_optimizer(job.optimizer_config)
        optimizer.build(self._model.trainable_variables)
        trainer = evaluator = None
        more = {}
        if job.train_rows:
            configs = (job.optimizer_config, config)
            trainer = Trainer(job.task, self._model, optimizer, configs, job.train_rows)
            more = trainer.state
        if job.eval_rows:
            evaluator = Evaluator(job.task, self._model, job.eval_rows, config)
        checkpoint = run_checkpoints.training_checkpoint(self._model, optimizer, **more)
        manager = run_checkpoints.Keeper(
            checkpoint,
            str(self._folder),
            max_to_keep=config.keep_checkpoint_max or None,
            step_counter=optimizer.iterations,
            checkpoint_interval=config.save_checkpoints_steps,
            checkpoint_name="model.ckpt",
        )
        # Other workers keep nothing; all start from what the chief has kept.
        latest = run_checkpoints.latest_of_run(config.output_dir)
        if job.init_checkpoint and not job.train_rows:
            latest = None  # asked to evaluate just those weights
        if latest:
            run_checkpoints.read_run(checkpoint, latest)
        elif job.init_checkpoint:
            # A head may start fresh where it is trained, not where it is scored.
            missing_ok = HEADS if job.train_rows else None
            report = load_weights(
                self._model,
                job.init_checkpoint,
                missing_ok,
                HEADS,
                job.unshare,
            )
            print(f"Initial weights from {job.init_checkpoint}: {report}", flush=True)
        elif not job.train_rows:
            raise ValueError(
                f"{config.output_dir} holds no checkpoint to evaluate: train first, or "
                "pass --init_checkpoint."
            )
        self._trainer = trainer
        self._controller = orbit.Controller(
            strategy=self._strategy,
            trainer=trainer,
            evaluator=evaluator,
            global_step=optimizer.iterations,
            steps_per_loop=self._steps_of_loop,
            # Without training orbit has nothing to restore: that is done above.
            checkpoint_manager=manager if trainer else None,
            train_actions=[self._after_loop],
            summary_dir=str(self._folder / "train"),
            eval_summary_dir=str(self._folder / "eval"),
        )
        self._describe(latest)

    def _describe(self, latest) -> None:
        """Prints what is about to run."""
        names = map(released_name, self._model.trainable_variables)
        decayed = [optimization.is_decayed(name) for name in names]
        start = f"resumed from {latest}" if latest else "from step 0"
        replicas = self._strategy.num_replicas_in_sync
        devices = f"{replicas} replica{'s' * (replicas > 1)}"
        print(
            f"{type(self._strategy).__name__}, {devices}, {self._config.precision}, "
            f"{start}; weight decay on "
            f"{sum(decayed)} of {len(decayed)} variables.",
            flush=True,
        )
        if self._job.train_rows:
            batch_size = self._config.train_batch_size
            for warning in self._job.optimizer_config.warnings(batch_size):
                print(f"WARNING: {warning}", flush=True)

    def _steps_of_loop(self, step: int) -> int:
        """Steps of the next loop: never past a multiple of an interval."""
        self._stop_if_told()
        intervals = (self._config.save_checkpoints_steps, self._config.eval_steps)
        left = [interval - step % interval for interval in intervals if interval]
        return int(min(self._config.iterations_per_loop, *left))

    def train(self) -> dict[str, Any]:
        """Trains to the last step, or until it is told to stop; saves at the end."""
        controller = self._controller
        if not self._latest_checkpoint() and not self.step:
            controller.save_checkpoint()
        status = "finished"
        with self.stop_signals:
            try:
                self._train_and_evaluate()
            except _StopTraining as stop:
                status = str(stop)
        latest = self._latest_checkpoint()
        if latest is None or self.step != _step_of(latest):
            controller.save_checkpoint()
        return {"status": status, "train": self._last_report}

    def _latest_checkpoint(self) -> str | None:
        return run_checkpoints.latest_of_run(self._folder)

    def _train_and_evaluate(self) -> None:
        last = self._job.optimizer_config.num_train_steps
        every = self._config.eval_steps if self._job.eval_rows else 0
        if every and self.step and (self.step % every == 0 or self.step == last):
            # A kill may have come between this checkpoint and its evaluation.
            self._keep_best()
        while self.step < last:
            target = min(last, self.step - self.step % every + every) if every else last
            self._controller.train(target, checkpoint_at_completion=False)
            if every:
                self._stop_if_told()
                self._keep_best()

    def _after_loop(self, report: dict[str, float]) -> None:
        self._last_report = dict(report)
        if self._trainer.longest_skip.numpy() >= MAX_SKIPPED_IN_A_ROW:
            raise ValueError(
                f"{MAX_SKIPPED_IN_A_ROW} gradients in a row were not finite, at step "
                f"{self.step} at the latest: lower --learning_rate; the last good "
                f"checkpoint is {self._latest_checkpoint()}."
            )
        hours = self._config.max_train_hours
        late = hours and self._trainer.train_seconds.numpy() >= hours * 3600
        # One worker's signal stops all; the others' clocks may be a little behind.
        vote = 2 if self.stop_signals else int(late)
        verdict = max(training_devices.gather(self._strategy, vote))
        self._stop_status = ("", "out of time", PRE_EMPTED)[verdict]

    def _stop_if_told(self) -> None:
        """Ends orbit's loop between two of ours, so that the last one is logged."""
        if self._stop_status and self.step < self._job.optimizer_config.num_train_steps:
            raise _StopTraining(self._stop_status)

    def evaluate(self) -> dict[str, Any]:
        """Evaluates the weights as they are; once a step."""
        if self._evaluation and self._evaluation[0] == self.step:
            return self._evaluation[1]
        config, rows = self._config, self._job.eval_rows
        steps = batches.evaluation_steps(rows, config.eval_batch_size)
        limited = 0 < config.max_eval_steps < steps
        report = self._controller.evaluate(config.max_eval_steps if limited else steps)
        counted = int(report.pop("rows")) if limited else counted_rows(report, rows)
        report = {"eval_rows": counted, **without_nan(report)}
        self._evaluation = (self.step, report)
        return report

    def best_evaluation(self) -> dict[str, Any]:
        """`best`: the report that the best weights are kept for, if there are any."""
        report = self._best.report() if self._job.train_rows else None
        return {"best": report} if report else {}

    def _keep_best(self) -> None:
        """Evaluates, keeps the weights if they are the best, stops if none were lately.

        Raises:
          _StopTraining: early stopping.
        """
        config = self._config
        self._best.offer(self._model, self.evaluate(), self.step)
        # Other workers keep nothing; what the chief has kept decides for all.
        since = self._best.evaluations_since(self.step, config.eval_steps)
        since = training_devices.gather(self._strategy, since)[0]
        if 0 < config.early_stopping <= since and (
            self.step < self._job.optimizer_config.num_train_steps
        ):
            raise _StopTraining("stopped early")


def _step_of(checkpoint: str) -> int:
    return int(checkpoint.rsplit("-", 1)[1])
