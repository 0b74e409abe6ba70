"""The forward pass without training: tokens without padding, in operations that
TensorFlow fuses.

`AlbertEncoder` takes it unless it trains. Hidden states are a matrix with a row for
each token, [T, H], so that projections, activations and layer normalizations compute
nothing for padding. Only attention needs the sequences, [B, S].

When TensorFlow optimizes a graph for a CPU, it replaces groups of operations by one:
here a product with its bias and the activation or residual after it. It does so for
`tf.function`s and SavedModels, not for models that are called eagerly, and only for
exactly these groups: `tests/model/test_inference.py` counts what is fused.

It can make one operation of a layer normalization as well (`_MklLayerNorm`), from
`FusedBatchNormV3`. This is avoided: in TensorFlow 2.20 that operation corrupts memory
when several requests run at the same time, and saved no time that could be measured.

Letters in shapes: B batch, S sequence, T tokens of all sequences, N heads, D width of a
head.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import tensorflow as tf

# The activations whose inference form is another than that of training.
FUSED_ACTIVATIONS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "gelu": partial(tf.nn.gelu, approximate=True),
}


class TokenRows(NamedTuple):
    """The places of a batch's tokens in a matrix that has a row for each.

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
        """Finds the tokens of a mask [B, S], of any dtype, that is above 0 for them."""
        is_first = tf.range(tf.shape(input_mask)[1]) == 0
        has_row = tf.reshape((tf.cast(input_mask, tf.float32) > 0) | is_first, [-1])
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


class JoinedProjection(NamedTuple):
    """Several projections of one input as a single product.

    Attributes:
      kernel: [in, sum of the outputs].
      bias: [sum of the outputs].
    """

    kernel: tf.Tensor
    bias: tf.Tensor

    def __call__(self, rows: tf.Tensor) -> tf.Tensor:
        """[T, in] -> [T, sum of the outputs]."""
        return tf.nn.bias_add(tf.matmul(rows, self.kernel), self.bias)


def attend_rows(joined: tf.Tensor, tokens: TokenRows, heads: int) -> tf.Tensor:
    """Computes softmax attention of every head, each sequence on its own.

    Args:
      joined: [T, 3 * N * D], query, key and value next to each other.
      tokens: where the tokens stand.
      heads: N.
    Returns:
      [T, N * D].
    """
    width = joined.shape[1] // 3
    shape = tf.concat([tf.shape(tokens.rows), [3, heads, width // heads]], axis=0)
    parts = tf.reshape(tokens.spread(joined), shape)
    query, key, value = tf.unstack(tf.transpose(parts, [2, 0, 3, 1, 4]), num=3)
    logits = tf.matmul(query, key, transpose_b=True)
    logits = tf.cast(logits, tf.float32) * (width // heads) ** -0.5
    weights = tf.nn.softmax(logits + tokens.mask_logits)
    context = tf.matmul(tf.cast(weights, value.dtype), value)
    context = tf.reshape(tf.transpose(context, [0, 2, 1, 3]), [-1, width])
    return tokens.collect(context)
