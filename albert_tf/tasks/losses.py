"""Losses as values and their weights, so that any split of a batch adds up.

A loss over a global batch is sum(values * weights) / sum(weights), with both sums taken
over all replicas and all micro-batches, never a mean of means. Weights depend on the
batch alone, so that their sum is known before the forward pass.

Letters in shapes: B batch, S sequence, P predictions, K documents of a row,
V vocabulary, C options, L labels.
"""

import dataclasses
import functools
from collections.abc import Sequence

import tensorflow as tf

from albert_tf.tasks.base import Tensors, WeightedMean

# The sum of weights is 0 in a batch of padding rows; its loss is then 0, not NaN.
_SMALLEST_WEIGHT = 1e-5


@dataclasses.dataclass(frozen=True)
class ClassificationLoss:
    """The weighing of examples in the training of a classification, not in evaluation.

    Attributes:
      class_weights: weight of the examples of each label, in their order; of several
        labels a text, that of the texts which have the label. Empty: 1.
      label_smoothing: share of the target that is spread evenly over all labels
        (Szegedy et al. 2016); of several labels a text, over "has it" and "has not".
      focal_gamma: exponent of the focal loss (Lin et al. 2017), which multiplies the
        cross-entropy by (1 - probability of the truth) to this power; 0: none.
    """

    class_weights: Sequence[float] = ()
    label_smoothing: float = 0.0
    focal_gamma: float = 0.0

    def of_labels(self) -> WeightedMean:
        """The loss of one label an example, `classification` with these settings.

        The mean is weighted by `class_weights`.
        """
        if self == PLAIN:
            return WeightedMean(classification, row_weights)
        weights = row_weights
        if self.class_weights:
            weights = functools.partial(_class_weights, tuple(self.class_weights))
        return WeightedMean(self._classification, weights)

    def of_label_sets(self) -> WeightedMean:
        """The loss of several labels an example, `multi_label` with these settings.

        `class_weights` multiply the part of the labels that an example has, as
        `pos_weight` of `tf.nn.weighted_cross_entropy_with_logits` does.
        """
        if self == PLAIN:
            return WeightedMean(multi_label, row_weights)
        return WeightedMean(self._multi_label, row_weights)

    def _classification(self, outputs: Tensors, batch: Tensors) -> tf.Tensor:
        logits, labels = outputs["logits"], batch["label_ids"]
        logs = tf.nn.log_softmax(logits)
        truth = tf.gather(logs, labels, batch_dims=1)
        smoothing = self.label_smoothing
        values = -(1 - smoothing) * truth - smoothing * tf.reduce_mean(logs, axis=-1)
        return values * (1 - tf.exp(truth)) ** self.focal_gamma

    def _multi_label(self, outputs: Tensors, batch: Tensors) -> tf.Tensor:
        logits = outputs["logits"]
        labels = tf.cast(batch["label_ids"], logits.dtype)
        targets = labels * (1 - self.label_smoothing) + self.label_smoothing / 2
        positive = tf.constant(self.class_weights or 1.0, logits.dtype)
        values = tf.nn.weighted_cross_entropy_with_logits(targets, logits, positive)
        wrong = tf.sigmoid(tf.where(labels > 0, -logits, logits))
        return tf.reduce_sum(values * wrong**self.focal_gamma, axis=-1)


# Cross-entropy of examples that all weigh the same.
PLAIN = ClassificationLoss()


def _class_weights(weights: Sequence[float], batch: Tensors) -> tf.Tensor:
    """The weight of the label of each row of the data set, float32 [B]."""
    known = tf.constant(weights, tf.float32)
    return row_weights(batch) * tf.gather(known, batch["label_ids"])


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
      batch: `sentence_order_label` int32 [B], 0 in order, 1 swapped, -1 without a
        label; of packed rows [B, K].
    Returns:
      float32 [B]; of packed rows [B, K].
    """
    return tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=tf.maximum(batch["sentence_order_label"], 0),
        logits=outputs["sentence_order_logits"],
    )


def sentence_order_weights(batch: Tensors) -> tf.Tensor:
    """Weights of pairs, float32 [B], or [B, K] of packed rows: `row_weights`, and 0 for
    pairs without a label."""
    rows = row_weights(batch)
    labelled = tf.cast(batch["sentence_order_label"] >= 0, tf.float32)
    if "sentence_order_weights" not in batch:
        return rows * labelled
    weights = tf.cast(batch["sentence_order_weights"], tf.float32) * labelled
    return weights * rows[:, tf.newaxis]


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


def multi_label(outputs: Tensors, batch: Tensors) -> tf.Tensor:
    """Sum of the binary cross-entropies of all labels, unweighted.

    A sum, as the cross-entropy of one label is: the gradients of a mean over many
    labels are small beside the optimizer's epsilon, 1e-6, and nothing is learned.

    Args:
      outputs: `logits` float32 [B, L].
      batch: `label_ids` int32 [B, L], 1 for a label that the row has, else 0.
    Returns:
      float32 [B].
    """
    logits = outputs["logits"]
    labels = tf.cast(batch["label_ids"], logits.dtype)
    values = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
    return tf.reduce_sum(values, axis=-1)


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
