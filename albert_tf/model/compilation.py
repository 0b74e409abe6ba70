"""Compilation by XLA: of whole functions, or of kernels in graphs of TensorFlow."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import control_flow_util


def compiled_by_xla() -> bool:
    """True while tracing a function that XLA compiles, as it always does on TPUs."""
    graph = tf.compat.v1.get_default_graph()
    return control_flow_util.GraphOrParentsInXlaContext(graph)


def pays(*tensors: tf.Tensor) -> bool:
    """True if XLA shall compile a kernel of a graph that it does not compile.

    TensorFlow's operations read and write memory each; XLA makes one pass of several.
    It compiles anew for every shape, so shapes must be fixed; and GPUs pass quickly.
    """
    fixed = all(tensor.shape.is_fully_defined() for tensor in tensors)
    in_graph = not tf.executing_eagerly() and not compiled_by_xla()
    return fixed and in_graph and not tf.config.list_logical_devices("GPU")


def in_one_pass(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of tensors, compiled by XLA when it is called in a graph."""
    return tf.function(function, jit_compile=True, autograph=False)
