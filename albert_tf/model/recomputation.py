"""Recomputation in the backward pass: memory for time."""

from collections.abc import Callable

import tensorflow as tf
from tensorflow.compiler.tf2xla.python import xla
from tensorflow.python.ops import control_flow_util


def recompute(function: Callable, *inputs: tf.Tensor) -> tf.Tensor:
    """`function(*inputs)`, of which the backward pass keeps the inputs alone.

    `tf.recompute_grad` saves nothing under XLA, which merges the second computation
    with the first: there a barrier ties its inputs to the gradient that comes in.

    Args:
      function: tensors -> one float tensor; may read variables. What else it reads gets
        no gradient.
      *inputs: float tensors.
    """

    @tf.custom_gradient
    def forward(*arguments):
        def gradient(upstream, variables=()):
            with tf.GradientTape() as tape:
                again = after(upstream, arguments)
                tape.watch(again)
                output = function(*again)
            found = tape.gradient(output, (list(again), list(variables)), upstream)
            return found if variables else found[0]

        return function(*arguments), gradient

    return forward(*inputs)


def compiled_by_xla() -> bool:
    """Whether XLA compiles what is being traced, as it does on TPUs."""
    graph = tf.compat.v1.get_default_graph()
    return control_flow_util.GraphOrParentsInXlaContext(graph)


def after(upstream, tensors):
    """The tensors, to be had no sooner than `upstream`."""
    if compiled_by_xla():
        return xla.optimization_barrier(*tensors, upstream)[:-1]
    with tf.control_dependencies([upstream]):
        return [tf.identity(tensor) for tensor in tensors]
