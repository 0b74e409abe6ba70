"""Recognizes what files hold: an output replaces only a file of its own kind."""

import json
import re
from pathlib import PurePath
from typing import Any

from albert_tf.storage import AnyPath, PathLike, as_path

_HEAD_BYTES = 4096
# First bytes of files that this project writes; the first match counts.
_SIGNATURES = {
    # Learning curves say so in the first chunk of text, or in a comment.
    "a PNG of learning curves": re.compile(
        rb"\x89PNG\r\n\x1a\n.{,64}Software\x00albert-tf learning curves", re.DOTALL
    ),
    "a page of learning curves": re.compile(
        rb"<!DOCTYPE html>\n<!-- albert-tf learning curves -->\n"
    ),
    "a PNG figure": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "a numpy array": re.compile(rb"\x93NUMPY"),
    "a Parquet file": re.compile(rb"PAR1"),
    "numpy arrays": re.compile(rb"PK\x03\x04"),
    # Two numbers of a message: the format's version, and the producer's name.
    "an ONNX model": re.compile(rb"\x08[\x01-\x1f]\x12.[ -~]"),
    "a TensorFlow Lite model": re.compile(rb".{4}TFL3", re.DOTALL),
    # The first token: a message that holds a string, then a score or a kind.
    "a SentencePiece model": re.compile(rb"\n.\n(?:.{2,64}?)[\x15\x18]", re.DOTALL),
}
_NUMBER = re.compile(rb"-?([0-9.]+(e[+-]?[0-9]+)?|inf)|nan")
# Endings of names -> what such files hold.
_SUFFIXES = {
    ".csv": "a table",
    ".html": "a page",
    ".json": "JSON",
    ".model": "a vocabulary",
    ".npy": "a numpy array",
    ".npz": "numpy arrays",
    ".onnx": "an ONNX model",
    ".parquet": "a Parquet file",
    ".png": "a figure",
    ".tflite": "a TensorFlow Lite model",
    ".tfrecord": "records",
    ".tsv": "a table",
    ".vocab": "a vocabulary",
}


def check_suffix(path: PathLike, content: str) -> None:
    """Checks that a file's name does not end as those of other files do.

    Args:
      path: the file to write.
      content: what it is to hold: "records", "a table", ...
    Raises:
      ValueError: it ends in the suffix of files that hold something else.
    """
    suffix = PurePath(str(path)).suffix.lower()
    usual = _SUFFIXES.get(suffix, content)
    if usual != content:
        raise ValueError(
            f"{path} is to hold {content}, but files that end in {suffix} hold "
            f"{usual}: give it another name."
        )


def check_replaceable(path: PathLike, content: bytes) -> None:
    """Checks that a file is missing, empty, or of the kind that is to replace it.

    Binary files must have the same signature. A JSON object must share a key with the
    new one, or both must map names to values of one type. Tables must begin with the
    same two cells, or both hold nothing but numbers below their header.

    Args:
      path: the file.
      content: the new content.
    Raises:
      FileExistsError: it is no regular file, or of another kind.
    """
    file = as_path(path)
    if not file.exists():
        return
    if not file.is_file():
        raise FileExistsError(f"{path} is a folder or a device: name a file to write.")
    if file.stat().st_size and not _is_same_kind(file, content):
        raise not_ours(path)


def not_ours(path: PathLike) -> FileExistsError:
    """The error for a file that an output would replace and that is of another kind."""
    return FileExistsError(
        f"{path} is there already and holds something else than what this command "
        "writes, so it is kept: move it, or name another output."
    )


def _is_same_kind(path: AnyPath, content: bytes) -> bool:
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
        kind = _signature(content)
        if kind or _signature(head):
            return kind == _signature(head)
        new = _parse(content)
        if new is None:
            return _are_alike_tables(head, content)
        return _is_alike(_parse(head + file.read()), new)


def _signature(content: bytes) -> str | None:
    """The kind of a binary file by its first bytes; None: another one, or text."""
    return next((k for k, first in _SIGNATURES.items() if first.match(content)), None)


def _parse(content: bytes) -> Any:
    """The value of JSON; None: it is not JSON."""
    if content.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _is_alike(old: Any, new: Any) -> bool:
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return type(old) is type(new)
    if not old or old.keys() & new.keys():
        return True
    kinds = [_value_kinds(value) for each in (old, new) for value in each.values()]
    return bool(new) and bool(set.intersection(*kinds))


def _value_kinds(value: Any) -> set[type]:
    """The types that a value may be of: a number that JSON cannot hold is written as a
    text or as null."""
    if value in ("inf", "-inf"):
        return {float, str}
    return {float} if value is None or isinstance(value, int) else {type(value)}


def _are_alike_tables(old: bytes, new: bytes) -> bool:
    rows = [_first_rows(content) for content in (old, new)]
    if rows[0][0][:2] == rows[1][0][:2]:
        return True
    return all(len(row) > 1 and all(map(_NUMBER.fullmatch, row[1])) for row in rows)


def _first_rows(content: bytes) -> list[list[bytes]]:
    """The cells of the first two lines."""
    lines = content[:_HEAD_BYTES].splitlines()[:2] or [b""]
    return [re.split(rb"[\t,]", line) for line in lines]
