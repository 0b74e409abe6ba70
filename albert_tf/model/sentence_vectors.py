"""Vectors of texts from the encoder's outputs, and the model that trains them.

Letters in shapes: B batch, C texts of an example, S sequence, H hidden.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tf_keras

from albert_tf.config import AlbertConfig
from albert_tf.model.dropout import resolve_seed
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.heads import EncoderWithHeads, flatten_rows


def mean_of_tokens(sequence_output: tf.Tensor, input_mask: tf.Tensor) -> tf.Tensor:
    """The mean of a row's tokens, special tokens included.

    Args:
      sequence_output: [B, S, H].
      input_mask: int32 [B, S], 1 for a token and 0 for padding.
    Returns:
      float32 [B, H]; 0 for a row of padding.
    """
    mask = tf.cast(input_mask, tf.float32)[..., tf.newaxis]
    counts = tf.maximum(tf.reduce_sum(mask, axis=1), 1.0)
    return tf.reduce_sum(tf.cast(sequence_output, tf.float32) * mask, axis=1) / counts


def layer_output(
    encoder: AlbertEncoder, encoded: Mapping[str, Any], layer: int
) -> tf.Tensor:
    """The output of a layer.

    Args:
      encoder: the encoder.
      encoded: its outputs.
      layer: 1 to L, the number of layers; 0: the embeddings, projected to H; negative
        ones count from the last, -1.
    Returns:
      [B, S, H].
    Raises:
      ValueError: there is no such layer.
    """
    layers = encoder.config.num_hidden_layers
    place = layer + layers + 1 if layer < 0 else layer
    if not 0 <= place <= layers:
        raise ValueError(
            f"The model has the layers 0 (embeddings) to {layers}, or -1 to "
            f"{-layers - 1} from the last. Received {layer}."
        )
    if place == 0:
        embedded = tf.cast(encoded["embedding_output"], encoder.compute_dtype)
        projection = encoder.embedding_projection
        return embedded if projection is None else projection(embedded)
    blocks = encoded["encoder_outputs"]
    return blocks[place * len(blocks) // layers - 1]


def pool(
    encoder: AlbertEncoder,
    encoded: Mapping[str, Any],
    input_mask: tf.Tensor,
    pooling: str,
    layer: int = -1,
) -> tf.Tensor:
    """Makes one vector of each row.

    Args:
      encoder: the encoder.
      encoded: its outputs.
      input_mask: int32 [B, S].
      pooling: one of `task_config.POOLINGS`: "mean" of all tokens, special ones
        included; "first" token; or "pooled", the encoder's pooled output, of which
        there is one of the last layer alone.
      layer: as of `layer_output`.
    Returns:
      float32 [B, H].
    """
    if pooling == "pooled":
        if layer not in (-1, encoder.config.num_hidden_layers):
            raise ValueError(
                f"Only the last layer has a pooled output. Received layer {layer}: "
                "choose another pooling."
            )
        return tf.cast(encoded["pooled_output"], tf.float32)
    output = layer_output(encoder, encoded, layer)
    if pooling == "first":
        return tf.cast(output[:, 0], tf.float32)
    return mean_of_tokens(output, input_mask)


@tf_keras.utils.register_keras_serializable(package="albert_tf")
class EmbeddingModel(EncoderWithHeads):
    """The encoder with a vector for each text; it has no variables besides."""

    def __init__(
        self,
        config: AlbertConfig | Mapping[str, Any],
        *,
        pooling: str = "mean",
        normalize: bool = True,
        **kwargs,
    ):
        """Makes all variables.

        Args:
          config: as in `AlbertEncoder`.
          pooling: as of `pool`.
          normalize: whether vectors have the length 1.
          **kwargs: `seed` and `rematerialize`, as in `AlbertEncoder`.
        """
        super().__init__(config, **kwargs)
        self._pooling, self._normalize = pooling, normalize
        if pooling != "pooled":
            self.encoder.freeze_pooler()

    def call(
        self,
        inputs: Mapping[str, tf.Tensor],
        training: bool | None = False,
        dropout_seed: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """Computes the vectors of a batch.

        Args:
          inputs: dict of int32 [B, S], or [B, C, S]: `input_ids`, `input_mask`,
            `segment_ids`.
          training: True to apply dropout.
          dropout_seed: as in the encoder.
        Returns:
          dict of `vectors` float32 [B, H], or [B, C, H].
        """
        seed = resolve_seed(training, dropout_seed)
        ids = inputs["input_ids"]
        flat = flatten_rows(inputs) if ids.shape.rank == 3 else inputs
        encoded = self.encoder(flat, training=training, dropout_seed=seed)
        vectors = pool(self.encoder, encoded, flat["input_mask"], self._pooling)
        if self._normalize:
            vectors = tf.math.l2_normalize(vectors, axis=-1)
        if ids.shape.rank == 3:
            rows = tf.shape(ids)[:2]
            size = vectors.shape[-1]
            vectors = tf.reshape(vectors, tf.concat([rows, [size]], axis=0))
            vectors = tf.ensure_shape(vectors, [*ids.shape[:2], size])
        return {"vectors": vectors}

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments as JSON values."""
        return {
            **super().get_config(),
            "pooling": self._pooling,
            "normalize": self._normalize,
        }
