"""The order of rows in runs that earlier releases began, which go on with it.

Files are read side by side, in an order of the epoch, and shuffled within a window.
Every worker reads the rows of all, and a resumed run those of its epoch again.
"""

import tensorflow as tf

from albert_tf.records.lanes import Share
from albert_tf.records.row_index import counted
from albert_tf.records.sidecar import RecordSet

# Rows that are shuffled together.
_SHUFFLE_ROWS = 10_000
_FILES_AT_ONCE = 16
# The seed that TensorFlow mixes into an operation's if the program has set none.
_DEFAULT_GRAPH_SEED = 87_654_321


def training_rows(
    record_set: RecordSet, share: Share, seed: int, first_step: int
) -> tf.data.Dataset:
    """Returns endless serialized rows of one worker, string [R] for each replica.

    Args:
      record_set: the rows.
      share: the worker's part.
      seed: of the order.
      first_step: number of steps to skip.
    """
    skipped = first_step * share.batch_size
    first_epoch, offset = divmod(skipped, record_set.total_rows)

    def epoch_rows(epoch: tf.Tensor) -> tf.data.Dataset:
        return _shuffled_rows(record_set, tf.stack([seed, epoch]))

    # Rows are skipped before they are parsed, so skipping costs no more than reading.
    rows = tf.data.Dataset.range(first_epoch, tf.int64.max).flat_map(epoch_rows)
    rows = rows.skip(offset).batch(share.batch_size, drop_remainder=True)
    return rows.map(lambda batch: share.per_replica(share.cut(batch))).unbatch()


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
    rows = counted(rows, record_set.total_rows)
    return rows.shuffle(_SHUFFLE_ROWS, order, reshuffle_each_iteration=False)
