"""A run: the one path from a job to its results, for every task and strategy."""

import contextlib
import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from albert_tf import files
from albert_tf.checkpoints.output_folders import RESULTS_FILE
from albert_tf.records import batches
from albert_tf.records.sidecar import RecordSet
from albert_tf.storage import AnyPath
from albert_tf.training import (
    curves,
    hard_examples,
    identity,
    phases,
    record_checks,
    run_checkpoints,
    schedules,
)
from albert_tf.training import devices as training_devices
from albert_tf.training.best_checkpoint import BestWeights
from albert_tf.training.job import Job as Job
from albert_tf.training.loop_length import LoopLength
from albert_tf.training.readable_rows import readable_rows
from albert_tf.training.run_folder import RunFolder, open_run_folder
from albert_tf.training.run_output import shown_progress
from albert_tf.training.session import Session
from albert_tf.training.stop_signals import StopSignals


class RunStatus(str, enum.Enum):
    """The end of a run; the values are stored in `results.json`."""

    FINISHED = "finished"
    EVALUATED = "evaluated"
    STOPPED_EARLY = "stopped early"
    OUT_OF_TIME = "out of time"
    PREEMPTED = "pre-empted"


# (step, report of the loop) -> nothing.
LoopCallback = Callable[[int, Mapping[str, float]], None]


def run(
    job: Job,
    strategy: tf.distribute.Strategy | None = None,
    on_loop_end: LoopCallback | None = None,
) -> dict[str, Any]:
    """Trains, resuming from the output folder's checkpoint, and evaluates.

    SIGTERM, to any worker, stops the training at the end of a loop, with a checkpoint;
    the status is then `PREEMPTED`. So does SIGINT (Ctrl-C); a second one interrupts at
    once.

    Args:
      job: what to do.
      strategy: the devices; None: those of `devices.create_strategy()`.
      on_loop_end: called after each loop of training steps, once its checkpoint (if
        one is due) is saved.
    Returns:
      The content of `results.json`: `global_step`, the metrics, `checkpoint` (the
      weights that they are of), `averaged_weights` (whether its averages, if the run
      has any), `train` (the report of the last loop), `status` (of
      `RunStatus`), `eval_data` (the files of the evaluation rows and what they hold),
      and `settings`.
    Raises:
      ValueError: settings that do not fit each other or the output folder; no weights
        to evaluate; a checkpoint that does not match the model or is damaged; a
        damaged record; workers with different settings; gradients that are not finite.
      OSError: the output folder cannot be written, another run trains into it, or it
        holds a file of another kind under the name of one of a run; another worker is
        lost.
      KeyboardInterrupt: SIGINT came; everything is saved.
    """
    if strategy is None:
        strategy = training_devices.create_strategy()
    job = identity.keep_row_order(job)
    chief = training_devices.is_chief(strategy)
    signals = StopSignals()
    with contextlib.ExitStack() as stack:
        stack.enter_context(training_devices.explain_lost_worker(strategy))
        stack.enter_context(batches.explain_corruption(job.record_sets))
        folder = stack.enter_context(open_run_folder(job, chief))
        stack.enter_context(run_checkpoints.explain_resumption(folder.path))
        session = _start(job, strategy, folder, stack)
        best = BestWeights(
            folder.path,
            job.task.best_metric,
            identity.model_files(job),
            training_devices.checkpoint_options(strategy),
            folder.check,
            job.optimizer_config.ema_decay if job.keeps_averages else 0.0,
        )
        results: dict[str, Any] = {"status": RunStatus.EVALUATED.value}
        if job.train_rows:
            results = _train(job, strategy, session, best, signals, on_loop_end)
        if job.eval_rows and results["status"] != RunStatus.PREEMPTED:
            results |= _evaluate(job, session, best)
            results["eval_data"] = record_checks.describe(job.eval_rows)
        if session.averaged is not None:
            results["averaged_weights"] = session.averaged
        settings = identity.run_settings(job, strategy.num_replicas_in_sync)
        results = {"global_step": session.step, **results, "settings": settings}
        if chief:
            results = _with_earlier(job, folder.path / RESULTS_FILE, results)
            folder.upload_events()
            folder.check()
            files.write_json(folder.path / RESULTS_FILE, results)
            if job.train_rows:
                curves.write_curves(folder.path, folder.check)
        # A worker that leaves before the others are done would be taken for lost.
        training_devices.gather(strategy, session.step)
    if signals.interrupted:
        raise KeyboardInterrupt
    return results


