"""The forward pass without training: tokens without padding, in operations that
TensorFlow fuses.

`AlbertEncoder` takes it unless it trains. Hidden states are a matrix with a row for
each token, [T, H], so that projections, activations and layer normalizations compute
nothing for padding. Only attention needs the sequences, [B, S].

When TensorFlow optimizes a graph for a CPU, it replaces groups of operations by one:
here a product with its bias, activation or residual, and a layer normalization. It
does so for `tf.function`s and SavedModels, not for models that are called eagerly, and
only for exactly these groups: `tests/model/test_inference.py` counts what is fused.

Letters in shapes: B batch, S sequence, T tokens of all sequences, N heads, D width of a
head.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import tensorflow as tf

from albert_tf.model.kernels import LAYER_NORM_EPSILON

# The activations whose inference form is another than that of training.
FUSED_ACTIVATIONS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "gelu": partial(tf.nn.gelu, approximate=True),
}


class TokenRows(NamedTuple):
    """Where the tokens of a batch stand in a matrix that has a row for each.

    The first token of a sequence always has a row, even if its mask is 0, since the
    pooled output is computed from it.

    Attributes:
      positions: int32 [T], places of the tokens in the flattened batch, increasing.
      rows: int32 [B, S], the row of each token. Padding has the row of the last token
        before it, so that what is read there belongs to the same sequence.
      mask_logits: float32 [B, 1, 1, S], as attention adds them.
    """

    positions: tf.Tensor
    rows: tf.Tensor
    mask_logits: tf.Tensor

    @classmethod
    def of(cls, input_mask: tf.Tensor, mask_logits: tf.Tensor) -> "TokenRows":
        """Finds the tokens of a mask, int32 [B, S], that is 1 for them."""
        is_first = tf.range(tf.shape(input_mask)[1]) == 0
        has_row = tf.reshape((input_mask > 0) | is_first, [-1])
        positions = tf.cast(tf.where(has_row)[:, 0], tf.int32)
        rows = tf.cumsum(tf.cast(has_row, tf.int32)) - 1
        return cls(positions, tf.reshape(rows, tf.shape(input_mask)), mask_logits)

    def collect(self, values: tf.Tensor) -> tf.Tensor:
        """[B * S, ...] -> [T, ...]."""
        return tf.gather(values, self.positions)

    def spread(self, values: tf.Tensor) -> tf.Tensor:
        """[T, ...] -> [B, S, ...]; at padding there is the value of a token."""
        return tf.gather(values, self.rows)

    def pad(self, values: tf.Tensor) -> tf.Tensor:
        """[T, size] -> [B, S, size], 0 at padding."""
        shape = tf.shape(self.rows)
        flat = tf.scatter_nd(
            self.positions[:, tf.newaxis],
            values,
            [shape[0] * shape[1], values.shape[1]],
        )
        padded = tf.reshape(flat, tf.concat([shape, [values.shape[1]]], axis=0))
        return tf.ensure_shape(padded, [*self.rows.shape, values.shape[1]])


def normalize_rows(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> tf.Tensor:
    """Normalizes each row of a matrix; `kernels.layer_norm` is the form that trains.

    A batch normalization whose channels are the rows. The number of rows is taken from
    `x` itself, and is not known before the graph runs: otherwise TensorFlow simplifies
    the operations first, and then does not recognize them.

    Args:
      x: float [T, size].
      gamma: float32 [size].
      beta: float32 [size].
    Returns:
      [T, size], of the dtype of `x`. The statistics are float32.
    """
    count = tf.shape(x)[0]
    none = tf.constant([], tf.float32)
    normal = tf.raw_ops.FusedBatchNormV3(
        x=tf.reshape(x, [1, count, x.shape[1], 1]),
        scale=tf.fill([count], 1.0),
        offset=tf.fill([count], 0.0),
        mean=none,
        variance=none,
        epsilon=LAYER_NORM_EPSILON,
        is_training=True,
        data_format="NCHW",
    )[0]
    normal = tf.reshape(normal, tf.shape(x))
    return normal * tf.cast(gamma, x.dtype) + tf.cast(beta, x.dtype)


def attend_rows(
    query: tf.Tensor, key: tf.Tensor, value: tf.Tensor, tokens: TokenRows, heads: int
) -> tf.Tensor:
    """Computes softmax attention of every head, each sequence on its own.

    Args:
      query: [T, N * D].
      key: [T, N * D].
      value: [T, N * D].
      tokens: where the tokens stand.
      heads: N.
    Returns:
      [T, N * D].
    """
    width = query.shape[1]

    def split(values: tf.Tensor) -> tf.Tensor:
        shape = tf.concat([tf.shape(tokens.rows), [heads, width // heads]], axis=0)
        values = tf.reshape(tokens.spread(values), shape)
        return tf.transpose(values, [0, 2, 1, 3])

    logits = tf.matmul(split(query), split(key), transpose_b=True)
    logits = tf.cast(logits, tf.float32) * (width // heads) ** -0.5
    weights = tf.nn.softmax(logits + tokens.mask_logits)
    context = tf.matmul(tf.cast(weights, value.dtype), split(value))
    context = tf.reshape(tf.transpose(context, [0, 2, 1, 3]), [-1, width])
    return tokens.collect(context)
