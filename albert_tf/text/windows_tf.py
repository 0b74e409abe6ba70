"""Windows of long texts in a TensorFlow graph: those of `windows.py`.

Letters in shapes: B texts, W windows, S tokens.
"""

import tensorflow as tf

from albert_tf.text import packing_tf
from albert_tf.text.windows import WindowRule


def pack_windows(
    first: tf.RaggedTensor,
    second: tf.RaggedTensor | None,
    rule: WindowRule,
    *,
    cls_id: int,
    sep_id: int,
) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """Packs texts or pairs as rows of windows, padded to the longest of them.

    Args:
      first: int32 ragged [B, (tokens)], the first texts.
      second: the same of the second texts; None: there are none.
      rule: how texts are cut.
      cls_id, sep_id: the vocabulary's special ids.
    Returns:
      `input_ids`, `input_mask` and `segment_ids`, int32 [B, W, S], W the most windows
      of a text; the mask of windows that a text does not have is 0 throughout. And bool
      [B], true for texts that lost tokens.
    """
    is_pair = second is not None
    other = second if second is not None else first[:, :0]
    lengths = first.row_lengths(), other.row_lengths()
    cuts_first = lengths[0] >= lengths[1]
    longer = _choose(cuts_first, first, other)
    shorter = _choose(cuts_first, other, first)
    size, kept, step, count = rule.counts(
        longer.row_lengths(), shorter.row_lengths(), is_pair, tf
    )
    rows = tf.repeat(tf.range(tf.size(count)), count)
    starts = tf.ragged.range(count).values * tf.gather(step, rows)
    sizes = tf.gather(longer.row_lengths(), rows) - starts
    sizes = tf.minimum(sizes, tf.gather(size, rows))
    begin = tf.gather(longer.row_starts(), rows) + starts
    parts = tf.gather(longer.values, tf.ragged.range(begin, begin + sizes))
    whole = tf.gather(shorter, tf.ragged.range(kept), batch_dims=1)
    whole = tf.gather(whole, rows)
    segment_a, segment_b = parts, None
    if is_pair:
        of_rows = tf.gather(cuts_first, rows)
        segment_a = _choose(of_rows, parts, whole)
        segment_b = _choose(of_rows, whole, parts)
    flat, _ = packing_tf.pack(
        segment_a, segment_b, rule.max_seq_length, cls_id=cls_id, sep_id=sep_id
    )
    # One window at least, so that an empty batch has a first token.
    most = tf.maximum(tf.reduce_max(count), 1)
    batch = {
        name: tf.RaggedTensor.from_row_lengths(values, count).to_tensor(
            shape=tf.stack([-1, tf.cast(most, tf.int32), tf.shape(values)[1]])
        )
        for name, values in flat.items()
    }
    end = (count - 1) * step + size
    truncated = (end < longer.row_lengths()) | (kept < shorter.row_lengths())
    return batch, truncated


def _choose(
    condition: tf.Tensor, one: tf.RaggedTensor, other: tf.RaggedTensor
) -> tf.RaggedTensor:
    """Rows of `one` where a condition, bool [B], is true, else of `other`."""
    rows = tf.range(tf.size(condition))
    places = tf.where(condition, rows, rows + tf.size(condition))
    return tf.gather(tf.concat([one, other], axis=0), places)
