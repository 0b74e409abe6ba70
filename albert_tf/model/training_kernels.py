"""Kernels of training on rows of tokens: one pass over memory each, where XLA compiles
them (`compilation.pays`), and otherwise those of `kernels`.

Letters in shapes: T rows.
"""

import tensorflow as tf

from albert_tf.model import kernels
from albert_tf.model.compilation import in_one_pass, pays


def bias_gelu(rows: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """gelu of a sum; its gradient keeps both terms, if it is compiled.

    Args:
      rows: [T, size].
      bias: [size], of the same dtype.
    Returns:
      [T, size].
    """
    if pays(rows):
        return _compiled_bias_gelu(rows, bias)
    return kernels.gelu(tf.nn.bias_add(rows, bias))


def add_and_normalize(
    rows: tf.Tensor,
    bias: tf.Tensor | None,
    residual: tf.Tensor,
    gamma: tf.Tensor,
    beta: tf.Tensor,
) -> tf.Tensor:
    """Layer normalization of a sum; its gradient keeps the terms, if it is compiled.

    Args:
      rows: [T, size].
      bias: [size], of the same dtype; None: there is none.
      residual: [T, size], of the same dtype.
      gamma: float32 [size].
      beta: float32 [size].
    Returns:
      [T, size].
    """
    if not pays(rows, residual):
        if bias is not None:
            rows = tf.nn.bias_add(rows, bias)
        return kernels.layer_norm(rows + residual, gamma, beta)
    if bias is None:
        bias = tf.zeros([rows.shape[-1]], rows.dtype)
    return _compiled_add_and_normalize(rows, bias, residual, gamma, beta)


@in_one_pass
def _bias_gelu_forward(rows, bias):
    return kernels.gelu_and_slope(rows + bias)[0]


@in_one_pass
def _bias_gelu_backward(rows, bias, upstream):
    gradient = upstream * kernels.gelu_and_slope(rows + bias)[1]
    return gradient, _sum_of_rows(gradient)


@tf.custom_gradient
def _compiled_bias_gelu(rows, bias):
    def gradient(upstream):
        return _bias_gelu_backward(rows, bias, upstream)

    return _bias_gelu_forward(rows, bias), gradient


@in_one_pass
def _add_and_normalize_forward(rows, bias, residual, gamma, beta):
    return kernels.normalize(rows + bias + residual, gamma, beta)


@in_one_pass
def _add_and_normalize_backward(rows, bias, residual, mean, scale, gamma, upstream):
    total = rows + bias + residual
    gradients = kernels.layer_norm_gradient(total, mean, scale, gamma, upstream)
    return *gradients, _sum_of_rows(gradients[0])


@tf.custom_gradient
def _compiled_add_and_normalize(rows, bias, residual, gamma, beta):
    outputs, mean, scale = _add_and_normalize_forward(rows, bias, residual, gamma, beta)

    def gradient(upstream):
        of_sum, of_gamma, of_beta, of_bias = _add_and_normalize_backward(
            rows, bias, residual, mean, scale, gamma, upstream
        )
        return of_sum, of_bias, of_sum, of_gamma, of_beta

    return outputs, gradient


def _sum_of_rows(rows: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.reduce_sum(tf.cast(rows, tf.float32), axis=0), rows.dtype)
