"""Losses as values and their weights, so that any split of a batch adds up.

A loss over a global batch is sum(values * weights) / sum(weights), with both sums taken
over all replicas and all micro-batches, never a mean of means. Weights depend on the
batch alone, so that their sum is known before the forward pass.

Letters in shapes: B batch, S sequence, P predictions, K documents of a row,
V vocabulary, C options.
"""

import tensorflow as tf

from albert_tf.tasks.base import Tensors

# The sum of weights is 0 in a batch of padding rows; its loss is then 0, not NaN.
_SMALLEST_WEIGHT = 1e-5


def masked_lm(outputs: Tensors, batch: Tensors) -> tf.Tensor:
    """Cross-entropy of the masked tokens, unweighted.

    Args:
      outputs: `masked_lm_logits` float32 [B, P, V].
      batch: `masked_lm_ids` int32 [B, P].
    Returns:
      float32 [B, P].
    """
    return tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=batch["masked_lm_ids"], logits=outputs["masked_lm_logits"]
    )


def masked_lm_weights(batch: Tensors) -> tf.Tensor:
    """Weights of masked tokens, float32 [B, P]: 1, or 0 for padding of row or batch."""
    weights = tf.cast(batch["masked_lm_weights"], tf.float32)
    return weights * row_weights(batch)[:, tf.newaxis]


def sentence_order(outputs: Tensors, batch: Tensors) -> tf.Tensor:
    """Cross-entropy of the segments' order, unweighted.

    Args:
      outputs: `sentence_order_logits` float32 [B, 2]; of packed rows [B, K, 2].
      batch: `sentence_order_label` int32 [B], 0 in order, 1 swapped; of packed rows
        [B, K].
    Returns:
      float32 [B]; of packed rows [B, K].
    """
    return tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=batch["sentence_order_label"], logits=outputs["sentence_order_logits"]
    )


def sentence_order_weights(batch: Tensors) -> tf.Tensor:
    """Weights of pairs, as `row_weights`: float32 [B], or [B, K] of packed rows."""
    rows = row_weights(batch)
    if "sentence_order_weights" not in batch:
        return rows
    return tf.cast(batch["sentence_order_weights"], tf.float32) * rows[:, tf.newaxis]


def classification(outputs: Tensors, batch: Tensors) -> tf.Tensor:
    """Cross-entropy of the label, unweighted.

    Args:
      outputs: `logits` float32 [B, labels], or [B, C], one for each option.
      batch: `label_ids` int32 [B].
    Returns:
      float32 [B].
    """
    return tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=batch["label_ids"], logits=outputs["logits"]
    )


def regression(outputs: Tensors, batch: Tensors) -> tf.Tensor:
    """Squared error, unweighted.

    Args:
      outputs: `logits` float32 [B, 1].
      batch: `label_ids` float32 [B].
    Returns:
      float32 [B].
    """
    return tf.square(outputs["logits"][:, 0] - batch["label_ids"])


def tagging(outputs: Tensors, batch: Tensors) -> tf.Tensor:
    """Cross-entropy of the tags, unweighted; it means nothing where the weight is 0.

    Args:
      outputs: `logits` float32 [B, S, labels].
      batch: `tag_ids` int32 [B, S], 1 + the index of the label.
    Returns:
      float32 [B, S].
    """
    logits = outputs["logits"]
    labels = tf.clip_by_value(batch["tag_ids"] - 1, 0, logits.shape[-1] - 1)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)


def tagging_weights(batch: Tensors, num_labels: int) -> tf.Tensor:
    """1 for the first token of a word whose tag is known, else 0; float32 [B, S]."""
    tags = batch["tag_ids"]
    is_known = tf.cast((tags > 0) & (tags <= num_labels), tf.float32)
    return is_known * row_weights(batch)[:, tf.newaxis]


def row_weights(batch: Tensors) -> tf.Tensor:
    """1 for a row of the data set, 0 for one that pads the last batch; float32 [B]."""
    if "row_weight" in batch:
        return tf.cast(batch["row_weight"], tf.float32)
    return tf.ones(tf.shape(batch["input_ids"])[:1], tf.float32)


def weighted_mean(weighted_sum: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
    """`weighted_sum / weight`, or 0 where the weight is 0."""
    return weighted_sum / tf.maximum(weight, _SMALLEST_WEIGHT)
