"""Labels of rows that have one each, or a number."""

import math
import re
from collections.abc import Sequence

from albert_tf.storage import PathLike
from data_prep.fine_tuning.tables import Columns, Example, read_table

# The last ones are halves of surrogate pairs.
NOT_IN_A_TABLE = re.compile("[\t\r\n\0\ud800-\udfff]")


def label_name(example: Example) -> str:
    """Returns the name of the class of an example, for its label as a file has it.

    White space around it is dropped and white space in it becomes single spaces, so
    that labels which look alike are one class. A whole number of JSON, as 1.0, has no
    decimal point.
    """
    name = " ".join((example.label or "").split())
    if example.label_is_number and float(name).is_integer():
        return str(int(float(name)))
    return name


def count_respelled(examples: Sequence[Example]) -> int:
    """Counts the labels that `label_name` changes."""
    return sum(label_name(each) != (each.label or "") for each in examples)


def read_labels(
    path: PathLike, columns: Columns, on_bad_row: str = "error"
) -> list[str]:
    """Returns the labels of a table to train a classification on, sorted.

    They are named as `label_name` does.

    Raises:
      ValueError: there are fewer than two, or one that no table of predictions can
        hold; else as `read_table`.
    """
    examples = read_table(path, columns, on_bad_row).examples
    for label in {(example.label or "").strip() for example in examples}:
        if NOT_IN_A_TABLE.search(label):
            raise ValueError(
                f"{path}: the label {label!r} holds a tab, line end or the like, so "
                "that no table of predictions can name it: rename it."
            )
    labels = sorted(set(map(label_name, examples)))
    if len(labels) < 2:
        raise ValueError(
            f"{path} has one label only, {labels[0]!r}: there is nothing to learn; "
            "give rows of at least two, or pass --regression."
        )
    return labels


def label_values(
    examples: Sequence[Example], labels: Sequence[str] | None
) -> list[float]:
    """Labels as a model learns them: indices into `labels`, or numbers if it is None.

    A label is looked up as the file has it, then as `label_name` spells it.

    Raises:
      ValueError: a label is not one of `labels`, or not a number; its line is named.
    """
    places = {label: place for place, label in enumerate(labels or ())}
    values = []
    for example in examples:
        name = example.label if example.label in places else label_name(example)
        if labels is None:
            values.append(_number(example))
        elif name in places:
            values.append(places[name])
        else:
            raise ValueError(
                f"{example.place}: the label {example.label!r} is none of "
                f"{', '.join(map(repr, labels))}: correct it, or train on a file that "
                "has it."
            )
    return values


def _number(example: Example) -> float:
    try:
        value = float(example.label or "")
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(
            f"{example.place}: the label {example.label!r} is not a number, as a "
            "regression needs it."
        )
    return value