def _start(
    job: Job,
    strategy: tf.distribute.Strategy,
    folder: RunFolder,
    stack: contextlib.ExitStack,
) -> Session:
    """Checks the job, writes the files of a training, and builds or restores it.

    Args:
      job: the job.
      strategy: the devices.
      folder: this worker's folder.
      stack: keeps the rows that TensorFlow reads as long as the session.
    """
    identity.check_job(job)
    training_devices.require_equal(
        strategy,
        identity.digest(job, strategy.num_replicas_in_sync),
        "differ in settings or records: give all of them the same command",
    )
    # An evaluation leaves the model that it finds as it is.
    if training_devices.is_chief(strategy) and job.train_rows:
        identity.write_files(job, folder.path)

    # Names in messages and results stay those of the job.
    def readable(rows: RecordSet) -> RecordSet:
        return stack.enter_context(readable_rows(rows, strategy))

    job = dataclasses.replace(
        job,
        train_rows=job.train_rows and readable(job.train_rows),
        eval_rows=job.eval_rows and readable(job.eval_rows),
        other_train_rows=[readable(rows) for rows in job.other_train_rows],
    )
    with strategy.scope():
        session = Session(job, folder)
    training_devices.require_equal(
        strategy,
        session.step,
        "see different checkpoints: "
        f"{job.train_config.output_dir} must be one folder that all of them share",
    )
    return session


def _train(
    job: Job,
    strategy: tf.distribute.Strategy,
    session: Session,
    best: BestWeights,
    signals: StopSignals,
    on_loop_end: LoopCallback | None,
) -> dict[str, Any]:
    """Trains to the last step or until something stops the run; saves at the end.

    Returns:
      `status` and `train`, the report of the last loop.
    """
    last_step = job.optimizer_config.num_train_steps
    eval_steps = job.train_config.eval_steps if job.eval_rows else 0
    status, report = None, {}
    if session.step == 0:
        session.save()
    is_tpu = isinstance(strategy, tf.distribute.TPUStrategy)
    place = session.step, last_step, lambda: session.step
    loop = LoopLength(job.train_config.iterations_per_loop, is_tpu)
    with signals, shown_progress(*place) as progress:
        if session.step:
            # A run whose time is used up makes no step more.
            status = _vote_to_stop(job, strategy, session, signals)
            last_step = session.step if status == RunStatus.FINISHED else last_step
        if session.step and _is_evaluated(session.step, eval_steps, last_step):
            # A kill may have come between this checkpoint and its evaluation.
            stopped = _keep_best(job, strategy, session, best)
            status = status or stopped
        while session.step < last_step and not status:
            began = session.step
            report = session.train(_end_of_loop(began, job, loop.steps))
            progress.show(session.step, report)
            seconds = training_devices.chiefs_seconds(strategy, session.loop_seconds)
            loop.learn(session.step - began, seconds)
            if session.step % job.train_config.save_checkpoints_steps == 0:
                session.save()
            if on_loop_end:
                on_loop_end(session.step, report)
            status = _vote_to_stop(job, strategy, session, signals)
            if status == RunStatus.FINISHED:
                last_step = session.step
            goes_on = status in (None, RunStatus.FINISHED)
            if goes_on and _is_evaluated(session.step, eval_steps, last_step):
                stopped = _keep_best(job, strategy, session, best)
                status = status or stopped
    session.save()
    return {"status": (status or RunStatus.FINISHED).value, "train": report}


