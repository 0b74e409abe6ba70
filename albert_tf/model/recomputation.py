"""Recomputation in the backward pass, which needs less memory and more time."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.compiler.tf2xla.python import xla

from albert_tf.model.compilation import compiled_by_xla


def recompute(function: Callable[..., Any], *inputs: tf.Tensor) -> Any:
    """Computes `function(*inputs)`, keeping only the inputs for the backward pass.

    `tf.recompute_grad` saves nothing under XLA, which merges the second computation
    with the first. Here a barrier makes the second one wait for the gradient.

    Args:
      function: tensors -> a float tensor, or a list of some. It may read variables;
        other tensors that it reads get no gradient.
      *inputs: float tensors.
    """

    @tf.custom_gradient
    def forward(*arguments):
        def gradient(*upstream, variables=()):
            with tf.GradientTape() as tape:
                delayed = barrier(upstream[0], arguments)
                tape.watch(delayed)
                outputs = tf.nest.flatten(function(*delayed))
            sources = (list(delayed), list(variables))
            gradients = tape.gradient(outputs, sources, list(upstream))
            return gradients if variables else gradients[0]

        return function(*arguments), gradient

    return forward(*inputs)


def barrier(upstream: tf.Tensor, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Copies of the tensors that are available only once `upstream` is computed."""
    if compiled_by_xla():
        return xla.optimization_barrier(*tensors, upstream)[:-1]
    with tf.control_dependencies([upstream]):
        return [tf.identity(tensor) for tensor in tensors]
