"""Where XLA compiles, and element-wise passes that it compiles on CPUs."""

import functools
from collections.abc import Callable

import tensorflow as tf
from tensorflow.python.ops import control_flow_util


def compiled_by_xla() -> bool:
    """Whether XLA compiles what is being traced, as it does on TPUs."""
    graph = tf.compat.v1.get_default_graph()
    return control_flow_util.GraphOrParentsInXlaContext(graph)


def one_pass(function: Callable) -> Callable:
    """A function of tensors whose element-wise operations become one pass on CPUs.

    TensorFlow's CPU kernels each read and write memory: ten of them take four times as
    long as XLA's one. Matrix products are faster with TensorFlow's, so XLA gets these
    passes alone. It serves gradients only: a SavedModel must run where XLA is not
    linked in. With GPUs the function is left as it is.

    Args:
      function: tensors -> tensors, of known rank; no variables, no state.
    """
    compiled = tf.function(function, jit_compile=True, autograph=False)

    @functools.wraps(function)
    def call(*tensors):
        if compiled_by_xla() or tf.config.list_physical_devices("GPU"):
            return function(*tensors)
        return compiled(*tensors)

    return call
