"""Places of a set's rows in its files, so that reading can begin at any row."""

import dataclasses
import itertools
import os

import numpy as np
import tensorflow as tf

from albert_tf.records.encoding import INDEX_EVERY, has_record_at, index_frames
from albert_tf.records.reader import corruption_error, miscount_error
from albert_tf.records.sidecar import RecordSet, wrong_index
from albert_tf.storage import is_local

# Walking over the lengths of so many bytes takes about a second.
_MOST_BYTES_CHECKED = 1_000_000_000
# Places of an index at which a larger file is looked at.
_PLACES_CHECKED = 4


@dataclasses.dataclass(frozen=True, eq=False)
class RowIndex:
    """Places of rows in the files of a set, whose rows are numbered in file order.

    They are tensors, of which functions of datasets make no copies.

    Attributes:
      total_rows: number of rows in all files.
      paths: the files that have rows, string [F].
      starts: the first row of each file and, last, the number of rows, int64 [F + 1].
      offsets: places of every 64th row of each file, file after file, bytes, int64.
      first_offsets: the place in `offsets` of each file's first, int64 [F].
    """

    total_rows: int
    paths: tf.Tensor
    starts: tf.Tensor
    offsets: tf.Tensor
    first_offsets: tf.Tensor

    def read(self, begins: tf.Tensor, ends: tf.Tensor, buffer: int) -> tf.data.Dataset:
        """Returns serialized rows, in the order of some stretches of the set.

        At most 63 rows before a stretch are read, too. These are operations of
        TensorFlow alone, since a pod's other hosts run no Python.

        Args:
          begins, ends: the first row of each stretch, and that after its last, int64.
          buffer: bytes that are read ahead.
        Returns:
          Strings; reading them is an error if the files have fewer rows.
        """
        begins, ends = (tf.convert_to_tensor(edge, tf.int64) for edge in (begins, ends))
        first = tf.searchsorted(self.starts[1:], begins, "right", tf.int64)
        last = tf.searchsorted(self.starts[:-1], ends, "left", tf.int64)
        parts = tf.ragged.range(first, last)
        files, stretches = parts.flat_values, parts.value_rowids()
        starts = tf.gather(self.starts, files)
        rows = tf.maximum(tf.gather(begins, stretches) - starts, 0)
        after = tf.minimum(
            tf.gather(ends, stretches), tf.gather(self.starts, files + 1)
        )
        places = tf.gather(self.first_offsets, files) + rows // INDEX_EVERY

        def read_part(
            path: tf.Tensor, offset: tf.Tensor, skipped: tf.Tensor, count: tf.Tensor
        ) -> tf.data.Dataset:
            variant = tf.raw_ops.TFRecordDatasetV2(
                filenames=path,
                compression_type="",
                buffer_size=buffer,
                byte_offsets=offset,
            )
            spec = tf.TensorSpec([], tf.string)
            read = tf.data.experimental.from_variant(variant, spec)
            return counted(read.skip(skipped).take(count), count)

        return tf.data.Dataset.from_tensor_slices(
            (
                tf.gather(self.paths, files),
                tf.gather(self.offsets, places),
                rows % INDEX_EVERY,
                after - starts - rows,
            )
        ).flat_map(read_part)


def counted(rows: tf.data.Dataset, count: int | tf.Tensor) -> tf.data.Dataset:
    """Makes it an error if there is another number of rows.

    Otherwise an epoch without rows, followed by the next one, would never end.
    """
    return rows.apply(tf.data.experimental.assert_cardinality(count))


def check_files(record_set: RecordSet) -> None:
    """Checks lengths, counts and indices of the files of a set, unless it is large.

    TensorFlow takes memory for any length that a record claims, and ends the process if
    there is too little. Large sets are not read twice: only a forged checksum makes
    such a claim credible.

    Raises:
      ValueError: a record claims more bytes than its file has; a file has another
        number of rows than its sidecar says, or places of rows are wrong.
    """
    if _is_small(record_set):
        open_index(record_set)


def open_index(record_set: RecordSet, always_walk: bool = False) -> RowIndex:
    """Returns the places of a set's rows.

    Files without an index, and those of small sets, are walked over. Of others a few
    places are looked at.

    Args:
      record_set: the set.
      always_walk: walk over large sets, too.
    Raises:
      ValueError: as `check_files`.
    """
    walks = always_walk or _is_small(record_set)
    offsets = []
    files = zip(record_set.paths, record_set.rows, record_set.offsets, strict=True)
    for path, rows, stored in files:
        if stored is None or walks:
            offsets.append(_walk(path, rows, stored))
        else:
            _check_places(path, stored)
            offsets.append(stored)
    used = [file for file, rows in enumerate(record_set.rows) if rows]
    sizes = [len(offsets[file]) for file in used]
    rows_of = [record_set.rows[file] for file in used]
    return RowIndex(
        record_set.total_rows,
        tf.constant([record_set.paths[file] for file in used]),
        tf.constant([0, *itertools.accumulate(rows_of)], tf.int64),
        tf.constant(np.concatenate([offsets[file] for file in used])),
        tf.constant([0, *itertools.accumulate(sizes)][:-1], tf.int64),
    )


def _is_small(record_set: RecordSet) -> bool:
    if not all(map(is_local, record_set.paths)):
        return False  # of a bucket, which TensorFlow itself reads
    return sum(map(os.path.getsize, record_set.paths)) <= _MOST_BYTES_CHECKED


def _walk(path: str, rows: int, stored: np.ndarray | None) -> np.ndarray:
    """Returns the places of every 64th row, and compares them with those stored."""
    frames = index_frames(path)
    if frames.cut_off is not None:
        raise corruption_error(path, frames.cut_off)
    if frames.rows != rows:
        raise miscount_error(path, rows, frames.rows)
    if stored is not None and not np.array_equal(stored, frames.offsets):
        raise wrong_index(path)
    return frames.offsets


def _check_places(path: str, offsets: np.ndarray) -> None:
    """Raises ValueError unless records begin at some places of an index."""
    chosen = np.linspace(0, len(offsets) - 1, min(_PLACES_CHECKED, len(offsets)))
    for place in offsets[chosen.astype(int)].tolist():
        if not has_record_at(path, place):
            raise wrong_index(path)
