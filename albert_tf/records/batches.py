"""Batches of record files, in one deterministic order for any number of devices.

The order of rows is a function of the seed, the epoch and the batch size. So the
position in the data after any number of steps need not be stored, and N workers that
each take their part of every global batch see the same rows as one worker.
"""

import contextlib
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.config import TrainConfig
from albert_tf.records import cutting, lanes, masked_batches_tf, window
from albert_tf.records.bucketing import LengthBatches
from albert_tf.records.features import Features, is_compact
from albert_tf.records.lanes import Share
from albert_tf.records.reader import (
    check_counts,
    corruption_error,
    find_corruption,
    parsing_spec,
)
from albert_tf.records.row_index import check_files, open_index
from albert_tf.records.sidecar import RecordSet

# Batches are padded to a multiple of these, if rows differ in length.
_LENGTH_MULTIPLE, _XLA_LENGTH_MULTIPLE = 8, 64


def training_batches(
    record_set: RecordSet,
    batch_size: int,
    seed: int,
    first_step: int,
    context: tf.distribute.InputContext,
    length_multiple: int = 0,
    order: str = "",
    length: int = 0,
    drawn: np.ndarray | None = None,
) -> tf.data.Dataset:
    """Returns endless batches; each epoch is shuffled, epochs follow without a gap.

    Args:
      record_set: the rows.
      batch_size: rows in one step over all replicas.
      seed: of the order.
      first_step: number of steps to skip, for a run that is resumed.
      context: says which part of every batch belongs to this worker.
      length_multiple: as for `LengthBatches`; used if rows differ in length.
      order: `TrainConfig.batching` if rows differ in length, else
        `TrainConfig.row_order`; empty: its default.
      length: tokens to which rows of pretraining are cut; 0: they are not cut.
      drawn: int64 [steps * B], places of rows to read, which differ in length, instead
        of all; the batches are then those of so many steps, less `first_step`.
    Returns:
      Per-replica batches: dict of int32 or float32 tensors; from rows that are cut, as
      `cutting.cut_rows` returns them.
    Raises:
      ValueError: the replicas cannot share the batch evenly; a file does not fit its
        sidecar; rows to be cut are not of at least that length, or packed; a set of
        rows without masks does not say how to mask them.
    """
    share = Share.of_worker(batch_size, context)
    if length and not is_compact(record_set.metadata):
        _check_cut(record_set, length)
    if record_set.varies:
        check_files(record_set)
        lengths = LengthBatches(record_set, batch_size, length_multiple)
        by_length = order != "random"
        if drawn is None:
            global_batches = lengths.training(seed, first_step, by_length)
        else:
            global_batches = lengths.drawn(drawn, seed, first_step, by_length)
        return _worker_batches(lengths, global_batches, share)
    if order == "window":
        check_files(record_set)
        rows = window.training_rows(record_set, share, seed, first_step)
    else:
        rows = lanes.training_rows(open_index(record_set), share, seed, first_step)
    if is_compact(record_set.metadata):
        masked = masked_batches_tf.training_batches(
            rows, record_set, share, first_step, length
        )
        return masked.prefetch(tf.data.AUTOTUNE)

    def parse(row: tf.Tensor) -> dict[str, tf.Tensor]:
        batch = _parse(row, record_set.features)
        return cutting.cut_rows(batch, length) if length else batch

    return rows.map(parse, tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def evaluation_batches(
    record_set: RecordSet,
    batch_size: int,
    context: tf.distribute.InputContext,
    length_multiple: int = 0,
    sample: np.ndarray | None = None,
) -> tf.data.Dataset:
    """Returns batches of every row once; rows of weight 0 fill the last batch.

    Batches hold rows of about one length, or of several places of the set. Metrics do
    not depend on the order, and predictions carry `row_index`.

    Args:
      record_set: the rows; at least one.
      batch_size: rows in one step over all replicas.
      context: says which part of every batch belongs to this worker.
      length_multiple: as for `training_batches`.
      sample: places of the rows to read, rising, int64; None: all rows.
    Returns:
      Per-replica batches as `training_batches`, with `row_weight` float32 [B].
    Raises:
      ValueError: as `training_batches`.
    """
    share = Share.of_worker(batch_size, context)
    if record_set.varies:
        check_files(record_set)
        lengths = LengthBatches(record_set, batch_size, length_multiple)
        return _worker_batches(lengths, lengths.evaluation(sample), share)
    rows = lanes.evaluation_rows(open_index(record_set), share, sample)
    if is_compact(record_set.metadata):
        masked = masked_batches_tf.evaluation_batches(rows, record_set)
        return masked.prefetch(tf.data.AUTOTUNE)

    def parse(row: tf.Tensor, weight: tf.Tensor, _: tf.Tensor) -> dict[str, tf.Tensor]:
        return {**_parse(row, record_set.features), "row_weight": weight}

    return rows.map(parse, tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def evaluation_steps(
    record_set: RecordSet, batch_size: int, sample: np.ndarray | None = None
) -> int:
    """Returns the number of batches of `evaluation_batches`."""
    rows = record_set.total_rows if sample is None else len(sample)
    return -(-rows // batch_size)


def length_multiple(config: TrainConfig, strategy: tf.distribute.Strategy) -> int:
    """Returns `LengthBatches`' length_multiple; 0: pad to the longest length allowed.

    Batches for a TPU have one shape only, since it compiles the step for that shape.
    Elsewhere XLA compiles the step for every new shape, so it gets few of them.
    """
    if not config.length_buckets or isinstance(strategy, tf.distribute.TPUStrategy):
        return 0
    return _XLA_LENGTH_MULTIPLE if config.jit_compile else _LENGTH_MULTIPLE


@contextlib.contextmanager
def explain_corruption(record_sets: Sequence[RecordSet]) -> Iterator[None]:
    """Makes TensorFlow's errors about damaged or missing records name their file.

    Args:
      record_sets: all that are read inside.
    Raises:
      ValueError: a record is damaged, or a file has other rows, or rows at other
        places, than its sidecar says.
    """
    try:
        yield
    except tf.errors.DataLossError as error:
        paths = [path for record_set in record_sets for path in record_set.paths]
        damaged = find_corruption(paths)
        if damaged:
            raise corruption_error(*damaged) from error
        _check_indices(record_sets)
        raise ValueError(f"A record is corrupt: {error.message}.") from error
    except tf.errors.FailedPreconditionError:
        for record_set in record_sets:
            check_counts(record_set)
        _check_indices(record_sets)
        raise


def _check_indices(record_sets: Sequence[RecordSet]) -> None:
    """Raises ValueError if places of rows in a sidecar are wrong."""
    for record_set in record_sets:
        open_index(record_set, always_walk=True)


def _check_cut(record_set: RecordSet, length: int) -> None:
    """Raises ValueError unless rows can be cut to a length."""
    tokens = record_set.features.get("input_mask")
    is_packed = record_set.max_documents_per_row > 0
    if tokens is None or tokens.varies or tokens.size < length or is_packed:
        raise ValueError(
            f"Only padded pretraining rows of at least {length} tokens, each of one "
            f"pair, can be cut to {length}. Received those of {record_set.paths[0]}."
        )


def _worker_batches(
    lengths: LengthBatches, global_batches: tf.data.Dataset, share: Share
) -> tf.data.Dataset:
    """Turns the row indices of global batches into this worker's padded batches."""

    def own_part(rows, weights, length):
        parts = rows, weights, tf.fill(tf.shape(rows), length)
        return tuple(share.per_replica(share.cut(part)) for part in parts)

    return (
        global_batches.map(own_part)
        .unbatch()
        .map(
            lambda rows, weights, length: lengths.pad(rows, weights, length[0]),
            tf.data.AUTOTUNE,
        )
        .prefetch(tf.data.AUTOTUNE)
    )


def _parse(serialized: tf.Tensor, features: Features) -> dict[str, tf.Tensor]:
    """Parses serialized rows, string [B]; int64 on disk becomes int32."""
    parsed = tf.io.parse_example(serialized, parsing_spec(features))
    return {
        name: tf.cast(value, tf.int32) if value.dtype == tf.int64 else value
        for name, value in parsed.items()
    }
