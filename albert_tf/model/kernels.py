"""The functions gelu, layer normalization and attention, with their gradients.

Letters in shapes: B batch, S sequence, N heads, D width of a head.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.model.recomputation import barrier, compiled_by_xla

LAYER_NORM_EPSILON = 1e-12
# sqrt(2 / pi), and that times 0.044715: the constants of gelu's tanh form.
_GELU_LINEAR = float(np.sqrt(2.0 / np.pi))
_GELU_CUBIC = 0.044715 * _GELU_LINEAR


@tf.custom_gradient
def gelu(x: tf.Tensor):
    """Computes the original's gelu, the tanh form, within 4e-4 of the exact form.

    Args:
      x: float tensor; computed in float32 whatever its dtype.
    Returns:
      Tensor of the same shape and dtype. The gradient keeps one tensor of that size:
      `x` under XLA, for which recomputing costs nothing, and otherwise the slope, since
      every single operation of TensorFlow reads and writes memory.
    """
    outputs, slope = _gelu_and_slope(x)
    if compiled_by_xla():
        return outputs, lambda upstream: upstream * _gelu_and_slope(x)[1]
    return outputs, lambda upstream: upstream * slope


def _gelu_and_slope(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    values = tf.cast(x, tf.float32)
    inner = _GELU_LINEAR + _GELU_CUBIC * tf.square(values)
    share = 0.5 * tf.tanh(values * inner) + 0.5
    outputs = values * share
    # The slope of `share` is 2 share (1 - share) times that of `values * inner`.
    slope = share + (outputs - outputs * share) * (6.0 * inner - 4.0 * _GELU_LINEAR)
    return tf.cast(outputs, x.dtype), tf.cast(slope, x.dtype)


@tf.custom_gradient
def layer_norm(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor):
    """Normalizes over the last axis, in float32.

    Args:
      x: float tensor [..., size].
      gamma: float32 [size].
      beta: float32 [size].
    Returns:
      [..., size], of the dtype of `x`. The gradient keeps `x` and two numbers of each
      row.
    """
    values = tf.cast(x, tf.float32)
    # Both moments in one pass, which XLA fuses with the product before it. Rounding may
    # make the difference negative in a constant row.
    mean = tf.reduce_mean(values, axis=-1, keepdims=True)
    mean_square = tf.reduce_mean(tf.square(values), axis=-1, keepdims=True)
    variance = tf.maximum(mean_square - tf.square(mean), 0.0)
    scale = tf.math.rsqrt(variance + LAYER_NORM_EPSILON)
    outputs = tf.cast((values - mean) * scale * gamma + beta, x.dtype)

    def gradient(upstream):
        return _layer_norm_gradient(x, mean, scale, gamma, upstream)

    return outputs, gradient


def _layer_norm_gradient(
    x: tf.Tensor,
    mean: tf.Tensor,
    scale: tf.Tensor,
    gamma: tf.Tensor,
    upstream: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    incoming = tf.cast(upstream, tf.float32)
    normal = (tf.cast(x, tf.float32) - mean) * scale
    inner = incoming * gamma
    along = tf.reduce_mean(inner * normal, axis=-1, keepdims=True)
    shift = tf.reduce_mean(inner, axis=-1, keepdims=True)
    x_gradient = tf.cast(scale * (inner - shift - normal * along), x.dtype)
    leading = list(range(x.shape.rank - 1))
    gamma_gradient = tf.reduce_sum(incoming * normal, axis=leading)
    return x_gradient, gamma_gradient, tf.reduce_sum(incoming, axis=leading)


def attend(
    query: tf.Tensor,
    key: tf.Tensor,
    value: tf.Tensor,
    mask_logits: tf.Tensor,
    drop: Callable[[tf.Tensor], tf.Tensor],
    recompute: bool = False,
) -> tf.Tensor:
    """Computes softmax attention of every head.

    The gradient is written out. That of softmax needs sum(probabilities * their
    gradient) of each row, which equals sum(context * its gradient), a pass over D
    numbers instead of S.

    Args:
      query: [B, S, N, D].
      key: [B, S, N, D].
      value: [B, S, N, D].
      mask_logits: float32 [B, 1, 1, S], added to the logits; gets no gradient.
      drop: float32 [B, N, S, S] -> the same with some zeroed, always the same ones.
      recompute: True if the backward pass computes the probabilities again, from query,
        key and one number of each row, instead of keeping them.
    Returns:
      [B, S, N, D].
    """
    parts, products = [query, key, value], _Products("BSND", "BTND")
    if not compiled_by_xla():
        # XLA multiplies along axes in any order. Without XLA `einsum` transposes for
        # each product, forward and backward; here it is done once.
        parts = [tf.transpose(part, [0, 2, 1, 3]) for part in parts]
        products = _Products("BNSD", "BNTD")
    scale = query.shape[-1] ** -0.5

    @tf.custom_gradient
    def forward(query, key, value):
        logits = products.pairs(query, key) * scale + mask_logits
        if recompute:
            total = tf.reduce_logsumexp(logits, axis=-1, keepdims=True)
            probabilities = tf.exp(logits - total)
        else:
            probabilities = tf.nn.softmax(logits)
        context = products.per_row(drop(probabilities), value)

        def gradient(upstream):
            kept = probabilities
            if recompute:
                pairs = products.pairs(*barrier(upstream, (query, key)))
                kept = tf.exp(pairs * scale + mask_logits - total)
            value_gradient = products.per_column(drop(kept), upstream)
            along = products.along(context, upstream)
            slope = (drop(products.pairs(upstream, value)) - along) * kept * scale
            query_gradient = products.per_row(slope, key)
            return query_gradient, products.per_column(slope, query), value_gradient

        return context, gradient

    context = forward(*parts)
    return tf.transpose(context, [0, 2, 1, 3]) if products.heads_first else context


class _Products(NamedTuple):
    """Products of attention between row positions S and column positions T.

    Attributes:
      rows: axes of a tensor of row positions, as query and context.
      columns: axes of a tensor of column positions, as key and value.
    """

    rows: str
    columns: str

    @property
    def heads_first(self) -> bool:
        """True if heads come before positions."""
        return self.rows == "BNSD"

    def pairs(self, rows: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
        """Product of each row with each column, float32 [B, N, S, T]."""
        pairs = tf.einsum(f"{self.rows},{self.columns}->BNST", rows, columns)
        return tf.cast(pairs, tf.float32)

    def per_row(self, pairs: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
        """Sum of the columns, weighted by pairs, for each row."""
        pairs = tf.cast(pairs, columns.dtype)
        return tf.einsum(f"BNST,{self.columns}->{self.rows}", pairs, columns)

    def per_column(self, pairs: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        """Sum of the rows, weighted by pairs, for each column."""
        pairs = tf.cast(pairs, rows.dtype)
        return tf.einsum(f"BNST,{self.rows}->{self.columns}", pairs, rows)

    def along(self, one: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
        """Product of two tensors of row positions, float32 [B, N, S, 1]."""
        along = tf.cast(one, tf.float32) * tf.cast(other, tf.float32)
        return tf.einsum(f"{self.rows}->BNS", along)[..., tf.newaxis]
