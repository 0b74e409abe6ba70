"""The row that a reproduction prints, beside the paper's."""

from collections.abc import Mapping
from typing import Any

from reproduction.rows import Row, Score, average_of

_SMALL_NOTE = (
    "A small model, short trainings and samples: the numbers show that all steps work, "
    "and cannot be compared with the paper's."
)


def lines(row: Row, scores: Mapping[str, Score], small: bool) -> list[str]:
    """The table: the paper's row, this one, and their difference.

    Args:
      row: the row.
      scores: task -> score, of all tasks.
      small: True if they are of --small.
    """
    columns = dict(row.scores)
    cells = [["", *columns], ["paper", *(_text(score) for score in columns.values())]]
    cells.append(["here", *(_text(scores[task]) for task in columns)])
    differences = [
        tuple(
            here - paper
            for here, paper in zip(scores[task], columns[task], strict=True)
        )
        for task in columns
    ]
    cells.append(["difference", *(_text(each, "+.1f") for each in differences)])
    if row.average is not None:
        mean = average_of(scores)
        cells[0].append("Avg")
        cells[1].append(f"{row.average:.1f}")
        cells[2].append(f"{mean:.1f}")
        cells[3].append(f"{mean - row.average:+.1f}")
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    rows = [
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in cells
    ]
    return [row.name, *rows, *([_SMALL_NOTE] if small else [])]


def content(row: Row, scores: Mapping[str, Score], small: bool) -> dict[str, Any]:
    """The same as a JSON object."""
    has_average = row.average is not None
    return {
        "row": row.name,
        "small": small,
        "paper": {
            **_plain(row.scores),
            **({"Avg": row.average} if has_average else {}),
        },
        "here": {
            **_plain(scores),
            **({"Avg": average_of(scores)} if has_average else {}),
        },
    }


def _plain(scores: Mapping[str, Score]) -> dict[str, Any]:
    return {task: list(score) for task, score in scores.items()}


def _text(score: Score, form: str = ".1f") -> str:
    return "/".join(format(number, form) for number in score)
