"""The tasks of the tables: their recipes, data, commands and scores."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from albert_tf.files import read_json
from albert_tf.storage import AnyPath
from data_prep.fine_tuning import glue
from reproduction.rows import RECIPES, Recipe, Score

RESULTS = "results.json"


@dataclasses.dataclass(frozen=True)
class Task:
    """A task to fine-tune on.

    Attributes:
      name: that of the tables.
      recipe: name of its recipe, which is that of its folder of results too.
      script: the script.
      data: folder of --data_dir -> flags of the data. Raises FileNotFoundError.
      layout: flags of the data, of a folder DATA.
      score: content of results.json -> the score of the tables.
      options: inputs of a row that has several.
      repeated: True if the score is the median of several runs, as GLUE's.
      from_mnli: True if training starts from the model of MNLI in Table 9.
    """

    name: str
    recipe: str
    script: str
    data: Callable[[AnyPath], list[str]]
    layout: tuple[str, ...]
    score: Callable[[dict[str, Any]], Score]
    options: int = 1
    repeated: bool = False
    from_mnli: bool = False

    def read_recipe(self) -> Recipe:
        """The recipe."""
        return Recipe.read(RECIPES / f"{self.recipe}.flags")

    def read_score(self, folder: AnyPath) -> Score | None:
        """The score of a finished training, in percent; None: it is not finished."""
        results = read_json(folder / RESULTS, missing_ok=True)
        return self.score(results) if is_finished(results) else None


def is_finished(results: dict[str, Any]) -> bool:
    """True for the results of one run or of several that ended."""
    done = ("finished", "stopped early")
    return "runs" in results or results.get("status") in done


def _squad(version: str) -> Callable[[AnyPath], list[str]]:
    def flags(data_dir: AnyPath) -> list[str]:
        names = [f"{split}-v{version}.json" for split in ("train", "dev")]
        folders = [data_dir / "SQuAD", data_dir / "squad", data_dir]
        folder = _first(folders, lambda place: (place / names[0]).is_file())
        if folder is None:
            raise FileNotFoundError(f"SQuAD/{names[0]} and SQuAD/{names[1]}")
        train, dev = (folder / name for name in names)
        return [f"--train_file={train}", f"--predict_file={dev}"]

    return flags


def _glue(name: str) -> Callable[[AnyPath], list[str]]:
    task = glue.GLUE[name]

    def flags(data_dir: AnyPath) -> list[str]:
        for folder in (data_dir, data_dir / "glue", data_dir / "GLUE"):
            try:
                found = glue.task_folder(folder, task)
            except FileNotFoundError:
                continue
            if found != folder:
                return [f"--data_dir={folder}"]
        raise FileNotFoundError(f"{task.folder}/train.tsv, as GLUE has it")

    return flags


def _race(data_dir: AnyPath) -> list[str]:
    folders = [data_dir / "RACE", data_dir / "race", data_dir]
    folder = _first(folders, lambda place: (place / "train" / "middle").is_dir())
    if folder is None:
        raise FileNotFoundError("RACE/train/middle and the other folders of RACE")
    return [f"--data_dir={folder}"]


def _first(
    folders: Sequence[AnyPath], holds: Callable[[AnyPath], bool]
) -> AnyPath | None:
    return next(filter(holds, folders), None)


def _squad_score(results: dict[str, Any]) -> Score:
    """F1 and exact match of the development file, in percent."""
    report = results["sets"]["dev"]
    exact = report["exact_match"] if "exact_match" in report else report["exact"]
    return report["f1"], exact


def _race_score(split: str) -> Callable[[dict[str, Any]], Score]:
    return lambda results: (100 * results["sets"][split]["eval_accuracy"],)


def _median(results: dict[str, Any]) -> Score:
    """The task's metric, of several runs their median, in percent."""
    if "runs" in results:
        return (100 * (results["median"] or 0.0),)
    report = results["sets"]["dev"]
    metric = glue.GLUE[results["settings"]["task"]].metrics[0]
    return (100 * report[metric],)


def _squad_task(version: str) -> Task:
    files = [f"DATA/SQuAD/{split}-v{version}.json" for split in ("train", "dev")]
    return Task(
        f"SQuAD {version}",
        f"squad-v{version[0]}",
        "run_squad.py",
        _squad(version),
        (f"--train_file={files[0]}", f"--predict_file={files[1]}"),
        _squad_score,
    )


def _glue_task(name: str, from_mnli: bool) -> Task:
    recipe = name.lower()
    return Task(
        name,
        recipe,
        "run_classifier.py",
        _glue(recipe),
        ("--data_dir=DATA",),
        _median,
        repeated=True,
        from_mnli=from_mnli,
    )


# Those of Table 9 that start from MNLI.
_FROM_MNLI = ("RTE", "STS-B", "MRPC")
_GLUE_NAMES = ("MNLI", "QNLI", "QQP", "RTE", "SST-2", "MRPC", "CoLA", "STS-B")


def tasks_for(names: Sequence[str]) -> list[Task]:
    """The tasks of a table, by the names of its columns.

    Table 10 has RACE's test set, the others its development set; in Table 9, of all
    tasks of GLUE, some start from MNLI.
    """
    is_table_10 = len(names) == 3
    known = [
        _squad_task("1.1"),
        _squad_task("2.0"),
        Task(
            "RACE",
            "race",
            "run_race.py",
            _race,
            ("--data_dir=DATA/RACE",),
            _race_score("test" if is_table_10 else "dev"),
            options=4,
        ),
        *(
            _glue_task(name, "QNLI" in names and name in _FROM_MNLI)
            for name in _GLUE_NAMES
        ),
    ]
    by_name = {task.name: task for task in known}
    return [by_name[name] for name in names]
