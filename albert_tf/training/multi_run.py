"""The paper's protocol of fine-tuning (section 4.2.2), for every task: runs from
several seeds, the best checkpoint of each, their median, and what they predict."""

import dataclasses
import io
import statistics
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints import output_folders
from albert_tf.checkpoints.output_folders import RESULTS_FILE
from albert_tf.files import write_json, write_whole
from albert_tf.records.reader import read_strings
from albert_tf.records.sidecar import RecordSet
from albert_tf.training import devices
from albert_tf.training import evaluation as training_evaluation
from albert_tf.training import run as training_run

# Of a run's folder: what its best weights predict for each set.
PREDICTIONS_FOLDER = "predictions"
EVALUATION_FILE = "eval_results.json"


def train(
    job: training_run.Job,
    num_runs: int,
    strategy: tf.distribute.Strategy,
    sets: Mapping[str, RecordSet],
) -> dict[str, Any]:
    """Trains one run or several, which differ in their seed.

    Several have a folder each, `run_1` and so on, in the output folder, whose
    `results.json` sums them up: `median`, `mean` and `deviation` (of the sample) of the
    task's metric, all `values`, their `seeds`, and `best_run`. Runs that are finished
    are kept when the command is given again.

    Args:
      job: what to train; `random_seed` is that of the first run.
      num_runs: how many.
      strategy: the devices.
      sets: name -> rows that the best weights of each run are tried on at its end.
    Returns:
      What `results.json` holds.
    Raises:
      ValueError: the folder holds several runs and one is asked for, or the reverse.
    """
    root = Path(job.train_config.output_dir)
    _check_folder(root, num_runs)
    if num_runs == 1:
        return _train_run(job, strategy, sets)
    results, seeds = {}, []
    for number in range(num_runs):
        seeds.append(job.train_config.random_seed + number)
        folder = output_folders.run_folder(root, number + 1)
        name = folder.name
        print(f"Run {number + 1} of {num_runs}, seed {seeds[-1]}.", flush=True)
        config = dataclasses.replace(
            job.train_config, output_dir=str(folder), random_seed=seeds[-1]
        )
        run = dataclasses.replace(job, train_config=config)
        results[name] = _train_run(run, strategy, sets)
        if results[name]["status"] == training_run.PRE_EMPTED:
            return results[name]
    summary = _summary(results, job.task.best_metric)
    summary = {**summary, "seeds": seeds, "settings": results["run_1"]["settings"]}
    if devices.is_chief(strategy):
        write_json(root / RESULTS_FILE, summary)
    return summary


def _check_folder(root: Path, num_runs: int) -> None:
    """One run in the folder of several would hide their results, and the reverse."""
    several = output_folders.run_folder(root, 1).is_dir()
    if several and num_runs == 1:
        raise ValueError(
            f"{root} holds several runs, but one is asked for: give --num_runs as "
            "then, or another --output_dir."
        )
    if num_runs > 1 and (root / training_run.SETTINGS_FILE).is_file():
        raise ValueError(
            f"{root} holds a single run, but num_runs={num_runs} is asked for: give "
            "another --output_dir."
        )


def _train_run(job, strategy, sets) -> dict[str, Any]:
    """One run; what its best weights make of the sets goes into its results."""
    results = training_run.run(job, strategy)
    if results["status"] == training_run.PRE_EMPTED or not sets:
        return results
    folder = Path(job.train_config.output_dir)
    weights = output_folders.locate_best(folder)
    results["sets"] = _try(job, weights, sets, strategy)
    if devices.is_chief(strategy):
        write_json(folder / RESULTS_FILE, results)
    return results


def evaluate(
    job: training_run.Job,
    strategy: tf.distribute.Strategy,
    sets: Mapping[str, RecordSet],
) -> dict[str, dict]:
    """Tries trained weights on sets: scores in `eval_results.json`, and predictions.

    Args:
      job: the task, and what `init_checkpoint` and `output_dir` say.
      strategy: the devices.
      sets: name -> rows.
    Returns:
      Name -> loss and scores of the sets that have labels.
    """
    folder = Path(job.train_config.output_dir)
    reports = _try(job, job.init_checkpoint, sets, strategy)
    if reports and devices.is_chief(strategy):
        model = {"checkpoint": str(job.init_checkpoint)}
        write_json(folder / EVALUATION_FILE, {**model, "sets": reports})
    return reports


def _try(job, weights, sets, strategy) -> dict[str, dict]:
    """Writes predictions; returns the reports of sets with labels."""
    found = training_evaluation.evaluate_sets(
        job.task, job.model_config, job.train_config, weights, sets, strategy
    )
    for name, evaluation in found.items():
        _warn_of_collapse(name, evaluation)
    folder = Path(job.train_config.output_dir) / PREDICTIONS_FOLDER
    if devices.is_chief(strategy):
        folder.mkdir(parents=True, exist_ok=True)
        for name, evaluation in found.items():
            metadata = sets[name].metadata
            arrays = {
                **evaluation.predictions,
                **read_strings(sets[name]),
                "content_sha256": np.array(metadata.get("content_sha256", "")),
                "labelled": np.array(metadata.get("labelled", True)),
            }
            write_whole(folder / f"{name}.npz", _npz_bytes(arrays))
    return {
        name: evaluation.report
        for name, evaluation in found.items()
        if sets[name].metadata.get("labelled", True)
    }


def _warn_of_collapse(name: str, evaluation: training_evaluation.Evaluation) -> None:
    probabilities = evaluation.predictions.get("probabilities")
    if probabilities is None or len(probabilities) < 2:
        return
    if len(np.unique(probabilities.argmax(axis=-1))) == 1:
        print(
            f"WARNING: all {len(probabilities)} predictions of {name} are one class: "
            "the model may have collapsed; lower --learning_rate.",
            flush=True,
        )


def predicted_sets(output_dir: Path) -> list[str]:
    """Names of the sets that a run, or the best of several, has predicted."""
    folders = _predictions_folders(output_dir)
    return sorted({file.stem for folder in folders for file in folder.glob("*.npz")})


def _predictions_folders(output_dir: Path) -> list[Path]:
    """Where a run's predictions are; of several: what the best one made in training,
    and what its weights made later, in the folder of all runs."""
    folders = (output_folders.best_run_folder(output_dir), output_dir)
    return [folder / PREDICTIONS_FOLDER for folder in folders]


def read_predictions(output_dir: Path, name: str) -> dict[str, np.ndarray]:
    """What a run, or the best of several, predicted last for a set, in its order.

    Besides what the task keeps of each row there are the rows' strings, the set's
    `content_sha256`, and `labelled`, whether its labels mean something.

    Raises:
      FileNotFoundError: it predicted nothing for such a set.
      ValueError: the file is damaged.
    """
    files = [folder / f"{name}.npz" for folder in _predictions_folders(output_dir)]
    there = [file for file in files if file.is_file()]
    if not there:
        raise FileNotFoundError(
            f"{files[0]} is missing: run that model with --do_predict, or --do_eval, "
            "first."
        )
    file = max(there, key=lambda file: file.stat().st_mtime)
    try:
        with np.load(file) as arrays:
            return dict(arrays)
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{file} is damaged ({error}): predict again.") from error


def _npz_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _summary(results: Mapping[str, dict], metric: str) -> dict[str, Any]:
    """Of the best evaluations of several runs."""
    values = {
        name: run["best"][metric] if "best" in run else run[metric]
        for name, run in results.items()
    }
    # A score that is not defined, as a correlation with a constant, is the worst.
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
