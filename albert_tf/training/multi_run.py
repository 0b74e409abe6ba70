"""The paper's protocol of fine-tuning (section 4.2.2), for every task.

Runs from several seeds, the best checkpoint of each, their median, and the predictions
of the best weights.
"""

import contextlib
import dataclasses
import statistics
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints import output_folders
from albert_tf.checkpoints.output_names import RESULTS_FILE, check_start
from albert_tf.file_kinds import check_replaceable
from albert_tf.files import json_bytes, write_json
from albert_tf.locks import exclusive
from albert_tf.records.sidecar import RecordSet
from albert_tf.storage import AnyPath, as_path
from albert_tf.task_config import TaskConfig
from albert_tf.training import (
    confusion,
    curves,
    devices,
    evaluation,
    identity,
    stored_predictions,
)
from albert_tf.training.job import Job
from albert_tf.training.run import RunStatus, run
from albert_tf.training.run_folder import check_results, make_folder, no_check
from albert_tf.training.stored_predictions import Predictions

EVALUATION_FILE = "eval_results.json"
# The highest of the paper's rates of fine-tuning (Table 14).
USUAL_LEARNING_RATE = 5e-5
# Share of a class from which on guessing it may be the best that plain training finds.
_MOST_OF_ONE_CLASS = 0.8


@dataclasses.dataclass(frozen=True)
class FineTuned:
    """The outcome of fine-tuning or of evaluating trained weights.

    Attributes:
      results: the content of `results.json`; without training, name of a split with
        labels -> its metrics.
      predictions: name of the split -> predictions of the best weights, as
        `stored_predictions.read` returns them. Empty after a run that was stopped.
      runs: of several runs, folder name ("run_1") -> outcome of that run.
      task_config: what `albert_tf.training.fine_tune` trained or evaluated for, with
        the thresholds that were found.
    """

    results: dict[str, Any]
    predictions: dict[str, Predictions] = dataclasses.field(default_factory=dict)
    runs: dict[str, "FineTuned"] = dataclasses.field(default_factory=dict)
    task_config: TaskConfig | None = None

    @property
    def reports(self) -> dict[str, Any]:
        """Name of a split with labels -> the metrics of the best weights."""
        if self.runs:
            return self.runs[self.results["best_run"]].reports
        return self.results.get("sets", {}) if self.trained else self.results

    @property
    def trained(self) -> bool:
        """True if this is the outcome of a training."""
        return "status" in self.results

    @property
    def preempted(self) -> bool:
        """True if a signal stopped the training."""
        return self.results.get("status") == RunStatus.PREEMPTED


def train(
    job: Job,
    num_runs: int,
    strategy: tf.distribute.Strategy,
    splits: Mapping[str, RecordSet],
) -> FineTuned:
    """Trains one run or several, which differ in their seed.

    Several runs have a folder each, `run_1` and so on, in the output folder, whose
    `results.json` summarizes them: `median`, `mean` and `deviation` (of the sample) of
    the task's metric, all `values`, their `seeds`, and `best_run`. Runs that are
    finished are kept when the command is given again.

    Args:
      job: what to train; `random_seed` is that of the first run.
      num_runs: number of runs.
      strategy: the devices.
      splits: name -> rows that the best weights of each run are evaluated on.
    Raises:
      ValueError: the folder holds several runs and one is asked for, or the reverse;
        or it holds the model that training starts from.
      OSError: another process trains into the folder, or it holds a file of another
        kind under the name of one to write.
    """
    root = as_path(job.train_config.output_dir)
    check_start(job.init_checkpoint, root)
    check = no_check
    with contextlib.ExitStack() as stack:
        if devices.is_chief(strategy):
            make_folder(root)
            # The whole protocol; a run has a lock of its own.
            # A run says that there are no locks.
            lock = exclusive(root, f"training into {root}", announce=False)
            check = stack.enter_context(lock)
        _check_folder(root, num_runs)
        for folder in output_folders.folders_of_runs(root, num_runs):
            check_results(folder)
            curves.check_outputs(folder)
            stored_predictions.check_outputs(folder, splits)
            confusion.check_outputs(folder, splits)
        if num_runs == 1:
            return _train_run(job, strategy, splits, check)
        return _train_runs(job, num_runs, strategy, splits, check)


