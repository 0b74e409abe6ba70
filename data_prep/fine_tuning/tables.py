"""Tables of text -> examples to classify or to score: .tsv, .csv and .jsonl files.

A .tsv has no quoting, as GLUE's: a quotation mark is text. A .csv is what the csv
module reads; a .jsonl has an object a line. Byte order marks and CRLF are fine.
"""

import csv
import dataclasses
import json
import math
import os
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

ON_BAD_ROW = ("error", "skip")
# Characters of a header in a message: a file of another kind may be one long line.
_MOST_LISTED = 300


@dataclasses.dataclass(frozen=True)
class Columns:
    """Where a table has what; a name of the header, or an index of a file without one.

    Attributes:
      text: the first text.
      text_pair: the second one; None: a row has one text.
      label: the label; None: not needed.
      index: what a row is called in a submission; None: its number, from 0.
      header: whether the first line names the columns (not of .jsonl).
    """

    text: str | int
    text_pair: str | int | None = None
    label: str | int | None = None
    index: str | int | None = None
    header: bool = True


@dataclasses.dataclass(frozen=True)
class Example:
    """One row of a table.

    Attributes:
      index: what it is called in a submission.
      text: the first text.
      text_pair: the second one, if the table has one; may be empty.
      label: as the file has it; None where labels are not read.
      place: file and line, for messages.
    """

    index: str
    text: str
    text_pair: str | None
    label: str | None
    place: str


@dataclasses.dataclass
class Table:
    """The examples of a file, and how many of its rows were bad."""

    examples: list[Example]
    skipped_rows: int


def read_table(
    path: str | os.PathLike, columns: Columns, on_bad_row: str = "error"
) -> Table:
    """Reads all rows of a file.

    Args:
      path: the file; its suffix says its kind, anything but .csv and .jsonl being tsv.
      columns: where it has what.
      on_bad_row: "error", or "skip" for rows with too few or too many columns, a value
        that is missing, or bytes that are not UTF-8; they are counted.
    Raises:
      FileNotFoundError: no such file.
      ValueError: a column is missing, a row is bad (its line is named), or none is.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}: check the path.")
    examples, skipped = [], 0
    for line, row in _rows(path, columns):
        place = f"{path}, line {line}"
        try:
            if isinstance(row, ValueError):
                raise row
            examples.append(_example(row, columns, place, str(len(examples))))
        except ValueError as error:
            if on_bad_row == "error":
                raise ValueError(
                    f"{place}: {error} Mend the row, or skip such rows with "
                    "--on_bad_row=skip."
                ) from error
            skipped += 1
    if not examples:
        raise ValueError(f"{path} holds no rows: give a file that has some.")
    return Table(examples, skipped)


def _example(row: Mapping, columns: Columns, place: str, number: str) -> Example:
    def value(column, name):
        found = row.get(column)
        if found is None:
            raise ValueError(f"the {name} column {column!r} has no value.")
        return found if isinstance(found, str) else json.dumps(found)

    return Example(
        index=number if columns.index is None else value(columns.index, "index"),
        text=value(columns.text, "text"),
        text_pair=(
            None
            if columns.text_pair is None
            else value(columns.text_pair, "second text")
        ),
        label=None if columns.label is None else value(columns.label, "label"),
        place=place,
    )


def _rows(path: Path, columns: Columns) -> Iterator[tuple[int, Mapping | ValueError]]:
    """(line number, its values by column, or what is wrong with it)."""
    kind = path.suffix.lower()
    if kind == ".jsonl":
        yield from _json_rows(path)
        return
    lines = _csv_lines(path) if kind == ".csv" else _tsv_lines(path)
    header = None
    for line, values in lines:
        if isinstance(values, ValueError):
            yield line, values
        elif header is None:
            header = values if columns.header else list(range(len(values)))
            _check_columns(path, columns, header)
            if not columns.header:
                yield line, dict(zip(header, values, strict=True))
        elif len(values) != len(header):
            yield (
                line,
                ValueError(f"it has {len(values)} columns instead of {len(header)}."),
            )
        else:
            yield line, dict(zip(header, values, strict=True))


def _check_columns(path: Path, columns: Columns, header: list) -> None:
    for name in ("text", "text_pair", "label", "index"):
        column = getattr(columns, name)
        if column is None:
            continue
        if column not in header:
            listed = textwrap.shorten(", ".join(map(repr, header)), _MOST_LISTED)
            raise ValueError(
                f"{path} has no column {column!r} for the {name}; it has "
                f"{listed}: name the right one."
            )
        if header.count(column) > 1:
            raise ValueError(
                f"{path} has {header.count(column)} columns {column!r}: rename all but "
                f"the one of the {name}."
            )


def _decoded_lines(path: Path) -> Iterator[tuple[int, str | ValueError]]:
    """Lines as LF ends them: other characters that end lines are text."""
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError:
                yield number, ValueError("it is not UTF-8.")
                continue
            yield number, text.rstrip("\r\n")


def _tsv_lines(path: Path) -> Iterator[tuple[int, list[str] | ValueError]]:
    for number, line in _decoded_lines(path):
        if isinstance(line, ValueError):
            yield number, line
        elif line:
            yield number, line.split("\t")


def _csv_lines(path: Path) -> Iterator[tuple[int, list[str] | ValueError]]:
    """A quoted value may hold line ends: a row is named by its last line."""
    with open(path, encoding="utf-8-sig", newline="") as file:
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
            # What follows cannot be told from what is broken: none of it is skipped.
            raise ValueError(
                f"{path}, line {reader.line_num}: it is not CSV ({error}); mend it, or "
                "use .jsonl."
            ) from error


def _json_rows(path: Path) -> Iterator[tuple[int, Mapping | ValueError]]:
    for number, line in _decoded_lines(path):
        if isinstance(line, ValueError) or not line.strip():
            if line:
                yield number, line
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            yield number, ValueError(f"it is not JSON ({error}).")
            continue
        if isinstance(row, dict):
            yield number, row
        else:
            yield number, ValueError("it is not a JSON object.")


def label_values(examples: list[Example], labels: list[str] | None) -> list:
    """What models learn of labels: indices of `labels`, or numbers without them.

    Raises:
      ValueError: a label is not one of `labels`, or not a number; its line is named.
    """
    places = {label: place for place, label in enumerate(labels or ())}
    values = []
    for example in examples:
        if labels is None:
            values.append(_number(example))
        elif example.label in places:
            values.append(places[example.label])
        else:
            raise ValueError(
                f"{example.place}: the label {example.label!r} is none of "
                f"{', '.join(map(repr, labels))}: mend it, or train on a file that has "
                "it."
            )
    return values


def _number(example: Example) -> float:
    try:
        value = float(example.label)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(
            f"{example.place}: the label {example.label!r} is not a number, as a "
            "regression needs it."
        )
    return value
