"""Vectors of texts as they are served.

Letters in shapes: B rows, H hidden.
"""

from typing import final

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.serving.base import Answers, ServedRows, Signature, Tensors
from albert_tf.task_config import Embedding
from albert_tf.text.tokenizer import AlbertTokenizer


@final
class ServedEmbedding(ServedRows):
    """Vectors of single texts: the output `vectors`, float32 [B, H]."""

    def __init__(
        self,
        model: tf.Module,
        config: AlbertConfig,
        task_config: Embedding,
        tokenizer: AlbertTokenizer | None = None,
    ):
        """Serves a model.

        Args:
          model: `EmbeddingModel`.
          config: its configuration.
          task_config: its pooling and length.
          tokenizer: as `ServedModel`.
        """
        super().__init__(model, config, task_config.max_seq_length, tokenizer)
        self.task_config = task_config

    def answer(self, batch: Tensors) -> Answers:
        """Computes the vectors."""
        return self.model(batch, training=False)

    def text_signature(self) -> Signature:
        """Makes the signature of texts."""
        return self.texts_signature(pair=False)
