"""Writes record files and their sidecars."""

import dataclasses
import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.file_kinds import check_replaceable, not_ours
from albert_tf.files import json_bytes, make_folder, partial_file, write_json
from albert_tf.partial_files import sync, writing
from albert_tf.records import encoding
from albert_tf.records.features import Features, check_size, row_value
from albert_tf.records.sidecar import (
    FORMAT_VERSION,
    INDEX,
    index_json,
    sidecar_path,
)
from albert_tf.storage import PathLike, as_path, move_up

# Rows that are encoded together.
_ROWS_PER_BLOCK = 256


def write_records(
    path: PathLike,
    rows: Iterable[Mapping[str, Any]],
    features: Features,
    metadata: Mapping[str, Any],
) -> int:
    """Writes a record file and its sidecar, each to a temporary file that is renamed.

    Args:
      path: the record file; its folder is created if missing.
      rows: mappings from every feature's name to its values: arrays or lists, lists of
        lists, or bytes.
      features: the spec that every row must meet.
      metadata: JSON values for the sidecar: vocabulary, casing, lengths, seed.
    Returns:
      The number of rows.
    Raises:
      ValueError: a row lacks a feature or has another number of values.
      FileExistsError: a file of another kind is there.
      OSError: the folder cannot be written, or its disk is full.
    """
    path = as_path(path)
    make_folder(path.parent)
    check_output(path)
    count = 0
    rows = iter(rows)
    with partial_file(path) as file:
        while block := list(itertools.islice(rows, _ROWS_PER_BLOCK)):
            frames = _frame_block(block, features)
            with writing(path):
                file.write(frames)
            count += len(block)
        with writing(path):
            file.flush()
        publish_records(file.name, path, count, features, metadata)
    return count


def check_output(path: PathLike) -> None:
    """Checks that a record file and its sidecar replace no files of other kinds.

    Raises:
      FileExistsError: they would.
    """
    sidecar = sidecar_path(path)
    ours = {"format_version": FORMAT_VERSION, "features": {}}
    check_replaceable(sidecar, json_bytes(ours))
    # Damaged records are known by their sidecar.
    file = as_path(path)
    is_there = file.exists() or file.is_symlink()
    known = is_there and file.is_file() and sidecar.is_file()
    if is_there and not (known or encoding.starts_with_record(path)):
        raise not_ours(path)


def publish_records(
    partial: str | os.PathLike[str],
    path: PathLike,
    rows: int,
    features: Features,
    metadata: Mapping[str, Any],
) -> None:
    """Renames a finished file of records and writes its sidecar.

    Args:
      partial: the finished local file, on the disk of `path` if that is local.
      path: its name from now on.
      rows: number of rows in it.
      features, metadata: as for `write_records`.
    Raises:
      FileExistsError: a file of another kind is there.
      OSError: the folder cannot be written, or its disk is full; the file does not
        hold so many rows.
    """
    check_output(path)
    with writing(path):
        sync(partial)
        frames = encoding.index_frames(partial)
        if frames.cut_off is not None or frames.rows != rows:
            cut_off = frames.cut_off is not None
            found = "a row that is cut off" if cut_off else f"{frames.rows} rows"
            raise OSError(f"it holds {found} where {rows} were written")
        sidecar = {
            **metadata,
            "format_version": FORMAT_VERSION,
            "rows": rows,
            "bytes": os.path.getsize(partial),
            "features": {n: dataclasses.asdict(f) for n, f in features.items()},
            INDEX: index_json(frames.offsets),
        }
        # Not sooner: a failure must leave older rows and their sidecar as they were.
        sidecar_path(path).unlink(missing_ok=True)
        move_up(partial, path)
    write_json(sidecar_path(path), sidecar)


def _frame_block(block: Sequence[Mapping[str, Any]], features: Features) -> bytes:
    """Encodes some rows as TFRecord frames."""
    if any(f.varies or f.dtype == "string" for f in features.values()):
        return encoding.frame_examples(encoding.encode_rows(block, features))
    return encoding.frame_rows(_columns(block, features), features)[0].tobytes()


def _columns(
    block: Sequence[Mapping[str, Any]], features: Features
) -> dict[str, np.ndarray]:
    """Turns rows into one array a feature, [R, size], and checks them."""
    columns = {}
    for name, feature in features.items():
        values = np.empty((len(block), feature.size), feature.dtype)
        for row, place in zip(block, values, strict=True):
            array = np.asarray(row_value(row, name), feature.dtype)
            check_size(name, feature, array.size)
            place[:] = array.ravel()
        columns[name] = values
    return columns
