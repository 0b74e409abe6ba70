"""Classifiers and regressions as they are served.

Letters in shapes: B rows, L labels.
"""

from typing import final

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.serving.base import Answers, ServedRows, Signature, Tensors
from albert_tf.task_config import Classification, Regression
from albert_tf.text.tokenizer import AlbertTokenizer


@final
class ServedClassifier(ServedRows):
    """Labels of texts or of pairs of texts.

    The outputs are `probabilities` float32 [B, L], `labels` string [B, L], their names,
    and `label` string [B], the likeliest one. With a threshold there is `threshold`
    float32 [B], for clients to compare a probability with.
    """

    def __init__(
        self,
        model: tf.Module,
        config: AlbertConfig,
        task_config: Classification,
        tokenizer: AlbertTokenizer | None = None,
    ):
        """Serves a classifier.

        Args:
          model: classifier.
          config: its configuration.
          task_config: its labels, columns, length and threshold.
          tokenizer: as `ServedModel`.
        """
        super().__init__(model, config, task_config.max_seq_length, tokenizer)
        self.task_config = task_config
        self.use_windows(task_config)

    def answer(self, batch: Tensors) -> Answers:
        """Computes probabilities and the likeliest label."""
        logits = self.model(batch, training=False)["logits"]
        probabilities = tf.nn.softmax(logits)
        names = tf.constant(self.task_config.labels)
        rows = tf.shape(probabilities)[0]
        answers = {
            "probabilities": probabilities,
            "labels": tf.tile(names[tf.newaxis], [rows, 1]),
            "label": tf.gather(names, tf.argmax(probabilities, axis=-1)),
        }
        threshold = self.task_config.threshold
        if threshold is not None:
            answers["threshold"] = tf.fill([rows], float(threshold))
        return answers

    def text_signature(self) -> Signature:
        """Makes the signature of texts, or of pairs."""
        return self.texts_signature(self.task_config.has_text_pair)


@final
class ServedRegression(ServedRows):
    """Numbers for texts or for pairs of texts: the output `values`, float32 [B]."""

    def __init__(
        self,
        model: tf.Module,
        config: AlbertConfig,
        task_config: Regression,
        tokenizer: AlbertTokenizer | None = None,
    ):
        """Serves a regression.

        Args:
          model: regression.
          config: its configuration.
          task_config: its columns and length.
          tokenizer: as `ServedModel`.
        """
        super().__init__(model, config, task_config.max_seq_length, tokenizer)
        self.task_config = task_config
        self.use_windows(task_config)

    def answer(self, batch: Tensors) -> Answers:
        """Computes the numbers."""
        return {"values": self.model(batch, training=False)["logits"][:, 0]}

    def text_signature(self) -> Signature:
        """Makes the signature of texts, or of pairs."""
        return self.texts_signature(self.task_config.has_text_pair)
