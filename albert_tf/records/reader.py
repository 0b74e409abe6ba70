"""Reads record files with TensorFlow."""

import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from albert_tf.records import encoding
from albert_tf.records.features import Features
from albert_tf.records.sidecar import _ROWS_PER_BLOCK, RecordSet, read_metadata


def parsing_spec(features: Features) -> dict[str, Any]:
    """What `tf.io.parse_example` needs to read rows; those that vary become ragged."""
    import tensorflow as tf

    spec = {}
    for name, feature in features.items():
        if not feature.varies:
            spec[name] = tf.io.FixedLenFeature(feature.shape, feature.dtype)
            continue
        lists = len(feature.shape) == 2
        partitions = [
            tf.io.RaggedFeature.RowLengths(encoding.lengths_name(name))
        ] * lists
        spec[name] = tf.io.RaggedFeature(
            feature.dtype, name, partitions, row_splits_dtype=tf.int64
        )
    return spec


def read_rows(path: str | os.PathLike) -> Iterator[dict[str, np.ndarray]]:
    """Rows of one file as numpy arrays, in file order; for looking and for tests."""
    for batch in read_batches(path, _ROWS_PER_BLOCK):
        for row in range(len(next(iter(batch.values())))):
            yield {name: values[row] for name, values in batch.items()}


def read_batches(path: str | os.PathLike, size: int) -> Iterator[dict[str, np.ndarray]]:
    """Rows of one file, so many at a time, checksums and shapes checked.

    Raises:
      ValueError: a row is damaged or of other features.
    """
    import tensorflow as tf

    spec = parsing_spec(read_metadata(path)["features"])
    with open(path, "rb") as file:
        examples = encoding.read_examples(file)
        try:
            while block := list(itertools.islice(examples, size)):
                parsed = tf.io.parse_example(block, spec)
                yield {name: value.numpy() for name, value in parsed.items()}
        except (ValueError, tf.errors.InvalidArgumentError) as error:
            raise ValueError(f"{path}: {getattr(error, 'message', error)}") from error


def read_strings(record_set: RecordSet) -> dict[str, np.ndarray]:
    """The string features of all rows of a set, in its order, as text [R]."""
    names = [n for n, f in record_set.features.items() if f.dtype == "string"]
    blocks: dict[str, list[str]] = {name: [] for name in names}
    for path in record_set.paths if names else ():
        for batch in read_batches(path, _ROWS_PER_BLOCK):
            for name in names:
                blocks[name] += [value.decode("utf-8") for value in batch[name]]
    return {name: np.array(values) for name, values in blocks.items()}


def find_corruption(paths: Sequence[str]) -> tuple[str, int] | None:
    """The first file that is damaged, and the byte at which its bad record starts."""
    for path in paths:
        offset = encoding.find_damage(path)
        if offset is not None:
            return str(path), offset
    return None


def find_miscount(
    paths: Sequence[str], rows: Sequence[int]
) -> tuple[str, int, int] | None:
    """The first file with other than so many rows; how many it should have, and has.

    Raises:
      ValueError: a file is damaged.
    """
    for path, expected in zip(paths, rows, strict=True):
        with open(path, "rb") as file:
            found = sum(1 for _ in encoding.read_examples(file))
        if found != expected:
            return str(path), expected, found
    return None
