"""Scores as values and weights, as `losses.py` has them.

Letters in shapes: B batch, C options, P predictions, V vocabulary.
"""

import tensorflow as tf


def masked_lm_correct(outputs, batch):
    """1 where the best piece is the masked one, else 0; float32 [B, P].

    Args:
      outputs: `masked_lm_logits` float32 [B, P, V].
      batch: `masked_lm_ids` int32 [B, P].
    """
    best = tf.argmax(outputs["masked_lm_logits"], axis=-1, output_type=tf.int32)
    return tf.cast(best == batch["masked_lm_ids"], tf.float32)


def sentence_order_correct(outputs, batch):
    """1 where the order is told rightly, else 0; float32 [B].

    Args:
      outputs: `sentence_order_logits` float32 [B, 2].
      batch: `sentence_order_label` int32 [B].
    """
    best = tf.argmax(outputs["sentence_order_logits"], axis=-1, output_type=tf.int32)
    return tf.cast(best == batch["sentence_order_label"], tf.float32)


def choice_correct(outputs, batch):
    """1 where the best option is the right one, else 0; float32 [B].

    Args:
      outputs: `choice_logits` float32 [B, C].
      batch: `label` int32 [B].
    """
    best = tf.argmax(outputs["choice_logits"], axis=-1, output_type=tf.int32)
    return tf.cast(best == batch["label"], tf.float32)
