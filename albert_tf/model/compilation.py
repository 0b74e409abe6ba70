"""Graphs of shared blocks, and compilation by XLA, of functions or single kernels."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import tensorflow as tf
import tf_keras
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


def trace_once(
    blocks: Sequence[tf_keras.layers.Layer],
    method: Callable[..., tf.Tensor],
) -> Callable[..., tf.Tensor]:
    """Makes a function that applies a method of a block, tracing shared blocks once.

    Building the graph of 24 shared layers then takes as long as that of one layer, and
    steps are as fast, since TensorFlow inlines the calls. A loop in the graph would
    also spare XLA from compiling each layer, but makes steps slower.
    """
    uses = Counter(map(id, blocks))
    traced = {}

    def apply(block: tf_keras.layers.Layer, *arguments: Any) -> tf.Tensor:
        if uses[id(block)] == 1 or tf.executing_eagerly():
            return method(block, *arguments)
        if id(block) not in traced:
            traced[id(block)] = tf.function(partial(method, block), autograph=False)
        # Tensors, since the function is traced again for every Python number.
        tensors = (tf.constant(a) if isinstance(a, int) else a for a in arguments)
        return traced[id(block)](*tensors)

    return apply
