"""The precision of activations."""

import contextlib

import tensorflow as tf
import tf_keras
from official.modeling import performance


@contextlib.contextmanager
def precision_policy(name: str):
    """Keras' policy for what is built inside, and the old one again after it."""
    previous = tf_keras.mixed_precision.global_policy()
    performance.set_mixed_precision_policy(tf.as_dtype(name))
    try:
        yield
    finally:
        tf_keras.mixed_precision.set_global_policy(previous)
