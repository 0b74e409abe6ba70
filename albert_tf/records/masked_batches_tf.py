"""Batches of compact rows, which are masked when they are read."""

from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf

from albert_tf.records.compact import CompactFormat
from albert_tf.records.draws_tf import draw_each, draw_range, round_up
from albert_tf.records.lanes import Share
from albert_tf.records.masking_config import ReadTimeMasks
from albert_tf.records.masking_tf import masked_rows
from albert_tf.records.ngrams_tf import draws_layout
from albert_tf.records.sidecar import RecordSet

# Rows that are masked together, at least: an operation's own cost is shared by them.
_ROWS_PER_BLOCK = 1024
# Purposes of random numbers, a part of their seed; `_MORE` is added for those that few
# rows need.
_TRAINING, _EVALUATION = range(2)
_MORE = 2


class _Masking(NamedTuple):
    rows_format: CompactFormat
    masks: ReadTimeMasks
    length: int

    @classmethod
    def of_rows(cls, record_set: RecordSet, length: int = 0) -> "_Masking":
        rows_format = record_set.compact_format
        if rows_format is None or record_set.masks is None:
            raise ValueError(
                f"{record_set.paths[0]} has rows without masks: say how to mask them, "
                "by RecordSet.masks."
            )
        return cls(rows_format, record_set.masks, length or rows_format.max_seq_length)

    @property
    def numbers_of_row(self) -> int:
        return draws_layout(self.length, self.masks.masking).total

    def seed(self, purpose: int) -> tuple[int, int]:
        return self.masks.random_seed, purpose

    def mask(
        self,
        purpose: int,
        rows: tf.Tensor,
        places: tf.Tensor,
        draws: tf.Tensor,
        rates: tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        """Masks rows; `places`, int64 [R], and the purpose decide further draws."""
        seed = self.seed(purpose + _MORE)
        count = round_up(2 * self.length)

        def draw_more(chosen: tf.Tensor) -> tf.Tensor:
            numbers = draw_each(seed, tf.gather(places, chosen), count)
            return numbers[:, : 2 * self.length]

        return masked_rows(
            rows,
            draws,
            draw_more,
            rates,
            self.rows_format,
            self.masks.masking,
            self.length,
        )


def training_batches(
    rows: tf.data.Dataset,
    record_set: RecordSet,
    share: Share,
    first_step: int,
    length: int = 0,
) -> tf.data.Dataset:
    """Masks the rows of a worker in training.

    Masks are a function of the seed of the masks and of a row's place in the order of
    training, and their rate one of the step. So they are the same for any number of
    workers and after a resumption, and others in every epoch.

    Args:
      rows: serialized rows, string [R] for each replica, from `first_step` on.
      record_set: their set, with `masks`.
      share: the worker's part of a global batch.
      first_step: step of the first rows.
      length: tokens to which rows are cut before they are masked; 0: they are not cut.
    Returns:
      Per-replica batches, as `masked_rows` has them.
    Raises:
      ValueError: the set does not say how to mask.
    """
    masking = _Masking.of_rows(record_set, length)
    size = share.rows // share.replicas
    batches = -(-_ROWS_PER_BLOCK // size)

    def draw(number: tf.Tensor, rows: tf.Tensor) -> tuple[tf.Tensor, ...]:
        step = first_step + number // share.replicas
        place = step * share.batch_size + share.first + number % share.replicas * size
        seed = masking.seed(_TRAINING)
        draws = draw_range(seed, place, size, masking.numbers_of_row)
        rate = masking.masks.rate(tf.cast(step, tf.float64))
        rows = tf.ensure_shape(rows, [size])
        return (
            rows,
            place + tf.range(size, dtype=tf.int64),
            draws,
            tf.fill([size], rate),
        )

    def mask(*block: tf.Tensor) -> Mapping[str, tf.Tensor]:
        parts = [tf.reshape(part, [batches * size, *part.shape[2:]]) for part in block]
        return {
            name: tf.reshape(value, [batches, size, *value.shape[1:]])
            for name, value in masking.mask(_TRAINING, *parts).items()
        }

    blocks = rows.enumerate().map(draw).batch(batches, drop_remainder=True)
    return blocks.map(mask, tf.data.AUTOTUNE).unbatch()


def evaluation_batches(rows: tf.data.Dataset, record_set: RecordSet) -> tf.data.Dataset:
    """Masks rows of evaluation, each time alike: by its number in the set.

    Args:
      rows: (string [R], weights float32 [R], numbers of the rows int64 [R]).
      record_set: their set, with `masks`.
    Returns:
      Batches as `training_batches`, with `row_weight`.
    Raises:
      ValueError: the set does not say how to mask.
    """
    masking = _Masking.of_rows(record_set)
    rate = tf.constant(masking.masks.masking.masked_lm_prob, tf.float64)

    def mask(
        rows: tf.Tensor, weights: tf.Tensor, numbers: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        seed = masking.seed(_EVALUATION)
        draws = draw_each(seed, numbers, masking.numbers_of_row)
        rates = tf.fill(tf.shape(rows), rate)
        masked = masking.mask(_EVALUATION, rows, numbers, draws, rates)
        # A TPU needs to know all sizes.
        size = rows.shape[0]
        masked = {
            name: tf.ensure_shape(value, [size, *value.shape[1:]])
            for name, value in masked.items()
        }
        return {**masked, "row_weight": weights}

    return rows.map(mask, tf.data.AUTOTUNE)