def _train_runs(
    job: Job,
    num_runs: int,
    strategy: tf.distribute.Strategy,
    splits: Mapping[str, RecordSet],
    check: Callable[[], None],
) -> FineTuned:
    """Several runs, and the summary of their results."""
    root = as_path(job.train_config.output_dir)
    runs, seeds = {}, []
    for number in range(num_runs):
        seeds.append(job.train_config.random_seed + number)
        folder = output_folders.run_folder(root, number + 1)
        print(f"Run {number + 1} of {num_runs}, seed {seeds[-1]}.", flush=True)
        config = dataclasses.replace(
            job.train_config, output_dir=str(folder), random_seed=seeds[-1]
        )
        seeded = dataclasses.replace(job, train_config=config)
        runs[folder.name] = outcome = _train_run(seeded, strategy, splits, check)
        if outcome.preempted:
            return outcome
    results = {name: outcome.results for name, outcome in runs.items()}
    summary = _summary(results, job.task.best_metric)
    summary = {
        **summary,
        "seeds": seeds,
        "settings": next(iter(results.values()))["settings"],
    }
    predictions = runs[summary["best_run"]].predictions
    if devices.is_chief(strategy):
        check()
        write_json(root / RESULTS_FILE, summary)
        stored_predictions.write(root, predictions)
    return FineTuned(summary, predictions, runs)


def evaluate(
    job: Job, strategy: tf.distribute.Strategy, splits: Mapping[str, RecordSet]
) -> FineTuned:
    """Evaluates trained weights; writes `eval_results.json` and predictions.

    Args:
      job: the task, and what `init_checkpoint` and `output_dir` say.
      strategy: the devices.
      splits: name -> rows.
    Raises:
      ValueError: the folder holds a run, and the weights are not its own.
      FileExistsError: it holds a file of another kind under the name of one to write.
    """
    identity.check_results_kept(job)
    folder = as_path(job.train_config.output_dir)
    stored_predictions.check_outputs(folder, splits)
    confusion.check_outputs(folder, splits)
    if any(rows.metadata.get("labelled", True) for rows in splits.values()):
        sample = json_bytes({"checkpoint": "", "sets": {}})
        check_replaceable(folder / EVALUATION_FILE, sample)
    use_ema = job.train_config.use_ema
    reports, predictions = _evaluate_and_store(
        job, job.init_checkpoint, splits, strategy, use_ema
    )
    if reports and devices.is_chief(strategy):
        model = {"checkpoint": str(job.init_checkpoint)}
        write_json(folder / EVALUATION_FILE, {**model, "sets": reports})
    return FineTuned(reports, predictions)


def _check_folder(root: AnyPath, num_runs: int) -> None:
    """Keeps one run and several apart: each would hide the results of the other."""
    several = output_folders.run_folder(root, 1).is_dir()
    if several and num_runs == 1:
        raise ValueError(
            f"{root} holds several runs, but one is asked for: give --num_runs as "
            "then, or another --output_dir."
        )
    if num_runs > 1 and (root / identity.SETTINGS_FILE).is_file():
        raise ValueError(
            f"{root} holds a single run, but num_runs={num_runs} is asked for: give "
            "another --output_dir."
        )


