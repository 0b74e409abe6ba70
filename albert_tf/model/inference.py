"""The forward pass without training, on rows of tokens, in operations that TensorFlow
fuses. `AlbertEncoder` takes it unless it trains.

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

from albert_tf.model import local_attention
from albert_tf.model.local_attention import Window
from albert_tf.model.token_rows import TokenRows

# The activations whose inference form is another than that of training.
FUSED_ACTIVATIONS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "gelu": partial(tf.nn.gelu, approximate=True),
}


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


def attend_rows(
    joined: tf.Tensor, tokens: TokenRows, heads: int, window: Window | None = None
) -> tf.Tensor:
    """Computes softmax attention of every head, each sequence on its own.

    Args:
      joined: [T, 3 * N * D], query, key and value next to each other.
      tokens: where the tokens stand.
      heads: N.
      window: what a token sees; None: all.
    Returns:
      [T, N * D].
    """
    width = joined.shape[1] // 3
    shape = tf.concat([tf.shape(tokens.rows), [3, heads, width // heads]], axis=0)
    parts = tf.reshape(tokens.spread(joined), shape)
    query, key, value = tf.unstack(tf.transpose(parts, [2, 0, 3, 1, 4]), num=3)
    scale = (width // heads) ** -0.5

    def whole() -> tf.Tensor:
        logits = tf.matmul(query, key, transpose_b=True)
        logits = tf.cast(logits, tf.float32) * scale
        weights = tf.nn.softmax(logits + tokens.mask_logits)
        return tf.matmul(tf.cast(weights, value.dtype), value)

    if window is None:
        context = whole()
    else:
        parts = (query * scale, key, value)
        context = local_attention.attend(
            parts, tokens.mask_logits, window, tf.identity, whole=whole
        )
    context = tf.reshape(tf.transpose(context, [0, 2, 1, 3]), [-1, width])
    return tokens.collect(context)
