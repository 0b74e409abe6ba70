"""Batches of rows of about one length, for rows that are stored without padding.

Such rows (fine-tuning) fit in memory. All epochs are one endless stream of rows, each
epoch shuffled as a whole. The stream is cut into pools; a pool is sorted by length and
cut into batches, whose order is then shuffled. For example, 5 rows of the lengths
7 2 9 4 5, in batches of 2 rows and pools of 2 batches:

    epochs, shuffled     9 2 4 7   5 | 4 7 5   9 2 | ...
    pools               [9 2 4 7] [5   4 7 5] [9 2   ...
    sorted, cut         [2 4] [7 9]   [4 5] [5 7]
    batches, shuffled   [7 9] [2 4]   [4 5] [5 7]

With random batches a pool is not sorted, and nothing else differs.

A pool may span several epochs. Pool number n depends on the seed and n only, so the
batch of any step is known without those before it, and a resumed run continues with the
right one. The length that a batch is padded to changes its cost and which values
dropout drops, nothing else.
"""

import numpy as np
import tensorflow as tf

from albert_tf.records.reader import check_counts, parsing_spec
from albert_tf.records.sidecar import RecordSet

# Batches that are sorted together: more of them make padding shorter, and batches less
# random.
_BATCHES_PER_POOL = 64
_ROWS_PER_PARSE = 4096


def read_columns(record_set: RecordSet) -> dict[str, tf.Tensor | tf.RaggedTensor]:
    """Reads all rows, in the order of the files, as one (ragged) tensor a feature.

    Integers are int32.

    Raises:
      ValueError: rows have other features, or are more or fewer, than the sidecar says.
    """
    features = record_set.features
    spec = parsing_spec(features)
    rows = tf.data.TFRecordDataset(list(record_set.paths)).batch(_ROWS_PER_PARSE)
    parsed = rows.map(lambda rows: (tf.size(rows), tf.io.parse_example(rows, spec)))
    try:
        found = list(parsed)
    except tf.errors.InvalidArgumentError as error:
        raise ValueError(
            f"Rows of {record_set.paths[0]} and its set are not as their sidecar says "
            f"({error.message}): make the records again."
        ) from error
    if sum(int(size) for size, _ in found) != record_set.total_rows:
        check_counts(record_set)
    return {
        name: tf.concat(
            [
                tf.cast(block[name], tf.int32)
                if feature.dtype == "int64"
                else block[name]
                for _, block in found
            ],
            axis=0,
        )
        for name, feature in features.items()
    }


