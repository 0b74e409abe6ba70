"""Cuts batches of masked pretraining rows to a shorter length.

    [CLS] a1 a2 a3 a4 a5 [SEP] b1 b2 b3 b4 [SEP]
    [CLS] a1 a2 a3 [SEP] b1 b2 b3 [SEP]                 cut to nine tokens

The longer segment loses tokens first, as everywhere (`packing.kept_lengths`), and both
lose their last ones. What is cut must not tell whether the segments are swapped, or
their order would be learned from that:

- Tokens next to the place where the text was split, the end of the first part and the
  beginning of the second one, would end the first segment within a sentence in swapped
  rows, and begin it within one in the others.
- The end of the first segment and the beginning of the second one would leave no gap
  in the text between them in rows in order, and the longest one in swapped rows.

With the last tokens cut, segments of both kinds begin as they did, and the gap between
the two parts of the text is what the part that comes first in it lost.
"""

import tensorflow as tf

from albert_tf.text import packing

# The masked tokens that a row lost, float32 [B]: in batches that were cut.
MASKED_TOKENS_CUT = "masked_tokens_cut"
_OF_TOKENS = ("input_ids", "input_mask", "segment_ids", "token_boundary")


def cut_rows(batch: dict[str, tf.Tensor], length: int) -> dict[str, tf.Tensor]:
    """Shortens rows; those that are short enough lose padding alone.

    Args:
      batch: features of `pretraining_features`, tokens int32 [B, S], predictions
        [B, P].
      length: tokens in a row, below S, special tokens and padding included.
    Returns:
      The same features, of tokens [B, length]. Predictions stay [B, P]: those of
      tokens that were cut have weight, position and id 0. A row may keep none; its
      segments' order counts all the same. `MASKED_TOKENS_CUT` is added.
    """
    mask, segments = batch["input_mask"], batch["segment_ids"]
    second = tf.reduce_sum(segments * mask, axis=1, keepdims=True)
    first = tf.reduce_sum(mask, axis=1, keepdims=True) - second
    # Without [CLS] and [SEP].
    length_a, length_b = first - 2, second - 1
    room = length - packing.SPECIAL_TOKENS_OF_PAIR
    kept_a, kept_b = packing.kept_lengths(length_a, length_b, room, "longest", tf)
    cut_a, cut_b = length_a - kept_a, length_b - kept_b
    # The places of the kept tokens in the long rows: a jump after each segment.
    columns = tf.range(length)[tf.newaxis]
    columns += tf.where(columns > kept_a, cut_a, 0) + tf.where(
        columns > kept_a + 1 + kept_b, cut_b, 0
    )
    cut = {
        name: tf.gather(batch[name], columns, axis=1, batch_dims=1)
        for name in _OF_TOKENS
    }
    positions, weights = batch["masked_lm_positions"], batch["masked_lm_weights"]
    # Masked tokens are text, never [CLS] or [SEP].
    is_second = positions > length_a + 1
    is_kept = tf.where(
        is_second, positions <= length_a + 1 + kept_b, positions <= kept_a
    )
    kept_positions = tf.where(is_kept, positions - tf.where(is_second, cut_a, 0), 0)
    kept_weights = tf.where(is_kept, weights, 0.0)
    return {
        **batch,
        **cut,
        "masked_lm_positions": kept_positions,
        "masked_lm_ids": tf.where(is_kept, batch["masked_lm_ids"], 0),
        "masked_lm_weights": kept_weights,
        MASKED_TOKENS_CUT: tf.reduce_sum(weights - kept_weights, axis=1),
    }
