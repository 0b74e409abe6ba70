"""Batches of record files, in one deterministic order for any number of devices.

The order of rows is a function of (seed, epoch). So the position in the data after any
number of steps need not be stored, and N workers that each take their part of every
global batch see the same rows as one worker.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.config import TrainConfig
from albert_tf.records.bucketing import LengthBatches
from albert_tf.records.encoding import find_bad_length
from albert_tf.records.features import Features
from albert_tf.records.reader import check_counts, find_corruption, parsing_spec
from albert_tf.records.sidecar import RecordSet

# Rows that are shuffled together: 10,000 rows of 512 tokens are about 60 MB.
_SHUFFLE_ROWS = 10_000
_FILES_AT_ONCE = 16
# About a second.
_MOST_BYTES_CHECKED = 1_000_000_000
# Batches are padded to a multiple of these, if rows differ in length.
_LENGTH_MULTIPLE, _XLA_LENGTH_MULTIPLE = 8, 64
# The seed that TensorFlow mixes into an operation's if the program has set none.
_DEFAULT_GRAPH_SEED = 87_654_321


def training_batches(
    record_set: RecordSet,
    batch_size: int,
    seed: int,
    first_step: int,
    context: tf.distribute.InputContext,
    length_multiple: int = 0,
) -> tf.data.Dataset:
    """Returns endless batches; each epoch is shuffled, epochs follow without a gap.

    Args:
      record_set: the rows.
      batch_size: rows in one step over all replicas.
      seed: of the order.
      first_step: number of steps to skip, for a run that is resumed.
      context: says which part of every batch belongs to this worker.
      length_multiple: as for `LengthBatches`; used if rows differ in length.
    Returns:
      Per-replica batches: dict of int32 or float32 tensors.
    Raises:
      ValueError: the replicas cannot share the batch evenly.
    """
    _check_lengths(record_set)
    if record_set.varies:
        lengths = LengthBatches(record_set, batch_size, length_multiple)
        return _worker_batches(lengths, lengths.training(seed, first_step), context)
    skipped = first_step * batch_size
    first_epoch, offset = divmod(skipped, record_set.total_rows)

    def epoch_rows(epoch: tf.Tensor) -> tf.data.Dataset:
        return _shuffled_rows(record_set, tf.stack([seed, epoch]))

    # Rows are skipped before they are parsed, so skipping costs no more than reading.
    rows = tf.data.Dataset.range(first_epoch, tf.int64.max).flat_map(epoch_rows)
    rows = rows.skip(offset).batch(batch_size, drop_remainder=True)
    rows = _worker_part(rows, batch_size, context)
    rows = rows.map(lambda row: _parse(row, record_set.features), tf.data.AUTOTUNE)
    return rows.prefetch(tf.data.AUTOTUNE)


def evaluation_batches(
    record_set: RecordSet,
    batch_size: int,
    context: tf.distribute.InputContext,
    length_multiple: int = 0,
    sample: np.ndarray | None = None,
) -> tf.data.Dataset:
    """Returns batches of every row once; rows of weight 0 fill the last batch.

    Rows are in file order, or sorted by length if they differ in length.

    Args:
      record_set: the rows; at least one.
      batch_size: rows in one step over all replicas.
      context: says which part of every batch belongs to this worker.
      length_multiple: as for `training_batches`.
      sample: places of the rows to read, rising, int64; None: all rows.
    Returns:
      Per-replica batches as `training_batches`, with `row_weight` float32 [B].
    Raises:
      ValueError: the replicas cannot share the batch evenly.
    """
    _check_lengths(record_set)
    if record_set.varies:
        lengths = LengthBatches(record_set, batch_size, length_multiple)
        return _worker_batches(lengths, lengths.evaluation(sample), context)
    total = record_set.total_rows
    rows = _counted(tf.data.TFRecordDataset(list(record_set.paths)), total)
    if sample is not None:
        rows, total = _chosen(rows, total, sample), len(sample)
    fill = -total % batch_size
    # The fill repeats real rows, so that all features have valid values.
    rows = rows.concatenate(rows.repeat().take(fill))
    weights = tf.data.Dataset.range(total + fill).map(
        lambda index: tf.cast(index < total, tf.float32)
    )
    pairs = tf.data.Dataset.zip(rows, weights).batch(batch_size, drop_remainder=True)
    pairs = _worker_part(pairs, batch_size, context)

    def parse(row: tf.Tensor, weight: tf.Tensor) -> dict[str, tf.Tensor]:
        return {**_parse(row, record_set.features), "row_weight": weight}

    return pairs.map(parse, tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


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
      ValueError: a record is damaged, or a file has another number of rows than its
        sidecar says.
    """
    try:
        yield
    except tf.errors.DataLossError as error:
        paths = [path for record_set in record_sets for path in record_set.paths]
        damaged = find_corruption(paths)
        place = _place(*damaged) if damaged else str(error)
        raise _corruption_error(place) from error
    except tf.errors.FailedPreconditionError:
        for record_set in record_sets:
            check_counts(record_set)
        raise


