"""Packs ragged token ids into a padded batch: `packing.py` in a TensorFlow graph.

tensorflow-text joins and pads the segments. Its `ShrinkLongestTrimmer` would give the
same lengths (with the segments in reverse), but it removes one token per iteration of a
loop, which takes 0.1 s for a segment of 2,000 tokens and 1 s for 20,000;
`packing.kept_lengths` computes them at once.
"""

import tensorflow as tf
import tensorflow_text as tf_text

from albert_tf.text import packing


def pack(
    ids_a: tf.RaggedTensor,
    ids_b: tf.RaggedTensor | None,
    max_seq_length: int,
    *,
    cls_id: int,
    sep_id: int,
    shorten: packing.Shorten = "longest",
) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """Packs texts or pairs as fine-tuning rows, padded to the longest of them.

    Args:
      ids_a: int32 ragged [B, (tokens)], the first segments.
      ids_b: the same of the second segments; None: there are none.
      max_seq_length: upper bound on the tokens in a row, special tokens included.
      cls_id, sep_id: the vocabulary's special ids.
      shorten: the segment of a pair that loses tokens if the pair is too long; see
        `packing.kept_lengths`.
    Returns:
      `input_ids`, `input_mask` and `segment_ids`, int32 [B, S], S the longest row; and
      bool [B], true for rows that lost tokens.
    """
    if ids_b is None:
        segments = [ids_a]
        room = max_seq_length - packing.SPECIAL_TOKENS_OF_SINGLE
        kept = [tf.minimum(ids_a.row_lengths(), room)]
    else:
        segments = [ids_a, ids_b]
        room = max_seq_length - packing.SPECIAL_TOKENS_OF_PAIR
        lengths = ids_a.row_lengths(), ids_b.row_lengths()
        kept = list(packing.kept_lengths(*lengths, room, shorten, tf))
    truncated = tf.reduce_any(
        [k < ids.row_lengths() for k, ids in zip(kept, segments, strict=True)], axis=0
    )
    segments = [
        tf.gather(ids, tf.ragged.range(k), batch_dims=1)
        for k, ids in zip(kept, segments, strict=True)
    ]
    input_ids, segment_ids = tf_text.combine_segments(
        segments, start_of_sequence_id=cls_id, end_of_segment_id=sep_id
    )
    # One column at least: an empty batch has no longest row.
    longest = tf.maximum(input_ids.bounding_shape(axis=1), 1)
    input_ids, input_mask = tf_text.pad_model_inputs(input_ids, longest)
    segment_ids, _ = tf_text.pad_model_inputs(segment_ids, longest)
    batch = {
        "input_ids": input_ids,
        "input_mask": input_mask,
        "segment_ids": segment_ids,
    }
    return batch, truncated
