"""The functions gelu, layer normalization and attention, with their gradients.

Letters in shapes: B batch, S sequence, N heads, D width of a head.
"""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.model.compilation import compiled_by_xla
from albert_tf.model.recomputation import barrier

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
    outputs, slope = gelu_and_slope(x)
    if compiled_by_xla():
        return outputs, lambda upstream: upstream * gelu_and_slope(x)[1]
    return outputs, lambda upstream: upstream * slope


def gelu_and_slope(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """gelu and its derivative, of the shape and dtype of `x`."""
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
    outputs, mean, scale = normalize(x, gamma, beta)

    def gradient(upstream):
        return layer_norm_gradient(x, mean, scale, gamma, upstream)

    return outputs, gradient


def normalize(
    x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Layer normalization and what its gradient needs besides `x` and gamma.

    Returns:
      (outputs, mean, reciprocal of the standard deviation); the latter two are float32
      [..., 1].
    """
    values = tf.cast(x, tf.float32)
    # Both moments in one pass, which XLA fuses with the product before it. Rounding may
    # make the difference negative in a constant row.
    mean = tf.reduce_mean(values, axis=-1, keepdims=True)
    mean_square = tf.reduce_mean(tf.square(values), axis=-1, keepdims=True)
    variance = tf.maximum(mean_square - tf.square(mean), 0.0)
    scale = tf.math.rsqrt(variance + LAYER_NORM_EPSILON)
    outputs = tf.cast((values - mean) * scale * gamma + beta, x.dtype)
    return outputs, mean, scale


def layer_norm_gradient(
    x: tf.Tensor,
    mean: tf.Tensor,
    scale: tf.Tensor,
    gamma: tf.Tensor,
    upstream: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Gradients of `x`, gamma and beta; mean and scale are from `normalize`."""
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
    parts: Sequence[tf.Tensor],
    mask_logits: tf.Tensor,
    drop: Callable[[tf.Tensor], tf.Tensor],
    recompute: bool = False,
) -> tf.Tensor:
    """Computes softmax attention of every head, for graphs that XLA does not compile.

    The gradient is written out. That of softmax needs sum(probabilities * their
    gradient) of each row, which equals sum(context * its gradient), a pass over D
    numbers instead of S.

    Args:
      parts: query, divided by the square root of D, key and value, [B, N, S, D] each.
      mask_logits: float32 [B, 1, 1, S] or [B, 1, S, S], added to the logits; gets no
        gradient.
      drop: float32 [B, N, S, S] -> the same with some zeroed, always the same ones.
      recompute: True if the backward pass computes the probabilities again, from query,
        key and one number of each row, instead of keeping them.
    Returns:
      [B, N, S, D].
    """

    @tf.custom_gradient
    def forward(query, key, value):
        logits = _pairs(query, key) + mask_logits
        if recompute:
            total = tf.reduce_logsumexp(logits, axis=-1, keepdims=True)
            probabilities = tf.exp(logits - total)
        else:
            probabilities = tf.nn.softmax(logits)
        context = _per_row(drop(probabilities), value)

        def gradient(upstream):
            kept = probabilities
            if recompute:
                pairs = _pairs(*barrier(upstream, (query, key)))
                kept = tf.exp(pairs + mask_logits - total)
            value_gradient = _per_column(drop(kept), upstream)
            products = tf.cast(context, tf.float32) * tf.cast(upstream, tf.float32)
            along = tf.reduce_sum(products, axis=-1, keepdims=True)
            slope = (drop(_pairs(upstream, value)) - along) * kept
            return _per_row(slope, key), _per_column(slope, query), value_gradient

        return context, gradient

    return forward(*parts)


def _pairs(rows: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
    """Product of each row with each column, float32 [B, N, S, T]."""
    return tf.cast(tf.matmul(rows, columns, transpose_b=True), tf.float32)


def _per_row(pairs: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
    """Sum of the columns, weighted by pairs, for each row: [B, N, S, D]."""
    return tf.matmul(tf.cast(pairs, columns.dtype), columns)


def _per_column(pairs: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """Sum of the rows, weighted by pairs, for each column: [B, N, T, D]."""
    return tf.matmul(tf.cast(pairs, rows.dtype), rows, transpose_a=True)
