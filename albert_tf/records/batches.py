"""Record files -> batches: one deterministic stream, the same on any device layout.

The order of rows is a function of (seed, epoch). So the position in the data after a
number of steps is known without being stored, and N workers that each take their part
of every global batch see the rows that one worker would.
"""

import contextlib
from collections.abc import Iterator, Sequence

import tensorflow as tf

from albert_tf.config import TrainConfig
from albert_tf.records.bucketing import LengthBatches
from albert_tf.records.reader import find_corruption, find_miscount, parsing_spec
from albert_tf.records.sidecar import RecordSet

# Rows that are shuffled together: 10,000 rows of 512 pieces are about 60 MB.
_SHUFFLE_ROWS = 10_000
_FILES_AT_ONCE = 16
# Batches of rows of many lengths are padded to a multiple of these.
_LENGTH_MULTIPLE, _XLA_LENGTH_MULTIPLE = 8, 64
# What TensorFlow mixes into an operation's seed where the program has set none.
_SEED_OF_NO_PROGRAM = 87_654_321


def training_batches(
    record_set: RecordSet,
    batch_size: int,
    seed: int,
    first_step: int,
    context: tf.distribute.InputContext,
    length_multiple: int = 0,
) -> tf.data.Dataset:
    """Batches for ever: rows shuffled anew each epoch, epochs joined without a gap.

    Args:
      record_set: what to read.
      batch_size: rows in one step over all replicas.
      seed: of the order.
      first_step: steps whose rows are skipped, for a run that is resumed.
      context: which part of every batch is this worker's.
      length_multiple: what rows of many lengths are padded to, as `LengthBatches`.
    Returns:
      Per-replica batches: dict of int32 or float32 tensors.
    """
    if record_set.varies:
        lengths = LengthBatches(record_set, batch_size, length_multiple)
        return _own_padded(lengths, lengths.training(seed, first_step), context)
    skipped = first_step * batch_size
    first_epoch, offset = divmod(skipped, record_set.total_rows)

    def epoch_rows(epoch):
        return _shuffled_rows(record_set, tf.stack([seed, epoch]))

    # Skipping before the rows are parsed costs reading and no more.
    rows = tf.data.Dataset.range(first_epoch, tf.int64.max).flat_map(epoch_rows)
    rows = rows.skip(offset).batch(batch_size, drop_remainder=True)
    rows = _own_part(rows, batch_size, context)
    rows = rows.map(lambda row: _parse(row, record_set.features), tf.data.AUTOTUNE)
    return rows.prefetch(tf.data.AUTOTUNE)


