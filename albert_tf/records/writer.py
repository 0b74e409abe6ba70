"""Writes record files and their sidecars."""

import dataclasses
import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from albert_tf.files import partial_path, sync, write_json, writing
from albert_tf.records import encoding
from albert_tf.records.features import Features
from albert_tf.records.sidecar import _ROWS_PER_BLOCK, FORMAT_VERSION, sidecar_path


def write_records(
    path: str | os.PathLike,
    rows: Iterable[Mapping[str, Sequence]],
    features: Features,
    metadata: Mapping[str, Any],
) -> int:
    """Writes rows and then their sidecar; neither appears under its name before whole.

    Args:
      path: the record file; its folder is made if missing.
      rows: mappings from every feature's name to its values: arrays or lists, lists of
        lists, or bytes.
      features: the spec that every row must meet.
      metadata: JSON values kept in the sidecar: vocabulary, casing, seed, settings.
    Returns:
      The number of rows.
    Raises:
      ValueError: a row lacks a feature or has another number of values.
      OSError: the folder cannot be written, or its disk is full.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = partial_path(path)
    count = 0
    rows = iter(rows)
    try:
        partial.write_bytes(b"")
        while block := list(itertools.islice(rows, _ROWS_PER_BLOCK)):
            if any(f.varies or f.dtype == "string" for f in features.values()):
                examples = encoding.encode_rows(block, features)
                frames = encoding.frame_examples(examples)
            else:
                frames, _ = frame_rows(_columns(block, features), features)
            with writing(path), open(partial, "ab") as file:
                file.write(frames)
            count += len(block)
        publish_records(partial, path, count, features, metadata)
    finally:
        partial.unlink(missing_ok=True)
    return count


def frame_rows(
    columns: Mapping[str, np.ndarray], features: Features
) -> tuple[np.ndarray, np.ndarray]:
    """Rows as the bytes of a record file; files are made of any number of these.

    Args:
      columns: each feature's values, [R, ...]; R may be 0.
      features: the spec.
    Returns:
      R framed rows, uint8, and where each starts and the last ends, int64 [R + 1].
    """
    return encoding.frame_rows(columns, {n: f.dtype for n, f in features.items()})


def split_frames(content: bytes) -> list[memoryview]:
    """The framed rows of a whole number of them, in order; nothing is checked."""
    return encoding.split_frames(content)


def publish_records(
    partial: str | os.PathLike,
    path: str | os.PathLike,
    rows: int,
    features: Features,
    metadata: Mapping[str, Any],
) -> None:
    """Gives `partial`, a finished file of so many rows on the same disk, its name, and
    then writes its sidecar; see `write_records`."""
    with writing(path):
        sync(Path(partial))
        sidecar = {
            **metadata,
            "format_version": FORMAT_VERSION,
            "rows": rows,
            "bytes": os.path.getsize(partial),
            "features": {n: dataclasses.asdict(f) for n, f in features.items()},
        }
        # Not sooner: a failure leaves older rows and their sidecar as they were.
        sidecar_path(path).unlink(missing_ok=True)
        os.replace(partial, path)
        write_json(sidecar_path(path), sidecar)


def _columns(block: Sequence[Mapping], features: Features) -> dict[str, np.ndarray]:
    """Rows that meet the spec -> each feature's values, [R, size]."""
    columns = {}
    for name, feature in features.items():
        values = np.empty((len(block), feature.size), feature.dtype)
        for row, place in zip(block, values, strict=True):
            array = np.asarray(encoding.value_of(row, name), feature.dtype)
            encoding.check_size(name, feature, array.size)
            place[:] = array.ravel()
        columns[name] = values
    return columns