def _train_run(
    job: Job,
    strategy: tf.distribute.Strategy,
    splits: Mapping[str, RecordSet],
    check: Callable[[], None],
) -> FineTuned:
    """One run; `sets` of its results has the metrics of its best weights."""
    results = run(job, strategy)
    if results["status"] == RunStatus.PREEMPTED or not splits:
        return FineTuned(results)
    folder = as_path(job.train_config.output_dir)
    checkpoint = output_folders.locate_best(folder)
    reports, predictions = _evaluate_and_store(
        job, checkpoint, splits, strategy, job.keeps_averages, check
    )
    results["sets"] = reports
    if devices.is_chief(strategy):
        check()
        write_json(folder / RESULTS_FILE, results)
    return FineTuned(results, predictions)


def _evaluate_and_store(
    job: Job,
    checkpoint: str,
    splits: Mapping[str, RecordSet],
    strategy: tf.distribute.Strategy,
    use_ema: bool | None,
    check: Callable[[], None] = no_check,
) -> tuple[dict[str, dict], dict[str, Predictions]]:
    """Evaluates weights, and writes the predictions for other commands.

    Returns:
      (metrics of the splits that have labels, predictions of all splits), by name.
    """
    evaluations = evaluation.evaluate_splits(
        job.task,
        job.model_config,
        job.train_config,
        checkpoint,
        splits,
        strategy,
        use_ema,
    )
    predictions: dict[str, Predictions] = {
        name: stored_predictions.complete(evaluated.predictions, splits[name])
        for name, evaluated in evaluations.items()
    }
    trained = job.train_rows is not None
    rate = job.optimizer_config.learning_rate if trained else None
    for name, predicted in predictions.items():
        warning = collapse_warning(name, predicted, rate)
        if warning:
            print(f"WARNING: {warning}", flush=True)
    reports = {
        name: evaluated.report
        for name, evaluated in evaluations.items()
        if predictions[name]["labelled"]
    }
    if devices.is_chief(strategy):
        check()
        folder = as_path(job.train_config.output_dir)
        stored_predictions.write(folder, predictions)
        for name, report in reports.items():
            if matrix := report.get("confusion_matrix"):
                confusion.write_image(folder, name, list(report["classes"]), matrix)
    return reports, predictions


def collapse_warning(
    name: str, predicted: Predictions, learning_rate: float | None
) -> str:
    """Warns of a model that predicts one class for rows of several.

    Args:
      name: the split.
      predicted: its predictions. Without labels nothing can be said: all rows may be
        of one class.
      learning_rate: that of the training just done; None: there was none.
    Returns:
      The warning; empty: there is none.
    """
    probabilities, labels = predicted.get("probabilities"), predicted.get("label_ids")
    if probabilities is None or labels is None or not predicted["labelled"]:
        return ""
    classes = np.unique(probabilities.argmax(axis=-1))
    if len(classes) != 1 or len(np.unique(labels)) < 2:
        return ""
    share = np.mean(labels == classes[0])
    text = (
        f"all {len(labels)} predictions of {name} are one class, which {share:.0%} of "
        "its labels are: the model tells no rows apart."
    )
    if share > _MOST_OF_ONE_CLASS:
        return (
            f"{text} Weigh the rare classes with --class_weights=balanced, and judge "
            "by macro_f1."
        )
    if learning_rate is None:
        return text
    if learning_rate > USUAL_LEARNING_RATE:
        return f"{text} Lower --learning_rate, which is {learning_rate:g}."
    return f"{text} Train longer, or on more rows of the other classes."


def _summary(results: Mapping[str, dict], metric: str) -> dict[str, Any]:
    """Statistics of the best evaluations of several runs."""
    values = {
        name: result["best"][metric] if "best" in result else result[metric]
        for name, result in results.items()
    }
    # A metric that is not defined, as a correlation with a constant, is the worst.
    known = [value for value in values.values() if value is not None]
    best_run = max(
        values, key=lambda name: (values[name] is not None, values[name] or 0)
    )
    return {
        "runs": len(values),
        "metric": metric,
        "values": list(values.values()),
        "median": statistics.median(known) if known else None,
        "mean": statistics.fmean(known) if known else None,
        "deviation": statistics.stdev(known) if len(known) > 1 else None,
        "best_run": best_run,
    }