def evaluation_batches(
    record_set: RecordSet,
    batch_size: int,
    context: tf.distribute.InputContext,
    length_multiple: int = 0,
) -> tf.data.Dataset:
    """Every row once; the last batch is filled with rows of weight 0.

    They come in file order, but by length where lengths vary.

    Args:
      record_set: what to read; at least one row.
      batch_size: rows in one step over all replicas.
      context: which part of every batch is this worker's.
      length_multiple: as of `training_batches`.
    Returns:
      Per-replica batches as `training_batches`, with `row_weight` float32 [B].
    """
    if record_set.varies:
        lengths = LengthBatches(record_set, batch_size, length_multiple)
        return _own_padded(lengths, lengths.evaluation(), context)
    total = record_set.total_rows
    fill = -total % batch_size
    rows = _counted(tf.data.TFRecordDataset(list(record_set.paths)), total)
    # Real rows, so that a fill has valid values in every feature.
    rows = rows.concatenate(rows.repeat().take(fill))
    weights = tf.data.Dataset.range(total + fill).map(
        lambda index: tf.cast(index < total, tf.float32)
    )
    pairs = tf.data.Dataset.zip(rows, weights).batch(batch_size, drop_remainder=True)
    pairs = _own_part(pairs, batch_size, context)

    def parse(row, weight):
        return {**_parse(row, record_set.features), "row_weight": weight}

    return pairs.map(parse, tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def evaluation_steps(record_set: RecordSet, batch_size: int) -> int:
    """Batches that `evaluation_batches` gives."""
    return -(-record_set.total_rows // batch_size)


def length_multiple(config: TrainConfig, strategy: tf.distribute.Strategy) -> int:
    """The number whose multiples batches are padded to; 0: all to the longest allowed.

    A TPU compiles one shape of a batch, so all steps there have the same. XLA on other
    devices compiles each shape once, so there are few of them.
    """
    if not config.length_buckets or isinstance(strategy, tf.distribute.TPUStrategy):
        return 0
    return _XLA_LENGTH_MULTIPLE if config.jit_compile else _LENGTH_MULTIPLE


@contextlib.contextmanager
def explain_corruption(sets: Sequence[RecordSet]) -> Iterator[None]:
    """Turns TensorFlow's reports of damaged and of missing records into their file.

    Args:
      sets: all that is read inside.
    Raises:
      ValueError: a record is damaged; a file has other than its sidecar's rows.
    """
    try:
        yield
    except tf.errors.DataLossError as error:
        found = find_corruption([path for rows in sets for path in rows.paths])
        place = f"{found[0]} at byte {found[1]:,}" if found else str(error)
        raise ValueError(
            f"A record is corrupt: {place}. Make the file again or copy it again."
        ) from error
    except tf.errors.FailedPreconditionError as error:
        for rows in sets:
            if found := find_miscount(rows.paths, rows.rows):
                path, expected, counted = found
                raise ValueError(
                    f"{path} has {counted:,} rows, but its sidecar says {expected:,}: "
                    "copy both again, or remove both and make the records again."
                ) from error
        raise


def _counted(rows: tf.data.Dataset, count: int) -> tf.data.Dataset:
    """The rows; an error where there are not so many. An epoch without any, joined to
    the next, would otherwise be read for ever."""
    return rows.apply(tf.data.experimental.assert_cardinality(count))


def _shuffled_rows(record_set, seeds):
    """Serialized rows of one epoch; `seeds` int64 [2]; inside a dataset's function."""
    # For this function's graph alone: the shuffle mixes its graph's seed into its own,
    # and the order must not depend on whether the program calls tf.random.set_seed.
    tf.compat.v1.set_random_seed(_SEED_OF_NO_PROGRAM)
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


def _own_padded(lengths, chosen, context):
    """Row indices of global batches -> this worker's per-replica batches, padded."""

    def spread(rows, weights, length):
        return rows, weights, tf.fill(tf.shape(rows), length)

    parts = chosen.map(spread)
    parts = _own_part(parts, lengths.batch_size, context)
    return parts.map(
        lambda rows, weights, length: lengths.pad(rows, weights, length[0]),
        tf.data.AUTOTUNE,
    ).prefetch(tf.data.AUTOTUNE)


def _own_part(batches, batch_size, context):
    """Global batches -> this worker's per-replica batches, in replica order."""
    workers, replicas = context.num_input_pipelines, context.num_replicas_in_sync
    if batch_size % replicas:
        raise ValueError(
            f"A batch of {batch_size} rows cannot be shared by {replicas} replicas: "
            "use a multiple."
        )
    own_rows, replica_rows = batch_size // workers, batch_size // replicas
    first = context.input_pipeline_id * own_rows

    def cut(tensor):
        own = tensor[first : first + own_rows]
        return tf.reshape(own, [own_rows // replica_rows, replica_rows])

    return batches.map(lambda *parts: tuple(cut(part) for part in parts)).unbatch()


def _parse(serialized, features):
    """Strings [B] -> dict of [B, ...] tensors, int32 where the disk has int64."""
    parsed = tf.io.parse_example(serialized, parsing_spec(features))
    return {
        name: tf.cast(value, tf.int32) if value.dtype == tf.int64 else value
        for name, value in parsed.items()
    }
