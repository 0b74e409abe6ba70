"""Labels of rows that have any number of them, as tables hold them."""

from collections.abc import Sequence

from albert_tf.storage import PathLike, as_path
from albert_tf.task_config import MultiLabel
from data_prep.corpus.files import open_bytes
from data_prep.fine_tuning.row_labels import NOT_IN_A_TABLE
from data_prep.fine_tuning.tables import Columns, Example, read_table


def label_set(example: Example, separator: str) -> list[str]:
    """The names of the labels of an example, each once, in the order of the file.

    White space around a name is dropped and white space in it becomes single spaces.
    Names without a character count as none.

    Args:
      example: its labels are a list, or a text in which `separator` is between them.
      separator: text between labels.
    """
    parts = _parts(example, separator)
    return list(dict.fromkeys(filter(None, (" ".join(p.split()) for p in parts))))


def count_repeated(examples: Sequence[Example], separator: str) -> int:
    """Counts the labels that `label_set` leaves out: repeated and empty ones."""
    return sum(
        len(_parts(each, separator)) - len(label_set(each, separator))
        for each in examples
    )


def _parts(example: Example, separator: str) -> Sequence[str]:
    if example.labels is not None:
        return example.labels
    text = example.label or ""
    return text.split(separator) if text.strip() else []


def check_names(names: Sequence[str], separator: str, path: PathLike) -> None:
    """Checks that tables of predictions can hold names of labels.

    Raises:
      ValueError: a name holds the text between labels, or what no table can.
    """
    for name in names:
        if separator in name or NOT_IN_A_TABLE.search(name):
            raise ValueError(
                f"{path}: the label {name!r:.80} holds the separator {separator!r}, or "
                "a character that no table can hold, so that no table of predictions "
                "can name it: choose another --label_separator, or rename it."
            )


def read_names(path: PathLike) -> list[str]:
    """Reads the names of labels from a file, a name a line.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: a line is empty or repeats a name; there are none; or not UTF-8.
    """
    path = as_path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}: check the path.")
    with open_bytes(path) as file:
        try:
            text = file.read().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not UTF-8 ({error}): convert it.") from None
    names = [" ".join(line.split()) for line in text.rstrip().splitlines()]
    for number, name in enumerate(names):
        if not name or name in names[:number]:
            raise ValueError(
                f"{path}, line {number + 1}: each label is named once. Received "
                f"{name!r}."
            )
    if not names:
        raise ValueError(f"{path} names no labels: give a file with a label a line.")
    return names


def read_label_sets(
    path: PathLike, columns: Columns, separator: str, on_bad_row: str
) -> list[str]:
    """Returns the labels of a table to train on, sorted.

    Raises:
      ValueError: no row has a label; else as `read_table`.
    """
    examples = read_table(path, columns, on_bad_row, several_labels=True).examples
    labels = sorted({name for each in examples for name in label_set(each, separator)})
    if not labels:
        raise ValueError(
            f"{path} has no row with a label: name the right column with "
            "--label_column."
        )
    return labels


def label_set_values(
    examples: Sequence[Example], task_config: MultiLabel
) -> list[list[int]]:
    """The labels of each example as the model learns them: 1 for those that it has.

    Raises:
      ValueError: a label is none of the task's; its line is named.
    """
    places = {label: place for place, label in enumerate(task_config.labels)}
    if task_config.numbered_labels:
        places = {str(place): place for place in places.values()}
    values = []
    for example in examples:
        row = [0] * len(task_config.labels)
        for name in label_set(example, task_config.label_separator):
            if name not in places:
                raise ValueError(
                    f"{example.place}: the label {name!r} is none of "
                    f"{_listed(list(places))}: correct it, or train on a file that has "
                    "it."
                )
            row[places[name]] = 1
        values.append(row)
    return values


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:20]))
    return f"{shown} and {len(names) - 20} more" if len(names) > 20 else shown