class LengthBatches:
    """Batches of one record set, for training and for evaluation."""

    def __init__(self, record_set: RecordSet, batch_size: int, length_multiple: int):
        """Reads the rows.

        Args:
          record_set: rows whose feature `input_ids` varies; `max_seq_length` in the
            sidecar bounds its length.
          batch_size: rows in one step over all replicas.
          length_multiple: batches are padded to a multiple of it; 0: all of them are
            padded to `max_seq_length`.
        """
        columns = read_columns(record_set)
        # Models do not read strings; they are for people and for the host.
        self._columns = {
            name: column
            for name, column in columns.items()
            if column.dtype != tf.string
        }
        self.batch_size = batch_size
        self._multiple = length_multiple
        input_ids = columns["input_ids"]
        lengths = input_ids.row_lengths(axis=input_ids.ragged_rank)
        self._lengths = tf.cast(lengths, tf.int32)
        self._options = None
        if input_ids.ragged_rank == 2:
            self._lengths = tf.reduce_max(self._lengths, axis=1)
            self._options = int(tf.reduce_max(input_ids.row_lengths(axis=1)))
        self._rows = int(self._lengths.shape[0])
        self._longest = _longest(record_set, int(tf.reduce_max(self._lengths)))

    def training(
        self, seed: int, first_step: int, by_length: bool = True
    ) -> tf.data.Dataset:
        """Returns endless global batches: (row indices, weights, padded length).

        Args:
          seed: of the order.
          first_step: the step whose batch comes first.
          by_length: False: rows are not sorted, so batches are random.
        Returns:
          int64 [B], float32 [B] (all 1), int32 [].
        """
        size = self.batch_size
        batches = max(1, min(_BATCHES_PER_POOL, self._rows // size))
        first_pool, skipped = divmod(first_step, batches)
        pools = tf.data.Dataset.range(first_pool, tf.int64.max)
        weights = tf.ones([size], tf.float32)
        return (
            pools.map(
                lambda pool: self._pool(pool, batches, seed, by_length),
                tf.data.AUTOTUNE,
            )
            .unbatch()
            .skip(skipped)
            .map(lambda rows: (rows, weights, self._padded_length(rows)))
        )

    def drawn(
        self, places: np.ndarray, seed: int, first_step: int, by_length: bool = True
    ) -> tf.data.Dataset:
        """Returns global batches of given rows, as `training`, which come to an end.

        Args:
          places: int64 [steps * B], places of rows, in pools as those of an epoch.
          seed: of the order of a pool's batches.
          first_step: number of batches to skip.
          by_length: as for `training`.
        """
        size = self.batch_size
        lengths, rng = self._lengths.numpy(), np.random.default_rng(seed)
        batches: list[np.ndarray] = []
        for first in range(0, len(places), _BATCHES_PER_POOL * size):
            pool = places[first : first + _BATCHES_PER_POOL * size]
            if by_length:
                pool = pool[np.argsort(lengths[pool], kind="stable")]
            batches.append(rng.permutation(pool.reshape(-1, size)))
        weights = tf.ones([size], tf.float32)
        chosen = tf.data.Dataset.from_tensor_slices(np.concatenate(batches))
        return chosen.skip(first_step).map(
            lambda rows: (rows, weights, self._padded_length(rows))
        )

    def evaluation(self, sample: np.ndarray | None = None) -> tf.data.Dataset:
        """Returns global batches of every row once, as `training`.

        Rows are sorted by length; rows of weight 0 fill the last batch.

        Args:
          sample: indices of the rows to read, int64; None: all rows.
        """
        size = self.batch_size
        rows = np.arange(self._rows) if sample is None else sample
        lengths = tf.gather(self._lengths, rows)
        order = tf.gather(rows, tf.argsort(lengths, stable=True))
        fill = -len(rows) % size
        order = tf.concat([order, tf.repeat(order[-1:], fill)], axis=0)
        weights = tf.concat([tf.ones([len(rows)]), tf.zeros([fill])], axis=0)
        pairs = tf.data.Dataset.from_tensor_slices((order, weights))
        return pairs.batch(size, drop_remainder=True).map(
            lambda rows, weights: (rows, weights, self._padded_length(rows))
        )

    def pad(
        self, rows: tf.Tensor, weights: tf.Tensor, length: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Returns some rows of a global batch, padded.

        Args:
          rows: int64 [B], their indices.
          weights: float32 [B].
          length: int32 [], L, the length that the global batch is padded to.
        Returns:
          Each feature that varies: int32 [B, L] or, for rows of options, [B, C, L],
          where C is the largest number of options of any row; other features in their
          shape. Besides them `input_mask`, 1 for tokens, `row_index` int32 [B] and
          `row_weight`.
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

    def _dense(
        self, ragged: tf.RaggedTensor, rows: int | None, length: tf.Tensor
    ) -> tf.Tensor:
        """Pads ragged [B, (L)] or [B, (C), (L)] with 0."""
        sizes = [rows]
        if ragged.ragged_rank == 2:
            sizes.append(self._options)
        # With one length for all batches the shape is known, which TPUs need.
        last = length if self._multiple else self._longest
        dense = ragged.to_tensor(shape=tf.cast(tf.stack([*sizes, last]), tf.int64))
        return tf.ensure_shape(dense, [*sizes, None if self._multiple else last])

    def _padded_length(self, rows: tf.Tensor) -> tf.Tensor:
        """Returns the length that a batch of these rows is padded to, int32 []."""
        if not self._multiple:
            return tf.constant(self._longest)
        longest = tf.reduce_max(tf.gather(self._lengths, rows))
        rounded = -(-longest // self._multiple) * self._multiple
        return tf.minimum(rounded, self._longest)

    def _pool(
        self, pool: tf.Tensor, batches: int, seed: int, by_length: bool
    ) -> tf.Tensor:
        """Returns the row indices of a pool's batches, int64 [batches, B].

        Args:
          pool: int64 [], its number.
          batches: number of batches in a pool.
          seed: of the order.
          by_length: as for `training`.
        """
        size, rows = batches * self.batch_size, self._rows
        first = pool * size
        epoch, offset = first // rows, first % rows
        # The orders of all epochs that the pool may reach into.
        orders = [
            tf.random.experimental.stateless_shuffle(
                tf.range(rows, dtype=tf.int64), tf.stack([seed, epoch + later])
            )
            for later in range((size - 1) // rows + 2)
        ]
        chosen = tf.concat(orders, axis=0)[offset : offset + size]
        if by_length:
            order = tf.argsort(tf.gather(self._lengths, chosen), stable=True)
            chosen = tf.gather(chosen, order)
        cut = tf.reshape(chosen, [batches, self.batch_size])
        # Negative, so that pools and epochs do not share seeds.
        mixed = tf.random.experimental.stateless_shuffle(
            cut, tf.stack([seed, -1 - pool])
        )
        return tf.ensure_shape(mixed, [batches, self.batch_size])


def _longest(record_set: RecordSet, longest: int) -> int:
    """Returns the length that rows may have, `max_seq_length` of the sidecar.

    Raises:
      ValueError: it is missing, or rows are longer.
    """
    allowed = record_set.metadata.get("max_seq_length")
    if allowed is None or allowed < longest:
        raise ValueError(
            f"Rows of {record_set.paths[0]} have up to {longest} tokens, its sidecar "
            f"says max_seq_length={allowed}: make the records again."
        )
    return allowed
