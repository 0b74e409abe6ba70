"""Losses as values and their weights, so that any split of a batch adds up.

A loss over a global batch is sum(values * weights) / sum(weights), with both sums taken
over all replicas and all micro-batches, never a mean of means. Weights depend on the
batch alone, so that their sum is known before the forward pass.

Letters in shapes: B batch, P predictions, V vocabulary.
"""

import tensorflow as tf

# A batch of padding rows alone has no weight; its loss is 0 then, not NaN.
_SMALLEST_WEIGHT = 1e-5


def masked_lm(outputs, batch):
    """Cross-entropy of the masked pieces, unweighted.

    Args:
      outputs: `masked_lm_logits` float32 [B, P, V].
      batch: `masked_lm_ids` int32 [B, P].
    Returns:
      float32 [B, P].
    """
    return tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=batch["masked_lm_ids"], logits=outputs["masked_lm_logits"]
    )


def masked_lm_weights(batch):
    """Weights of masked pieces, float32 [B, P]: 1, or 0 for what pads row or batch."""
    weights = tf.cast(batch["masked_lm_weights"], tf.float32)
    return weights * row_weights(batch)[:, tf.newaxis]


def sentence_order(outputs, batch):
    """Cross-entropy of the segments' order, unweighted.

    Args:
      outputs: `sentence_order_logits` float32 [B, 2].
      batch: `sentence_order_label` int32 [B], 0 in order, 1 swapped.
    Returns:
      float32 [B].
    """
    return tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=batch["sentence_order_label"], logits=outputs["sentence_order_logits"]
    )


def classification(outputs, batch):
    """Cross-entropy of the label, unweighted.

    Args:
      outputs: `logits` float32 [B, labels], or [B, C], a score an option.
      batch: `label_ids` int32 [B].
    Returns:
      float32 [B].
    """
    return tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=batch["label_ids"], logits=outputs["logits"]
    )


def regression(outputs, batch):
    """Squared error, unweighted.

    Args:
      outputs: `logits` float32 [B, 1].
      batch: `label_ids` float32 [B].
    Returns:
      float32 [B].
    """
    return tf.square(outputs["logits"][:, 0] - batch["label_ids"])


def row_weights(batch):
    """1 for a row of the data set, 0 for one that pads the last batch; float32 [B]."""
    if "row_weight" in batch:
        return tf.cast(batch["row_weight"], tf.float32)
    return tf.ones(tf.shape(batch["input_ids"])[:1], tf.float32)


def weighted_mean(weighted_sum, weight):
    """`weighted_sum / weight`, 0 where nothing has weight."""
    return weighted_sum / tf.maximum(weight, _SMALLEST_WEIGHT)
