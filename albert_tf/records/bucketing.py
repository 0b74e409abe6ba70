"""Rows of many lengths -> batches of rows of about one length; `batches.py` uses it.

Fine-tuning rows are stored without padding and fit in memory. The rows of all epochs
are one endless stream, each epoch shuffled whole. It is cut into pools of some batches;
a pool is sorted by length, cut into batches, and these are shuffled. So a batch holds
rows of about one length, and all of it is a function of (seed, step): a resumed run
goes on where it was. How far a batch is padded decides its cost and nothing else.
"""

import tensorflow as tf

from albert_tf.records.reader import parsing_spec
from albert_tf.records.sidecar import RecordSet

# Sorted together: more makes padding less, and batches less random.
_BATCHES_PER_POOL = 64
_ROWS_PER_PARSE = 4096


def read_columns(record_set: RecordSet) -> dict[str, tf.Tensor | tf.RaggedTensor]:
    """All rows of a set, in file order, each feature in one (ragged) tensor.

    Whole numbers are int32.
    """
    features = record_set.features
    spec = parsing_spec(features)
    rows = tf.data.TFRecordDataset(list(record_set.paths)).batch(_ROWS_PER_PARSE)
    blocks = list(rows.map(lambda block: tf.io.parse_example(block, spec)))
    return {
        name: tf.concat(
            [
                tf.cast(block[name], tf.int32)
                if feature.dtype == "int64"
                else block[name]
                for block in blocks
            ],
            axis=0,
        )
        for name, feature in features.items()
    }


class LengthBatches:
    """The batches of one set of rows, for training and for evaluation."""

    def __init__(self, record_set: RecordSet, batch_size: int, length_multiple: int):
        """Args:
        record_set: rows with a feature `input_ids` that varies; what its sidecar calls
          `max_seq_length` bounds their lengths.
        batch_size: rows in one step over all replicas.
        length_multiple: batches are padded to a multiple of it; 0: all of them to
          `max_seq_length`.
        """
        columns = read_columns(record_set)
        # Strings are for people and for the host.
        self._columns = {
            name: column
            for name, column in columns.items()
            if column.dtype != tf.string
        }
        self.batch_size = batch_size
        self._multiple = length_multiple
        self._longest = int(record_set.metadata["max_seq_length"])
        pieces = columns["input_ids"]
        self._lengths = tf.cast(pieces.row_lengths(axis=pieces.ragged_rank), tf.int32)
        self._options = None
        if pieces.ragged_rank == 2:
            self._lengths = tf.reduce_max(self._lengths, axis=1)
            self._options = int(tf.reduce_max(pieces.row_lengths(axis=1)))
        self._rows = int(self._lengths.shape[0])

    def training(self, seed: int, first_step: int) -> tf.data.Dataset:
        """Global batches for ever, as (row indices int64 [B], weights, padded length).

        Args:
          seed: of the order.
          first_step: the step whose batch comes first.
        """
        size = self.batch_size
        batches = max(1, min(_BATCHES_PER_POOL, self._rows // size))
        first_pool, skipped = divmod(first_step, batches)
        pools = tf.data.Dataset.range(first_pool, tf.int64.max)
        weights = tf.ones([size], tf.float32)
        return (
            pools.map(lambda pool: self._pool(pool, batches, seed), tf.data.AUTOTUNE)
            .unbatch()
            .skip(skipped)
            .map(lambda rows: (rows, weights, self._padded_length(rows)))
        )

    def evaluation(self) -> tf.data.Dataset:
        """Global batches of every row once, as `training`; weight 0 fills the last."""
        size = self.batch_size
        order = tf.argsort(self._lengths, stable=True)
        order = tf.cast(order, tf.int64)
        fill = -self._rows % size
        order = tf.concat([order, tf.repeat(order[-1:], fill)], axis=0)
        weights = tf.concat([tf.ones([self._rows]), tf.zeros([fill])], axis=0)
        pairs = tf.data.Dataset.from_tensor_slices((order, weights))
        return pairs.batch(size, drop_remainder=True).map(
            lambda rows, weights: (rows, weights, self._padded_length(rows))
        )

    def pad(self, rows, weights, length) -> dict[str, tf.Tensor]:
        """Some of a global batch's rows as a batch.

        Args:
          rows: int64 [B], their indices.
          weights: float32 [B].
          length: int32, L, what the global batch is padded to.
        Returns:
          Each feature: int32 [B, L] or, of a row of options, [B, C, L], C being the
          most options of the set; as it is where its shape is fixed. Besides them
          `input_mask`, 1 for pieces, `row_index` int32 [B] and `row_weight`.
        """
        batch = {"row_index": tf.cast(rows, tf.int32), "row_weight": weights}
        for name, column in self._columns.items():
            values = tf.gather(column, rows)
            if isinstance(values, tf.RaggedTensor):
                if name == "input_ids":
                    mask = self._dense(tf.ones_like(values), rows.shape[0], length)
                    batch["input_mask"] = mask
                values = self._dense(values, rows.shape[0], length)
            batch[name] = values
        return batch

    def _dense(self, ragged, rows, length):
        """Ragged [B, (L)] or [B, (C), (L)] -> padded with 0."""
        sizes = [rows]
        if ragged.ragged_rank == 2:
            sizes.append(self._options)
        # With one length for all batches the shape is known, as TPUs need it.
        last = length if self._multiple else self._longest
        dense = ragged.to_tensor(shape=tf.cast(tf.stack([*sizes, last]), tf.int64))
        return tf.ensure_shape(dense, [*sizes, None if self._multiple else last])

    def _padded_length(self, rows):
        if not self._multiple:
            return tf.constant(self._longest)
        longest = tf.reduce_max(tf.gather(self._lengths, rows))
        rounded = -(-longest // self._multiple) * self._multiple
        return tf.minimum(rounded, self._longest)

    def _pool(self, pool, batches, seed):
        """Indices of some batches of rows, int64 [batches, B]."""
        size, rows = batches * self.batch_size, self._rows
        first = pool * size
        epoch, offset = first // rows, first % rows
        # Of all the epochs that the pool may reach into.
        orders = [
            tf.random.experimental.stateless_shuffle(
                tf.range(rows, dtype=tf.int64), tf.stack([seed, epoch + later])
            )
            for later in range((size - 1) // rows + 2)
        ]
        chosen = tf.concat(orders, axis=0)[offset : offset + size]
        by_length = tf.argsort(tf.gather(self._lengths, chosen), stable=True)
        cut = tf.reshape(tf.gather(chosen, by_length), [batches, self.batch_size])
        mixed = tf.random.experimental.stateless_shuffle(
            cut, tf.stack([seed, -1 - pool])
        )
        return tf.ensure_shape(mixed, [batches, self.batch_size])
