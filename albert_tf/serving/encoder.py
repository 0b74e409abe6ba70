"""The encoder as it is served: embeddings of texts and of their tokens."""

from typing import final

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.sentence_vectors import mean_of_tokens
from albert_tf.serving.base import Answers, ServedRows, Signature, Tensors


class EncoderModel(tf.Module):
    """The encoder with its outputs in float32, and the mean of a row's tokens."""

    def __init__(self, config: AlbertConfig, encoder: AlbertEncoder | None = None):
        """Takes an encoder, that of a task's model for instance; None: a new one."""
        super().__init__()
        self.encoder = encoder or AlbertEncoder(config, seed=0)

    def __call__(self, inputs: Tensors, training: bool = False) -> Answers:
        """Encodes a batch.

        Args:
          inputs: the encoder's batch.
          training: whether values are dropped.
        Returns:
          float32 `pooled_output` [B, H], `sequence_output` [B, S, H], and `mean_output`
          [B, H], the mean of a row's tokens, special tokens included.
        """
        encoded = self.encoder(inputs, training=training)
        sequence = tf.cast(encoded["sequence_output"], tf.float32)
        return {
            "pooled_output": tf.cast(encoded["pooled_output"], tf.float32),
            "sequence_output": sequence,
            "mean_output": mean_of_tokens(sequence, inputs["input_mask"]),
        }


@final
class ServedEncoder(ServedRows):
    """The outputs of `EncoderModel`; `text` takes single texts."""

    def answer(self, batch: Tensors) -> Answers:
        """Computes the embeddings."""
        return self.model(batch, training=False)

    def text_signature(self) -> Signature:
        """Makes the signature of texts."""
        return self.texts_signature(pair=False)
