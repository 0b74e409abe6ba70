"""Turns tables of texts into splits to train on, to evaluate and to predict."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from albert_tf.storage import PathLike
from albert_tf.task_config import (
    Classification,
    MultiLabel,
    Regression,
    TaskConfig,
    TextTask,
)
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.fine_tuning import label_sets, row_labels, split_rows
from data_prep.fine_tuning.tables import Columns
from data_prep.fine_tuning.task_data import (
    CACHE_DIR,
    CUSTOM,
    DEV_SPLITS,
    MAX_SEQ_LENGTH,
    TaskData,
    task_data,
)


def table(
    files: Mapping[str, PathLike],
    tokenizer: AlbertTokenizer,
    columns: Columns | None = None,
    *,
    regression: bool = False,
    multi_label: bool = False,
    label_separator: str = MultiLabel.label_separator,
    label_names: PathLike | None = None,
    max_seq_length: int = MAX_SEQ_LENGTH,
    cache_dir: PathLike = CACHE_DIR,
    on_bad_row: str = "error",
    **windows: Any,
) -> TaskData:
    """Reads tables of one's own to train a classification or a regression on.

    Args:
      files: split -> .tsv, .csv or .jsonl file. "train" is needed, whose labels become
        the task's; "dev" has labels; any other split is predicted.
      tokenizer: the model's.
      columns: the columns; None: "text" and "label".
      regression: True if labels are numbers to predict.
      multi_label: True if a row has any number of labels: a list of .jsonl, or a text.
      label_separator: text between the labels of such a row.
      label_names: file with the name of a label a line, for tables that have their
        places from 0 in the place of names; None: names are those of the table.
      max_seq_length: longest row in tokens, special tokens included.
      cache_dir: folder for the converted rows.
      on_bad_row: as `tables.read_table`.
      **windows: `window_pooling`, `doc_stride` and `max_windows` of the task.
    Raises:
      FileNotFoundError: a file is missing.
      ValueError: labels that cannot be learned, a row that cannot be read, or a length
        without room.
    """
    if "train" not in files:
        raise ValueError(
            f"A table to train on is needed. Received {', '.join(files) or 'none'}: "
            "add 'train', or use table_of_task for a trained model."
        )
    columns = columns or Columns("text", label="label")
    if regression and multi_label:
        raise ValueError(
            "A row has either a number or labels: pass one of --regression and "
            "--multi_label."
        )
    if label_names is not None and not multi_label:
        raise ValueError(
            "Names of labels are for rows of several labels: add --multi_label, or "
            "leave --label_names out."
        )
    values = {"columns": columns.to_dict(), "max_seq_length": max_seq_length, **windows}
    task_config: TextTask
    if regression:
        task_config = Regression(CUSTOM, **values)
    elif multi_label:
        values["label_separator"] = label_separator
        values["numbered_labels"] = label_names is not None
        labels = _label_sets(
            files["train"], columns, label_separator, label_names, on_bad_row
        )
        task_config = MultiLabel(CUSTOM, labels, **values)
    else:
        labels = row_labels.read_labels(files["train"], columns, on_bad_row)
        metrics = ["eval_accuracy"]
        metrics += ["f1", "matthew_corr"] if len(labels) == 2 else []
        task_config = Classification(CUSTOM, labels, metrics, **values)
    conversion = split_rows.Conversion(tokenizer, cache_dir, on_bad_row)
    return read_tables(files, task_config, columns, conversion)


def _label_sets(
    train: PathLike,
    columns: Columns,
    separator: str,
    label_names: PathLike | None,
    on_bad_row: str,
) -> list[str]:
    """The labels of rows that have several: those of a file, or of the table."""
    if not separator:
        raise ValueError(
            "Labels need a separator. Received an empty --label_separator: name one."
        )
    if label_names is not None:
        labels, file = label_sets.read_names(label_names), label_names
    else:
        labels = label_sets.read_label_sets(train, columns, separator, on_bad_row)
        file = train
    label_sets.check_names(labels, separator, file)
    return labels


def table_of_task(
    files: Mapping[str, PathLike],
    tokenizer: AlbertTokenizer,
    task_config: TaskConfig | None,
    *,
    label_column: str | int | None = None,
    cache_dir: PathLike = CACHE_DIR,
    on_bad_row: str = "error",
) -> TaskData:
    """Reads tables for a model that is trained already.

    Args:
      files: split -> .tsv, .csv or .jsonl file. "dev" has labels; any other split is
        predicted.
      tokenizer: the model's.
      task_config: the model's, which has the labels, the columns and the length.
      label_column: column of the label in "dev"; None: the one trained on, or else
        "label".
      cache_dir: folder for the converted rows.
      on_bad_row: as `tables.read_table`.
    Raises:
      FileNotFoundError: a file is missing.
      ValueError: the model is of another task, or a row that cannot be read.
    """
    if not isinstance(task_config, TextTask):
        name = task_config.task_name if task_config else "no task"
        raise ValueError(
            f"The model was trained for {name}, not to classify texts: give one that "
            "was."
        )
    known = dict(task_config.columns)
    if known.get("text") is None:
        raise ValueError(
            f"The task {task_config.task_name} does not say which column of a table "
            "holds the text: give it, as --text_column or in its columns."
        )
    if label_column is None:
        label_column = known.get("label")
    if label_column is None:
        label_column = "label"
    columns = Columns(**{**known, "label": label_column})
    conversion = split_rows.Conversion(tokenizer, cache_dir, on_bad_row)
    return read_tables(files, task_config, columns, conversion)


def read_tables(
    files: Mapping[str, PathLike],
    task_config: TextTask,
    columns: Columns,
    conversion: split_rows.Conversion,
) -> TaskData:
    """Converts each file; splits that are predicted have the columns of the task."""
    splits = {}
    for name, file in files.items():
        labelled = name == "train" or name in DEV_SPLITS
        read = columns
        if not labelled:
            read = dataclasses.replace(Columns(**task_config.columns), label=None)
        splits[name] = split_rows.of_table(name, file, read, task_config, conversion)
    return task_data(task_config, splits)