def _evaluate(job: Job, session: Session, best: BestWeights) -> dict[str, Any]:
    """`checkpoint`, the path of the current weights, their metrics, and `best`, the
    report of the best ones."""
    if not job.train_rows:
        checkpoint = identity.evaluated_checkpoint(job)
        return {"checkpoint": checkpoint, **session.evaluate()}
    best_report = best.report()
    return {
        "checkpoint": session.latest_checkpoint(),
        **session.evaluate(),
        **({"best": best_report} if best_report else {}),
    }


def _end_of_loop(step: int, job: Job, steps: int) -> int:
    """The last step of the next loop of at most so many steps: never past a multiple
    of an interval, nor past the end of a round, of a phase of rows or of a depth."""
    config = job.train_config
    intervals = (
        config.save_checkpoints_steps,
        config.eval_steps,
        hard_examples.steps_of_round(job),
    )
    ends = [step - step % interval + interval for interval in intervals if interval]
    ends += [end for end in job.depths.ends if end > step]
    last_step = job.optimizer_config.num_train_steps
    ends += [last_step, phases.end_of(job.all_phases, step)]
    return min(step + steps, *ends)


def _is_evaluated(step: int, eval_steps: int, last_step: int) -> bool:
    return eval_steps > 0 and (step % eval_steps == 0 or step == last_step)


def _vote_to_stop(
    job: Job,
    strategy: tf.distribute.Strategy,
    session: Session,
    signals: StopSignals,
) -> RunStatus | None:
    """The reason to stop before the last step, the same on all workers; None: none."""
    hours = job.train_config.max_train_hours
    is_late = bool(hours) and schedules.share_of_time(session.train_seconds, hours) == 1
    # One worker's signal stops all. The chief's clock decides, by which it decays.
    vote = 2 if signals.received else int(is_late)
    votes = training_devices.gather(strategy, vote)
    if session.step >= job.optimizer_config.num_train_steps:
        return None
    if max(votes) == 2:
        return RunStatus.PREEMPTED
    if not votes[0]:
        return None
    return RunStatus.FINISHED if _ends_by_time(job) else RunStatus.OUT_OF_TIME


def _ends_by_time(job: Job) -> bool:
    """True if the run is over, and its learning rate at its end, when its time is."""
    return job.optimizer_config.lr_schedule_by == "time"


def _keep_best(
    job: Job, strategy: tf.distribute.Strategy, session: Session, best: BestWeights
) -> RunStatus | None:
    """Evaluates, saves a new best checkpoint, applies early stopping.

    Returns:
      `STOPPED_EARLY`, or None to go on.
    """
    config = job.train_config
    report = session.evaluate()
    with session.evaluated_weights():
        best.offer(session.model, report, session.step)
    # Other workers keep no best weights: the chief's count decides for all.
    count = best.evaluations_since(session.step, config.eval_steps)
    count = training_devices.gather(strategy, count)[0]
    is_last = session.step >= job.optimizer_config.num_train_steps
    if 0 < config.early_stopping <= count and not is_last:
        return RunStatus.STOPPED_EARLY
    return None


def _with_earlier(job: Job, file: AnyPath, results: dict[str, Any]) -> dict[str, Any]:
    """Results completed by the training report of an earlier call, if this call
    trained no step."""
    if results.get("train") or not file.is_file():
        return results
    earlier = files.read_json(file)
    is_same_step = earlier.get("global_step") == results["global_step"]
    # An evaluation is of any weights of the run in its folder.
    if "train" not in earlier or (job.train_rows and not is_same_step):
        return results
    kept = {name: earlier[name] for name in ("train", "status", "settings")}
    best = {"best": earlier["best"]} if "best" in earlier else {}
    return {**best, **results, **kept}
