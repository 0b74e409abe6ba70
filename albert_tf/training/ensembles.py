"""Several models' predictions of the same rows as one (section 4.9 of the paper)."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from albert_tf.checkpoints.output_folders import RESULTS_FILE
from albert_tf.files import read_json
from albert_tf.training import stored_predictions

# What is averaged; all else must be the same in all models.
_AVERAGED = ("probabilities", "values")

Predictions = Mapping[str, np.ndarray]
Score = Callable[[Predictions], dict[str, float]]


def check_output(folder: Path) -> None:
    """Raises ValueError if an ensemble's files would take the place of a run's."""
    results = read_json(folder / RESULTS_FILE, missing_ok=True)
    if results and "models" not in results:
        raise ValueError(
            f"{folder} holds a run, whose results an ensemble's would replace: give "
            "another --output_dir."
        )


def shared_task(names: Sequence[str], facts: Sequence[Mapping]) -> dict[str, Any]:
    """What `task.json` of several models says, which must agree.

    Raises:
      ValueError: they differ in task or labels, or one is of SQuAD or of no task.
    """
    first = facts[0]
    for name, each in zip(names, facts, strict=True):
        if not each:
            raise ValueError(f"{name} was not trained for a task: leave it out.")
        if "labels" not in each:
            raise ValueError(
                f"{name} was trained for {each.get('task_name')}: for SQuAD there is "
                "ensemble_squad.py."
            )
        for key in ("task_name", "labels"):
            if each.get(key) != first.get(key):
                raise ValueError(
                    f"{name} was trained with {key}={each.get(key)}, {names[0]} with "
                    f"{first.get(key)}: average models of one task."
                )
    return dict(first)


def read_sets(folders: Sequence[Path]) -> dict[str, list[dict[str, np.ndarray]]]:
    """Name -> what each model predicted for a set that all of them predicted.

    Raises:
      FileNotFoundError: they have no set in common.
      ValueError: sets of one name hold other rows.
    """
    found = [stored_predictions.splits(folder) for folder in folders]
    shared = [name for name in found[0] if all(name in sets for sets in found)]
    if not shared:
        raise FileNotFoundError(
            f"{', '.join(map(str, folders))} have no predicted set in common: run each "
            "with --do_eval or --do_predict."
        )
    sets = {
        name: [stored_predictions.read(folder, name) for folder in folders]
        for name in shared
    }
    for name, members in sets.items():
        for folder, member in zip(folders, members, strict=True):
            if not _same_rows(member, members[0]):
                raise ValueError(
                    f"{folder} predicted other rows as {name} than {folders[0]}: "
                    "predict the same file with both."
                )
    return sets


def _same_rows(one: Predictions, other: Predictions) -> bool:
    """The same rows, though other vocabularies and lengths may have made them."""
    names = [n for n in one if n not in (*_AVERAGED, "content_sha256")]
    shapes = all(one[n].shape == other[n].shape for n in _AVERAGED if n in one)
    return shapes and all(np.array_equal(one[name], other[name]) for name in names)


def average(members: Sequence[Predictions]) -> dict[str, np.ndarray]:
    """The mean of probabilities or values; the rest is the first one's."""
    averaged = {
        name: np.mean([member[name] for member in members], axis=0)
        for name in _AVERAGED
        if name in members[0]
    }
    return {**members[0], **averaged}


def select(members: Sequence[Predictions], score: Score, metric: str) -> list[int]:
    """The models whose average is best: the best one, then greedily each that helps.

    Args:
      members: what each model predicted for the set to choose by, with labels.
      score: of a set's predictions.
      metric: which of its scores counts; higher is better.
    Returns:
      Indices of models, in the order of their choice; the same model may not come
      twice.
    """
    chosen, best = [], -np.inf
    while len(chosen) < len(members):
        rest = [index for index in range(len(members)) if index not in chosen]
        values = [
            np.nan_to_num(
                score(average([members[i] for i in (*chosen, index)]))[metric],
                nan=-np.inf,
            )
            for index in rest
        ]
        if chosen and max(values) <= best:
            break
        best = max(values)
        chosen.append(rest[int(np.argmax(values))])
    return chosen