def _check_lengths(record_set: RecordSet) -> None:
    """Raises ValueError if a record claims more bytes than its file has.

    TensorFlow takes memory for a claim, and ends the process if there is too little.
    Large sets are not read twice: only a forged checksum makes such a claim credible.
    """
    if sum(map(os.path.getsize, record_set.paths)) > _MOST_BYTES_CHECKED:
        return
    for path in record_set.paths:
        offset = find_bad_length(path)
        if offset is not None:
            raise _corruption_error(_place(path, offset))


def _place(path: str, offset: int) -> str:
    return f"{path} at byte {offset:,}"


def _corruption_error(place: str) -> ValueError:
    return ValueError(
        f"A record is corrupt: {place}. Make the file again or copy it again."
    )


def _counted(rows: tf.data.Dataset, count: int) -> tf.data.Dataset:
    """Makes it an error if there is another number of rows.

    Otherwise an epoch without rows, followed by the next one, would never end.
    """
    return rows.apply(tf.data.experimental.assert_cardinality(count))


def _chosen(rows: tf.data.Dataset, count: int, sample: np.ndarray) -> tf.data.Dataset:
    """Keeps the rows at some places.

    Args:
      rows: the rows.
      count: their number.
      sample: the places, int64.
    """
    is_chosen = np.zeros(count, bool)
    is_chosen[sample] = True
    pairs = tf.data.Dataset.zip(rows, tf.data.Dataset.from_tensor_slices(is_chosen))
    return pairs.filter(lambda _, chosen: chosen).map(lambda row, _: row)


def _shuffled_rows(record_set: RecordSet, seeds: tf.Tensor) -> tf.data.Dataset:
    """Returns the serialized rows of one epoch, shuffled.

    Args:
      record_set: the rows.
      seeds: int64 [2], (seed, epoch).
    """
    # This runs in a dataset's function and seeds that graph only: the shuffle mixes its
    # graph's seed into its own, and the order must not depend on whether the program
    # calls tf.random.set_seed.
    tf.compat.v1.set_random_seed(_DEFAULT_GRAPH_SEED)
    paths = tf.random.experimental.stateless_shuffle(
        tf.constant(list(record_set.paths)), seeds
    )
    rows = tf.data.Dataset.from_tensor_slices(paths).interleave(
        tf.data.TFRecordDataset,
        cycle_length=min(_FILES_AT_ONCE, len(record_set.paths)),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )
    order = tf.random.stateless_uniform(
        [], seeds, minval=None, maxval=None, dtype=tf.int64
    )
    rows = _counted(rows, record_set.total_rows)
    return rows.shuffle(_SHUFFLE_ROWS, order, reshuffle_each_iteration=False)


def _worker_batches(
    lengths: LengthBatches,
    global_batches: tf.data.Dataset,
    context: tf.distribute.InputContext,
) -> tf.data.Dataset:
    """Turns the row indices of global batches into this worker's padded batches."""

    def repeat_length(rows, weights, length):
        return rows, weights, tf.fill(tf.shape(rows), length)

    parts = global_batches.map(repeat_length)
    parts = _worker_part(parts, lengths.batch_size, context)
    return parts.map(
        lambda rows, weights, length: lengths.pad(rows, weights, length[0]),
        tf.data.AUTOTUNE,
    ).prefetch(tf.data.AUTOTUNE)


def _worker_part(
    batches: tf.data.Dataset, batch_size: int, context: tf.distribute.InputContext
) -> tf.data.Dataset:
    """Cuts this worker's per-replica batches, in replica order, from global batches."""
    workers, replicas = context.num_input_pipelines, context.num_replicas_in_sync
    if batch_size % replicas:
        raise ValueError(
            f"A batch of {batch_size} rows cannot be shared by {replicas} replicas: "
            "use a multiple."
        )
    worker_rows, replica_rows = batch_size // workers, batch_size // replicas
    first = context.input_pipeline_id * worker_rows

    def cut(tensor: tf.Tensor) -> tf.Tensor:
        part = tensor[first : first + worker_rows]
        return tf.reshape(part, [worker_rows // replica_rows, replica_rows])

    return batches.map(lambda *parts: tuple(cut(part) for part in parts)).unbatch()


def _parse(serialized: tf.Tensor, features: Features) -> dict[str, tf.Tensor]:
    """Parses serialized rows, string [B]; int64 on disk becomes int32."""
    parsed = tf.io.parse_example(serialized, parsing_spec(features))
    return {
        name: tf.cast(value, tf.int32) if value.dtype == tf.int64 else value
        for name, value in parsed.items()
    }
