"""`packing.py` inside a TensorFlow graph: ragged ids -> a padded batch."""

import tensorflow as tf

from albert_tf.text import packing


def pack(
    ids_a: tf.RaggedTensor,
    ids_b: tf.RaggedTensor | None,
    max_seq_length: int,
    *,
    cls_id: int,
    sep_id: int,
    shorten: str = "longest",
) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """Packs texts or pairs as fine-tuning's rows are, as short as the batch allows.

    Args:
      ids_a: int32 ragged [B, (pieces)], the first segments.
      ids_b: the same of the second segments; None: there are none.
      max_seq_length: pieces in a row at most, special ones included.
      cls_id, sep_id: the vocabulary's special ids.
      shorten: which segment of a pair loses pieces where it is too long: "longest", as
        `packing.truncate_longest_first`, "first" or "second".
    Returns:
      `input_ids`, `input_mask` and `segment_ids`, int32 [B, S], S the longest row; and
      bool [B], whether a row lost pieces.
    """
    lengths_a = ids_a.row_lengths()
    if ids_b is None:
        room = max_seq_length - packing.SPECIAL_TOKENS_OF_SINGLE
        kept_a = tf.minimum(lengths_a, room)
        cut = kept_a < lengths_a
    else:
        lengths_b = ids_b.row_lengths()
        room = max_seq_length - packing.SPECIAL_TOKENS_OF_PAIR
        kept_a, kept_b = _kept(lengths_a, lengths_b, room, shorten)
        cut = (kept_a < lengths_a) | (kept_b < lengths_b)
    rows = ids_a.nrows()
    cls, sep = (tf.fill([rows, 1], tf.constant(i, tf.int32)) for i in (cls_id, sep_id))
    parts = [cls, _first(ids_a, kept_a), sep]
    if ids_b is not None:
        parts += [_first(ids_b, kept_b), sep]
    packed = tf.concat(parts, axis=1)
    input_ids = packed.to_tensor()
    columns = tf.range(tf.shape(input_ids)[1], dtype=tf.int64)
    mask = tf.sequence_mask(packed.row_lengths(), tf.shape(input_ids)[1], tf.int32)
    segments = tf.cast(columns > kept_a[:, tf.newaxis] + 1, tf.int32) * mask
    batch = {"input_ids": input_ids, "input_mask": mask, "segment_ids": segments}
    return batch, cut


def _kept(lengths_a, lengths_b, room, shorten):
    """How many pieces each segment keeps of `room`."""
    if shorten == "first":
        kept_b = tf.minimum(lengths_b, room)
        return tf.minimum(lengths_a, room - kept_b), kept_b
    if shorten == "second":
        kept_a = tf.minimum(lengths_a, room)
        return kept_a, tf.minimum(lengths_b, room - kept_a)
    smaller_half, larger_half = room // 2, room - room // 2
    kept_a = tf.minimum(lengths_a, tf.maximum(room - lengths_b, larger_half))
    kept_b = tf.minimum(lengths_b, tf.maximum(room - lengths_a, smaller_half))
    return kept_a, kept_b


def _first(ids: tf.RaggedTensor, kept: tf.Tensor) -> tf.RaggedTensor:
    """The first `kept[i]` of each row."""
    return tf.gather(ids, tf.ragged.range(kept), batch_dims=1)
