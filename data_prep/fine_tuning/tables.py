"""Reads tables of text as examples of one text or two.

A .tsv file has no quoting, as GLUE's: a quotation mark is text. A .csv file is read by
the csv module; a .jsonl file has one object a line, whose values are texts, numbers, or
true and false; so are those of .parquet. Byte order marks and CRLF are fine.
"""

import contextlib
import csv
import dataclasses
import io
import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

from albert_tf.files import parse_json
from albert_tf.storage import AnyPath, PathLike, as_path
from data_prep import column_files, packed_files
from data_prep.column_files import COLUMN_FILES
from data_prep.corpus.files import open_bytes
from data_prep.packed_files import explained_damage, unpacked

ON_BAD_ROW = ("error", "skip")
# Characters of a header in a message: a file of another kind may be one long line.
_MOST_LISTED = 300
# Characters of a value in a message.
_MOST_SHOWN = 60
_KINDS = {list: "a list", dict: "an object"}


@dataclasses.dataclass(frozen=True)
class Columns:
    """The columns of a table: names in its header, or indices if it has none.

    Attributes:
      text: the first text.
      text_pair: the second text; None: a row has one text.
      label: the label; None: not needed.
      index: the id of a row in a submission; None: its number, from 0.
      header: True if the first line names the columns (not of .jsonl, .parquet).
      negative: a text that is not near to the first one; None: none.
      prefix: a column that is put before each text, with a colon between; None: none.
      only: a column and the value that it has in the rows to read; None: all are read.
      spellings: labels that a file spells otherwise -> the task's names; None: none.
    """

    text: str | int
    text_pair: str | int | None = None
    label: str | int | None = None
    index: str | int | None = None
    header: bool = True
    negative: str | int | None = None
    prefix: str | int | None = None
    only: tuple[str, str] | None = None
    spellings: Mapping[str, str] | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON values of the fields, of the last four those that are not None."""
        values = dataclasses.asdict(self)
        rare = ("negative", "prefix", "only", "spellings")
        return {n: v for n, v in values.items() if n not in rare or v is not None}


@dataclasses.dataclass(frozen=True)
class Example:
    """One row of a table.

    Attributes:
      index: its id in a submission.
      text: the first text.
      text_pair: the second text, which may be empty; None: the table has none.
      label: as the file has it, see `row_labels.label_name`; None: labels are not read.
      place: file and line, for messages.
      label_is_number: whether the label is a number of JSON, so that 1.0 is 1.
      labels: labels that the file has as a list; None: it has none, or a text.
      negative: a text that is not near to the first one; None: the table has none.
    """

    index: str
    text: str
    text_pair: str | None
    label: str | None
    place: str
    label_is_number: bool = False
    labels: tuple[str, ...] | None = None
    negative: str | None = None


@dataclasses.dataclass
class Table:
    """The examples of a file, and the number of its bad rows."""

    examples: list[Example]
    skipped_rows: int


class MissingColumnError(ValueError):
    """A table lacks a column that is to be read."""

    @property
    def fact(self) -> str:
        """The table and what it lacks, without the way out."""
        return str(self.args[0])

    def __str__(self) -> str:
        return f"{self.fact}: name the right one."


class _BadRow(ValueError):
    """A row that cannot be read; its message is a problem without file and line."""


class _BadRows:
    """Raises the problem of a bad row with its file and line, or counts the row.

    Attributes:
      skipped: rows counted.
    """

    def __init__(self, path: AnyPath, on_bad_row: str):
        self._path, self._on_bad_row = path, on_bad_row
        self.skipped = 0

    def add(self, line: int, problem: str) -> None:
        if self._on_bad_row == "error":
            raise ValueError(
                f"{self._path}, line {line}: {problem} Correct the row, or skip such "
                "rows with --on_bad_row=skip."
            )
        self.skipped += 1


def read_table(
    path: PathLike,
    columns: Columns,
    on_bad_row: str = "error",
    several_labels: bool = False,
) -> Table:
    """Reads all rows of a file.

    Args:
      path: the file; .csv, .jsonl, .parquet and .arrow are read as such, any other
        suffix as tsv. The first two may be packed, as .csv.gz or .jsonl.zst. Or a
        folder that Hugging Face's `datasets` saved.
      columns: the columns to read.
      on_bad_row: "error", or "skip" to count rows with too few or too many columns, a
        missing value, or bytes that are not UTF-8.
      several_labels: whether a label may be a list of them, of JSON.
    Raises:
      FileNotFoundError: no such file.
      ValueError: a column is missing, a row is bad (its line is named), or no row is
        left.
    """
    path = as_path(path)
    if not (path.is_file() or column_files.is_dataset_folder(path)):
        raise FileNotFoundError(f"There is no file {path}: check the path.")
    if on_bad_row not in ON_BAD_ROW:
        raise ValueError(
            f"on_bad_row must be one of {', '.join(ON_BAD_ROW)}. Received "
            f"{on_bad_row!r}."
        )
    examples: list[Example] = []
    bad = _BadRows(path, on_bad_row)
    for line, row in _rows(path, columns, bad):
        if columns.only and row.get(columns.only[0]) != columns.only[1]:
            continue
        try:
            place = f"{path}, line {line}"
            number = str(len(examples))
            examples.append(_example(row, columns, place, number, several_labels))
        except _BadRow as error:
            bad.add(line, str(error))
    if not examples:
        raise ValueError(f"{path} holds no rows: give a file that has some.")
    return Table(examples, bad.skipped)


def column_values(path: PathLike, column: str) -> set[str]:
    """The values of a column of a table, as `read_table` reads it."""
    return {example.text for example in read_table(path, Columns(column)).examples}


def _example(
    row: Mapping[Any, Any],
    columns: Columns,
    place: str,
    number: str,
    several_labels: bool,
) -> Example:
    def value(column: str | int, name: str) -> str:
        cell = row.get(column)
        if cell is None:
            raise _BadRow(f"the {name} column {column!r} has no value.")
        return text(cell, column, name)

    def text(cell: Any, column: str | int, name: str) -> str:
        if isinstance(cell, list | dict):
            several = isinstance(cell, list) and name == "label"
            raise _BadRow(
                f"the {name} column {column!r} holds {_KINDS[type(cell)]}, "
                f"{repr(cell)[:_MOST_SHOWN]}: it must hold text or a number"
                f"{', or pass --multi_label' if several else ''}."
            )
        if not isinstance(cell, str | int | float):
            raise _BadRow(
                f"the {name} column {column!r} holds {type(cell).__name__}, "
                f"{repr(cell)[:_MOST_SHOWN]}: it must hold text or a number."
            )
        return cell if isinstance(cell, str) else json.dumps(cell)

    listed = row.get(columns.label) if several_labels else None
    labels = None
    if isinstance(listed, list):
        labels = tuple(text(each, str(columns.label), "label") for each in listed)

    before = ""
    if columns.prefix is not None:
        before = f"{value(columns.prefix, 'prefix')}: "
    label = None
    if columns.label is not None and labels is None:
        label = value(columns.label, "label")
        label = (columns.spellings or {}).get(label, label)
    return Example(
        index=number if columns.index is None else value(columns.index, "index"),
        text=before + value(columns.text, "text"),
        text_pair=(
            None
            if columns.text_pair is None
            else before + value(columns.text_pair, "second text")
        ),
        label=label,
        place=place,
        label_is_number=isinstance(row.get(columns.label), float),
        labels=labels,
        negative=(
            None if columns.negative is None else value(columns.negative, "negative")
        ),
    )


def _rows(
    path: AnyPath, columns: Columns, bad: _BadRows
) -> Iterator[tuple[int, Mapping[Any, Any]]]:
    """Yields (line number, values by column) of the rows that can be read."""
    kind = packed_files.kind(path)
    if kind == ".jsonl":
        yield from _json_rows(path, bad)
        return
    if kind in COLUMN_FILES or path.is_dir():
        _check_columns(path, columns, column_files.column_names(path))
        yield from enumerate(column_files.rows(path), 1)
        return
    lines = _csv_lines(path) if kind == ".csv" else _tsv_lines(path, bad)
    header: Sequence[str | int] | None = None
    for line, values in lines:
        if header is None:
            header = values if columns.header else list(range(len(values)))
            _check_columns(path, columns, header)
            if columns.header:
                continue
        if len(values) != len(header):
            bad.add(line, f"it has {len(values)} columns instead of {len(header)}.")
        else:
            yield line, dict(zip(header, values, strict=True))


def _check_columns(
    path: AnyPath, columns: Columns, header: Sequence[str | int]
) -> None:
    for name in ("text", "text_pair", "label", "index", "negative", "prefix"):
        column = getattr(columns, name)
        if column is None:
            continue
        if column not in header:
            listed = textwrap.shorten(", ".join(map(repr, header)), _MOST_LISTED)
            raise MissingColumnError(
                f"{path} has no column {column!r} for the {name}; it has {listed}"
            )
        if header.count(column) > 1:
            raise ValueError(
                f"{path} has {header.count(column)} columns {column!r}: rename all but "
                f"the one of the {name}."
            )


def _decoded_lines(path: AnyPath, bad: _BadRows) -> Iterator[tuple[int, str]]:
    """Yields (line number, line); lines end with LF only, other line ends are text."""
    with _open(path) as file:
        for number, line in enumerate(file, 1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError:
                bad.add(number, "it is not UTF-8.")
                continue
            yield number, text.rstrip("\r\n")


@contextlib.contextmanager
def _open(path: AnyPath) -> Iterator[IO[bytes]]:
    """Opens a file for reading, unpacked."""
    with open_bytes(path) as file, explained_damage(path):
        yield unpacked(file, path)


def _tsv_lines(path: AnyPath, bad: _BadRows) -> Iterator[tuple[int, list[str]]]:
    for number, line in _decoded_lines(path, bad):
        if line:
            yield number, line.split("\t")


def _csv_lines(path: AnyPath) -> Iterator[tuple[int, list[str]]]:
    """Yields (number of its last line, values): a quoted value may hold line ends."""
    with (
        _open(path) as opened,
        io.TextIOWrapper(opened, encoding="utf-8-sig", newline="") as file,
        _cells_of_any_length(path),
    ):
        reader = csv.reader(file, strict=True)
        try:
            for values in reader:
                if values:
                    yield reader.line_num, values
        except UnicodeDecodeError as error:
            # The reader decodes ahead of the row that it is at.
            raise ValueError(
                f"{path}, after line {reader.line_num}: it is not UTF-8; convert it."
            ) from error
        except csv.Error as error:
            # No row after this one can be trusted, so none is skipped.
            raise ValueError(
                f"{path}, line {reader.line_num}: it is not CSV ({error}); correct it, "
                "or use .jsonl."
            ) from error


@contextlib.contextmanager
def _cells_of_any_length(path: AnyPath) -> Iterator[None]:
    """Lifts the csv module's limit of 131,072 characters a value, which is global."""
    limit = csv.field_size_limit(max(csv.field_size_limit(), path.stat().st_size))
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def _json_rows(path: AnyPath, bad: _BadRows) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in _decoded_lines(path, bad):
        if not line.strip():
            continue
        try:
            row = parse_json(line)
        except ValueError as error:
            bad.add(number, f"it is not JSON ({error}).")
            continue
        if isinstance(row, dict):
            yield number, row
        else:
            bad.add(number, "it is not a JSON object.")
