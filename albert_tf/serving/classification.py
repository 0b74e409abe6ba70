"""Classifiers and regressions as they are served.

Letters in shapes: B rows, L labels.
"""

from typing import Generic, TypeVar, final

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.serving.base import Answers, ServedRows, Signature, Tensors
from albert_tf.task_config import Classification, MultiLabel, Regression, TextTask
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.windows import WindowRule

# A task of rows of tables of texts.
_Task = TypeVar("_Task", bound=TextTask)


class ServedTexts(ServedRows, Generic[_Task]):
    """A model of texts or of pairs of texts; long ones may have windows."""

    def __init__(
        self,
        model: tf.Module,
        config: AlbertConfig,
        task_config: _Task,
        tokenizer: AlbertTokenizer | None = None,
    ):
        """Serves a model.

        Args:
          model: model of the task.
          config: its configuration.
          task_config: its labels, columns, length, windows and thresholds.
          tokenizer: as `ServedModel`.
        """
        super().__init__(model, config, task_config.max_seq_length, tokenizer)
        self.task_config: _Task = task_config
        if task_config.window_pooling is not None:
            self.window_rule = WindowRule(
                self.max_seq_length, task_config.doc_stride, task_config.max_windows
            )

    @final
    def text_signature(self) -> Signature:
        """Makes the signature of texts, or of pairs."""
        return self.texts_signature(self.task_config.has_text_pair)


@final
class ServedClassifier(ServedTexts[Classification]):
    """Labels of texts or of pairs of texts.

    The outputs are `probabilities` float32 [B, L], `labels` string [B, L], their names,
    and `label` string [B], the likeliest one. With a threshold there is `threshold`
    float32 [B], for clients to compare a probability with.
    """

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


@final
class ServedMultiLabel(ServedTexts[MultiLabel]):
    """Any number of labels for texts or for pairs of texts.

    The outputs are `probabilities` float32 [B, L], each on its own, `thresholds`
    float32 [B, L], `is_label` bool [B, L], true for probabilities that reach their
    thresholds, and `labels` string [B, L], their names.
    """

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


@final
class ServedRegression(ServedTexts[Regression]):
    """Numbers for texts or for pairs of texts: the output `values`, float32 [B]."""

    def answer(self, batch: Tensors) -> Answers:
        """Computes the numbers."""
        return {"values": self.model(batch, training=False)["logits"][:, 0]}
