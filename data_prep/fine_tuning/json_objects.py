"""Reads JSON files of one object or more, and members of the objects, with errors that
name the place."""

import json
from collections.abc import Iterator
from typing import Any

from albert_tf.files import RepeatedKeyError
from albert_tf.storage import AnyPath
from data_prep import column_files, packed_files
from data_prep.column_files import COLUMN_FILES
from data_prep.corpus.files import read_content
from data_prep.corpus.passages import json_values


def objects(path: AnyPath) -> Iterator[tuple[int, dict]]:
    """Yields (1-based line, object) of a file, or (number, row) of one of columns.

    Raises:
      ValueError: it is empty, or not of JSON objects.
    """
    if packed_files.kind(path) in COLUMN_FILES or path.is_dir():
        yield from enumerate(column_files.rows(path), 1)
        return
    content = read_content(path)
    if not content.strip():
        raise ValueError(f"{path} is empty: copy it again, or remove it.")
    try:
        for line, value in json_values(content):
            if not isinstance(value, dict):
                raise ValueError(f"{path}, line {line}: not a JSON object.")
            yield line, value
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path}, line {error.lineno}: not JSON ({error.msg}): correct it."
        ) from None
    except RepeatedKeyError as error:
        raise ValueError(f"{path}: {error}: keep one.") from None
    except RecursionError:
        raise ValueError(f"{path}: not of this format: nested too deeply.") from None
    except UnicodeDecodeError as error:
        line = 1 + content.count(b"\n", 0, error.start)
        raise ValueError(f"{path}, line {line}: not UTF-8: convert it.") from None


def member(value: dict, name: str, place: str) -> Any:
    """Returns a member of an object; raises ValueError if it is missing."""
    if name not in value:
        raise ValueError(f"{place}: lacks {name!r}; it has {sorted(value)}.")
    return value[name]


def list_of(value: dict, name: str, place: str) -> list:
    """Returns a member that must be a list; raises ValueError if it is none."""
    items = member(value, name, place)
    if not isinstance(items, list):
        raise ValueError(f"{place}: {name!r} must be a list. Received {items!r}.")
    return items


def text(value: Any, name: str, place: str) -> str:
    """Returns a value that must be text; raises ValueError if it is none."""
    if not isinstance(value, str):
        raise ValueError(f"{place}: {name!r} must be text. Received {value!r}.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{place}: {name!r} has half of a surrogate pair.") from None
    return value
