"""Reads record files with TensorFlow."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.records import encoding
from albert_tf.records.features import Features, lengths_name
from albert_tf.records.sidecar import RecordSet, read_metadata
from albert_tf.storage import PathLike, as_path

# Rows that are parsed together.
_ROWS_PER_BLOCK = 256


def parsing_spec(features: Features) -> dict[str, Any]:
    """Returns the spec for `tf.io.parse_example`; features that vary become ragged."""
    spec: dict[str, Any] = {}
    for name, feature in features.items():
        if not feature.varies:
            spec[name] = tf.io.FixedLenFeature(feature.shape, feature.dtype)
            continue
        partitions: tuple[Any, ...] = ()
        if len(feature.shape) == 2:
            partitions = (tf.io.RaggedFeature.RowLengths(lengths_name(name)),)
        spec[name] = tf.io.RaggedFeature(
            feature.dtype, name, partitions, row_splits_dtype=tf.int64
        )
    return spec


def read_rows(path: PathLike) -> Iterator[dict[str, np.ndarray]]:
    """Yields the rows of one file as numpy arrays, in file order.

    Meant for inspection and tests; training reads `batches.training_batches`.
    """
    for batch in read_batches(path, _ROWS_PER_BLOCK):
        for row in range(len(next(iter(batch.values())))):
            yield {name: values[row] for name, values in batch.items()}


def read_batches(path: PathLike, size: int) -> Iterator[dict[str, np.ndarray]]:
    """Yields the rows of one file, `size` at a time, checksums and shapes checked.

    Raises:
      ValueError: a row is damaged or has other features than the sidecar says.
    """
    spec = parsing_spec(read_metadata(path)["features"])
    with as_path(path).open("rb") as file:
        examples = encoding.read_examples(file)
        try:
            while block := list(itertools.islice(examples, size)):
                parsed = tf.io.parse_example(block, spec)
                yield {name: value.numpy() for name, value in parsed.items()}
        except (ValueError, tf.errors.InvalidArgumentError) as error:
            raise ValueError(f"{path}: {getattr(error, 'message', error)}") from error


def read_strings(record_set: RecordSet) -> dict[str, np.ndarray]:
    """Reads the string features of all rows, in the order of the files.

    Returns:
      Feature name -> text, str [R].
    """
    names = [n for n, f in record_set.features.items() if f.dtype == "string"]
    texts: dict[str, list[str]] = {name: [] for name in names}
    for path in record_set.paths if names else ():
        for batch in read_batches(path, _ROWS_PER_BLOCK):
            for name in names:
                texts[name] += [value.decode("utf-8") for value in batch[name]]
    return {name: np.array(values) for name, values in texts.items()}


def find_corruption(paths: Sequence[str]) -> tuple[str, int] | None:
    """Returns the first damaged file and the byte at which its bad record starts."""
    for path in paths:
        offset = encoding.find_damage(path)
        if offset is not None:
            return str(path), offset
    return None


def find_miscount(
    paths: Sequence[str], rows: Sequence[int]
) -> tuple[str, int, int] | None:
    """Finds the first file whose number of rows is not the expected one.

    Args:
      paths: record files.
      rows: expected number of rows in each.
    Returns:
      (path, expected rows, rows found); None: all are as expected.
    Raises:
      ValueError: a file is damaged.
    """
    for path, expected in zip(paths, rows, strict=True):
        with as_path(path).open("rb") as file:
            try:
                counted = sum(1 for _ in encoding.read_examples(file))
            except encoding.DamagedRecordError as error:
                raise ValueError(f"{path}: {error}") from error
        if counted != expected:
            return str(path), expected, counted
    return None


def check_counts(record_set: RecordSet) -> None:
    """Reads all files of a set and counts their rows.

    Raises:
      ValueError: a file is damaged, or has another number of rows than its sidecar
        says.
    """
    if miscount := find_miscount(record_set.paths, record_set.rows):
        raise miscount_error(*miscount)


def miscount_error(path: str, expected: int, counted: int) -> ValueError:
    """Returns the error of a file with another number of rows than expected."""
    return ValueError(
        f"{path} has {counted:,} rows, but its sidecar says {expected:,}: copy both "
        "again, or remove both and make the records again."
    )


def corruption_error(path: str, offset: int) -> ValueError:
    """Returns the error of a file with a damaged record, which begins at a byte."""
    return ValueError(
        f"A record is corrupt: {path} at byte {offset:,}. Make the file again or copy "
        "it again."
    )
