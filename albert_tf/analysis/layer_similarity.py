"""The similarity of each layer's input and output: the paper's Figure 1.

Letters in shapes: B batch, S sequence, H hidden, L layers.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.model.encoder import AlbertEncoder


class LayerSimilarity(NamedTuple):
    """Means over the tokens of a text, for each layer; float64 [L].

    Attributes:
      l2_distance: Euclidean distance of a layer's output from its input.
      cosine_degrees: angle between the two, in degrees; 0: same direction.
    """

    l2_distance: np.ndarray
    cosine_degrees: np.ndarray


def layer_similarity(
    encoder: AlbertEncoder, batches: Iterable[Mapping[str, np.ndarray]]
) -> LayerSimilarity:
    """Compares input and output of every layer; padding does not count.

    The first layer's input is the output of the embeddings, projected to H.

    Args:
      encoder: an encoder with its weights.
      batches: dicts of `input_ids`, `input_mask` and `segment_ids`, int32 [B, S].
    Raises:
      ValueError: the batches have no token.
    """
    measure = tf.function(
        lambda batch: _sums(encoder, batch), reduce_retracing=True, autograph=False
    )
    total, tokens = np.zeros([2, encoder.config.num_hidden_layers]), 0
    for batch in batches:
        tensors = {name: tf.constant(value, tf.int32) for name, value in batch.items()}
        total += measure(tensors).numpy()
        tokens += int(np.sum(batch["input_mask"]))
    if not tokens:
        raise ValueError("The text holds no token to measure: give more of it.")
    return LayerSimilarity(*(total / tokens))


def _sums(encoder: AlbertEncoder, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """Sums of distances and degrees over visible tokens, float32 [2, L]."""
    outputs = encoder(batch)
    hidden = outputs["embedding_output"]
    if encoder.embedding_projection is not None:
        hidden = encoder.embedding_projection(hidden)
    inner = encoder.config.inner_group_num
    visible = tf.cast(batch["input_mask"], tf.float32)
    distances, degrees = [], []
    for output in outputs["encoder_outputs"][inner - 1 :: inner]:
        distances.append(tf.reduce_sum(tf.norm(output - hidden, axis=-1) * visible))
        degrees.append(tf.reduce_sum(_angle(hidden, output) * visible))
        hidden = output
    return tf.stack([distances, degrees])


def _angle(one: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
    """Degrees between vectors [B, S, H] -> [B, S]; exact for small angles, too."""
    one, other = tf.nn.l2_normalize(one, -1), tf.nn.l2_normalize(other, -1)
    radians = 2.0 * tf.atan2(
        tf.norm(one - other, axis=-1), tf.norm(one + other, axis=-1)
    )
    return radians * (180.0 / np.pi)
