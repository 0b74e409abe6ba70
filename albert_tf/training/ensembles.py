"""Ensembles: several models' predictions of the same rows, averaged (section 4.9 of the
paper)."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from albert_tf.checkpoints.output_folders import RESULTS_FILE
from albert_tf.checkpoints.output_names import BEST_RUN_KEY
from albert_tf.files import read_json
from albert_tf.storage import AnyPath
from albert_tf.task_config import Embedding, MultiLabel, Squad, TaskConfig
from albert_tf.training import stored_predictions
from albert_tf.training.stored_predictions import Predictions

# These are averaged; all other arrays must be the same for all models.
_AVERAGED = ("probabilities", "values")
# Fields of a task configuration that must be the same for all models.
_SHARED = ("task_name", "labels")

Metrics = Callable[[Predictions], Mapping[str, float]]


def check_output(folder: AnyPath) -> None:
    """Checks that a folder holds no run, whose files an ensemble's would replace.

    Raises:
      ValueError: it does.
    """
    results = read_json(folder / RESULTS_FILE, missing_ok=True)
    if results and "models" not in results:
        raise ValueError(
            f"{folder} holds a run, whose results an ensemble's would replace: give "
            "another --output_dir."
        )


def best_models(folders: Sequence[AnyPath], count: int, metric: str) -> list[AnyPath]:
    """The models with the best scores on their development sets, in their order.

    Args:
      folders: output folders of runs.
      count: how many; 0: all.
      metric: name of the score; higher is better.
    Raises:
      ValueError: there are not so many, or a run has no such score.
    """
    if not count:
        return list(folders)
    if count > len(folders):
        raise ValueError(
            f"--num_models={count} of {len(folders)} models: give more --models, or a "
            "smaller number."
        )
    scores = [_development_score(folder, metric) for folder in folders]
    order = sorted(range(len(folders)), key=lambda index: -scores[index])
    return [folders[index] for index in sorted(order[:count])]


def _development_score(folder: AnyPath, metric: str) -> float:
    results = read_json(folder / RESULTS_FILE, missing_ok=True)
    if BEST_RUN_KEY in results:
        results = read_json(folder / results[BEST_RUN_KEY] / RESULTS_FILE)
    value = results.get("best", results).get(metric)
    if value is None:
        raise ValueError(
            f"{folder} has no development score {metric} to choose by: train it with "
            "--do_eval, or leave --num_models out."
        )
    return value


def shared_task(
    names: Sequence[str], task_configs: Sequence[TaskConfig | None]
) -> TaskConfig:
    """The one task of several models; its thresholds of labels are their means.

    Args:
      names: of the models, for messages.
      task_configs: what each of them was trained for.
    Raises:
      ValueError: they differ in task or labels, or one is of SQuAD or of no task.
    """
    first: TaskConfig | None = None
    thresholds = []
    for name, task_config in zip(names, task_configs, strict=True):
        if task_config is None:
            raise ValueError(f"{name} was not trained for a task: leave it out.")
        if isinstance(task_config, Squad):
            raise ValueError(
                f"{name} was trained for {task_config.task_name}: for SQuAD there is "
                "ensemble_squad.py."
            )
        if isinstance(task_config, Embedding):
            raise ValueError(
                f"{name} makes vectors, and those of different models have nothing in "
                "common to average: leave it out."
            )
        first = first or task_config
        if isinstance(task_config, MultiLabel):
            thresholds.append(task_config.all_thresholds)
        values, expected = task_config.to_dict(), first.to_dict()
        for key in _SHARED:
            if values.get(key) != expected.get(key):
                raise ValueError(
                    f"{name} was trained with {key}={values.get(key)}, {names[0]} with "
                    f"{expected.get(key)}: average models of one task."
                )
    if first is None:
        raise ValueError("An ensemble needs models. Received none: give --models.")
    if isinstance(first, MultiLabel):
        means = np.mean(thresholds, axis=0).tolist()
        return dataclasses.replace(first, thresholds=means)
    return first


def read_splits(folders: Sequence[AnyPath]) -> dict[str, list[Predictions]]:
    """Reads the predictions of the splits that all models have predicted.

    Args:
      folders: output folders of runs.
    Returns:
      Name of the split -> predictions of each model.
    Raises:
      FileNotFoundError: they have no split in common.
      ValueError: splits of one name hold other rows.
    """
    names = [stored_predictions.splits(folder) for folder in folders]
    shared = [name for name in names[0] if all(name in others for others in names)]
    if not shared:
        raise FileNotFoundError(
            f"{', '.join(map(str, folders))} have no predicted set in common: run each "
            "with --do_eval or --do_predict."
        )
    splits: dict[str, list[Predictions]] = {
        name: [stored_predictions.read(folder, name) for folder in folders]
        for name in shared
    }
    for name, members in splits.items():
        for folder, member in zip(folders, members, strict=True):
            if not _same_rows(member, members[0]):
                raise ValueError(
                    f"{folder} predicted other rows as {name} than {folders[0]}: "
                    "predict the same file with both."
                )
    return splits


def _same_rows(one: Predictions, other: Predictions) -> bool:
    """True if the rows are the same, whatever vocabulary or length they have."""
    names = [n for n in one if n not in (*_AVERAGED, "content_sha256")]
    shapes = all(one[n].shape == other[n].shape for n in _AVERAGED if n in one)
    return shapes and all(np.array_equal(one[name], other[name]) for name in names)


def average(members: Sequence[Predictions]) -> dict[str, np.ndarray]:
    """The mean of probabilities or values, and all other arrays of the first model."""
    averaged = {
        name: np.mean([member[name] for member in members], axis=0)
        for name in _AVERAGED
        if name in members[0]
    }
    return {**members[0], **averaged}


def select(members: Sequence[Predictions], metrics: Metrics, metric: str) -> list[int]:
    """Chooses models greedily: the best one, then each that improves the average most.

    Args:
      members: each model's predictions of the split to choose by, with labels.
      metrics: predictions of a split -> its metrics.
      metric: name of the one that counts; higher is better.
    Returns:
      Indices of different models, in the order of their choice.
    """
    chosen: list[int] = []
    best = -np.inf
    while len(chosen) < len(members):
        rest = [index for index in range(len(members)) if index not in chosen]
        values = [
            np.nan_to_num(
                metrics(average([members[i] for i in (*chosen, index)]))[metric],
                nan=-np.inf,
            )
            for index in rest
        ]
        if chosen and max(values) <= best:
            break
        best = max(values)
        chosen.append(rest[int(np.argmax(values))])
    return chosen
