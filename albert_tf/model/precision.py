"""The precision of activations."""

import contextlib
from collections.abc import Iterator

import tensorflow as tf
import tf_keras
from official.modeling import performance


@contextlib.contextmanager
def precision_policy(name: str) -> Iterator[None]:
    """Sets Keras's global policy inside the context, and the previous one after it.

    Args:
      name: "float32", "bfloat16" or "float16", the type of activations.
    Raises:
      ValueError: float16 in the scope of a TPU's strategy.
    """
    if isinstance(tf.distribute.get_strategy(), tf.distribute.TPUStrategy):
        check_tpu_precision(name)
    with policy_scope(tf_keras.mixed_precision.global_policy()):
        performance.set_mixed_precision_policy(tf.as_dtype(name))
        yield


def check_tpu_precision(name: str) -> None:
    """Raises ValueError for a precision that TPUs do not multiply in."""
    if name == "float16":
        raise ValueError(
            "TPUs multiply in bfloat16 and float32. Received float16: pass "
            "--precision=bfloat16."
        )


@contextlib.contextmanager
def policy_scope(policy: tf_keras.mixed_precision.Policy) -> Iterator[None]:
    """Makes a layer's policy that of all layers that are built inside the context."""
    previous = tf_keras.mixed_precision.global_policy()
    tf_keras.mixed_precision.set_global_policy(policy)
    try:
        yield
    finally:
        tf_keras.mixed_precision.set_global_policy(previous)
