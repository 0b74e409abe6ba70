"""Rows under paths that TensorFlow can open."""

import contextlib
import dataclasses
from collections.abc import Iterator

import tensorflow as tf

from albert_tf.records.sidecar import RecordSet
from albert_tf.storage import opens_in_tensorflow, tensorflow_paths
from albert_tf.training import devices


@contextlib.contextmanager
def readable_rows(
    rows: RecordSet, strategy: tf.distribute.Strategy
) -> Iterator[RecordSet]:
    """Yields the same rows under the paths of `storage.tensorflow_paths`.

    Args:
      rows: the rows.
      strategy: the devices. The hosts of a remote TPU do not see copies made here.
    Raises:
      ValueError: the hosts of a remote TPU cannot read a file; or one of the body,
        about a file of the rows, named as in `rows`.
    """
    if devices.is_remote_tpu(strategy):
        for path in rows.paths:
            if not opens_in_tensorflow(path):
                raise ValueError(
                    "The hosts of a TPU read records from gs:// or a disk that all of "
                    f"them mount. Received {path}: copy the records there."
                )
    with tensorflow_paths(rows.paths) as paths:
        try:
            yield dataclasses.replace(rows, paths=tuple(paths))
        except ValueError as error:
            text = str(error)
            for path, original in zip(paths, rows.paths, strict=True):
                text = text.replace(path, original)
            if text == str(error):
                raise
            raise ValueError(text) from error
