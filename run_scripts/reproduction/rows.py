"""The rows of the paper's tables that are models to pretrain, as their recipes say."""

import dataclasses
import difflib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from albert_tf.config import AlbertConfig, TrainConfig
from albert_tf.optimizer_config import OptimizerConfig
from data_prep.pretraining.config import PretrainingDataConfig

REPOSITORY = Path(__file__).resolve().parents[2]
RECIPES = REPOSITORY / "configs" / "recipes"
# A score is a percentage, or F1 and exact match of SQuAD.
Score = tuple[float, ...]
# The tasks of Tables 2 to 8 and 11 to 13, in the order of their columns.
AVERAGED = ("SQuAD 1.1", "SQuAD 2.0", "MNLI", "SST-2", "RACE")
# Those of GLUE in Table 9, and those of Table 10.
_GLUE = ("MNLI", "QNLI", "QQP", "RTE", "SST-2", "MRPC", "CoLA", "STS-B")
_ANSWERS = ("SQuAD 1.1", "SQuAD 2.0", "RACE")
_OF_TABLES = {"9": _GLUE, "10": _ANSWERS}
_SCORE = r"(\d+\.\d)(?:/(\d+\.\d))?"


@dataclasses.dataclass(frozen=True)
class Recipe:
    """The content of a file in configs/recipes.

    Attributes:
      path: the file.
      header: its comments, as one line.
      flags: names and values, in order.
    """

    path: Path
    header: str
    flags: tuple[tuple[str, str], ...]

    @classmethod
    def read(cls, path: Path) -> "Recipe":
        """Reads a recipe."""
        lines = path.read_text(encoding="utf-8").splitlines()
        comments = [line.strip("# ") for line in lines if line.startswith("#")]
        flags = [line[2:].partition("=") for line in lines if line.startswith("--")]
        named = tuple((name, value) for name, _, value in flags)
        return cls(path, " ".join(filter(None, comments)), named)

    @property
    def config_file(self) -> Path:
        """The configuration that a pretraining names."""
        return REPOSITORY / dict(self.flags)["albert_config_file"]

    def number(self, name: str, default: int) -> int:
        """The value of a flag that is a number."""
        return int(dict(self.flags).get(name, default))

    def steps_of_rows(self) -> tuple[int, int, int]:
        """Number of steps, rows of a step, and tokens of a row."""
        return (
            self.number("num_train_steps", OptimizerConfig.num_train_steps),
            self.number("train_batch_size", TrainConfig.train_batch_size),
            self.number("max_seq_length", PretrainingDataConfig.max_seq_length),
        )


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of a table.

    Attributes:
      name: that of its recipe.
      recipe: its pretraining.
      config: the model's configuration.
      start: the row whose model pretraining starts from; None: from random weights.
      pair_objective: the second objective of its records, "sop", "nsp" or "none".
      scores: task -> the paper's score, in the order of the columns.
      average: the paper's average of five tasks; None: the table has none.
    """

    name: str
    recipe: Recipe
    config: AlbertConfig
    start: str | None
    pair_objective: str
    scores: Mapping[str, Score]
    average: float | None

    @classmethod
    def read(cls, name: str) -> "Row":
        """Reads the recipe of a row.

        Raises:
          ValueError: there is no such row, or the paper has no scores of it.
        """
        names = all_rows()
        if name not in names:
            alike = difflib.get_close_matches(name, names, 3) or names[:3]
            raise ValueError(
                f"{name!r} is no row with scores: give the name of a recipe of a "
                f"table in {RECIPES}, as {' or '.join(alike)}."
            )
        recipe = Recipe.read(RECIPES / f"{name}.flags")
        changes = [value for key, value in recipe.flags if key == "config_override"]
        start = re.search(r"--init_checkpoint=models/(\w+)", _command(recipe, name))
        objective = re.search(r"--pair_objective=(\w+) \.\.\.", recipe.header)
        average = re.search(r"average (\d+\.\d)", recipe.header)
        return cls(
            name,
            recipe,
            AlbertConfig.from_json(recipe.config_file).override(changes),
            start and start[1],
            objective[1] if objective else "sop",
            {task: _score(recipe, task) for task in tasks_of(name)},
            float(average[1]) if average else None,
        )


def all_rows() -> list[str]:
    """Names of the rows that can be reproduced."""
    return sorted(path.stem for path in RECIPES.glob("table*.flags"))


def tasks_of(name: str) -> Sequence[str]:
    """The tasks of a row's table, in the order of its columns."""
    number = re.match(r"table(\d+)", name)
    return _OF_TABLES.get(number[1] if number else "", AVERAGED)


def average_of(scores: Mapping[str, Score]) -> float:
    """The column Avg: the mean of the tasks, each of which counts as the mean of its
    numbers (section 4.3: F1 and exact match of SQuAD are averaged first)."""
    return sum(sum(score) / len(score) for score in scores.values()) / len(scores)


def _command(recipe: Recipe, name: str) -> str:
    """The command of the header that pretrains."""
    return recipe.header.partition(f"--output_dir=models/{name}")[2].partition("Cost")[
        0
    ]


def _score(recipe: Recipe, task: str) -> Score:
    """The paper's score of a task, from the header."""
    found = re.search(rf"{re.escape(task)}:? {_SCORE}", recipe.header)
    if not found:
        raise ValueError(f"{recipe.path} has no score of {task}: add it to its header.")
    return tuple(float(number) for number in found.groups() if number)
