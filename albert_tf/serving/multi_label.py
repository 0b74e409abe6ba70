"""Models of several labels a text as they are served.

Letters in shapes: B rows, L labels.
"""

from typing import final

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.serving.base import Answers, ServedRows, Signature, Tensors
from albert_tf.task_config import MultiLabel
from albert_tf.text.tokenizer import AlbertTokenizer


@final
class ServedMultiLabel(ServedRows):
    """Any number of labels for texts or for pairs of texts.

    The outputs are `probabilities` float32 [B, L], each on its own, `thresholds`
    float32 [B, L], `is_label` bool [B, L], true for probabilities that reach their
    thresholds, and `labels` string [B, L], their names.
    """

    def __init__(
        self,
        model: tf.Module,
        config: AlbertConfig,
        task_config: MultiLabel,
        tokenizer: AlbertTokenizer | None = None,
    ):
        """Serves a model.

        Args:
          model: classifier with an output for each label.
          config: its configuration.
          task_config: its labels, thresholds, columns and length.
          tokenizer: as `ServedModel`.
        """
        super().__init__(model, config, task_config.max_seq_length, tokenizer)
        self.task_config = task_config
        self.use_windows(task_config)

    def answer(self, batch: Tensors) -> Answers:
        """Computes probabilities and which labels they stand for."""
        logits = self.model(batch, training=False)["logits"]
        probabilities = tf.sigmoid(logits)
        rows = [tf.shape(probabilities)[0], 1]
        thresholds = tf.constant([self.task_config.all_thresholds], tf.float32)
        thresholds = tf.tile(thresholds, rows)
        return {
            "probabilities": probabilities,
            "thresholds": thresholds,
            "is_label": probabilities >= thresholds,
            "labels": tf.tile(tf.constant([self.task_config.labels]), rows),
        }

    def text_signature(self) -> Signature:
        """Makes the signature of texts, or of pairs."""
        return self.texts_signature(self.task_config.has_text_pair)
