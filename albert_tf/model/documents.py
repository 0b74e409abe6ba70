"""Attention masks, and positions in rows that hold several documents.

Letters in shapes: B batch, S sequence.
"""

from collections.abc import Mapping

import tensorflow as tf

# Added to the logit of a hidden position, as in the original: large enough to vanish in
# the softmax, small enough that a row of padding alone gives no NaN.
MASKED_LOGIT = -10_000.0
# The optional input of packed rows.
DOCUMENT_IDS = "document_ids"


def mask_logits(
    input_mask: tf.Tensor, document_ids: tf.Tensor | None = None
) -> tf.Tensor:
    """The numbers that attention adds to its logits: 0 or `MASKED_LOGIT`.

    Args:
      input_mask: int32 [B, S], 0 for padding, which is hidden from all.
      document_ids: int32 [B, S]; tokens of other documents are hidden, too. None: a row
        is one document.
    Returns:
      float32 [B, 1, 1, S] or, with `document_ids`, [B, 1, S, S].
    """
    visible = tf.cast(input_mask, tf.float32)[:, tf.newaxis]
    if document_ids is not None:
        visible *= tf.cast(_in_one_document(document_ids), tf.float32)
    return (1.0 - visible[:, tf.newaxis]) * MASKED_LOGIT


def positions_in_documents(document_ids: tf.Tensor) -> tf.Tensor:
    """The place of each token in its document, from 0: int32 [B, S] -> int32 [B, S]."""
    before = tf.linalg.band_part(
        tf.cast(_in_one_document(document_ids), tf.int32), -1, 0
    )
    return tf.reduce_sum(before, axis=-1) - 1


def document_ids_of(inputs: Mapping[str, tf.Tensor]) -> tf.Tensor | None:
    """`document_ids` of inputs that have them, of the static shape of `input_ids`."""
    if DOCUMENT_IDS not in inputs:
        return None
    shape = tf.convert_to_tensor(inputs["input_ids"]).shape
    return tf.ensure_shape(inputs[DOCUMENT_IDS], shape)


def _in_one_document(document_ids: tf.Tensor) -> tf.Tensor:
    """bool [B, S, S]: True for two places of one document."""
    return document_ids[:, :, tf.newaxis] == document_ids[:, tf.newaxis, :]
