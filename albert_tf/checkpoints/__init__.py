"""Weights in and out: checkpoint formats, loading, conversion, model folders.

The names of `albert_tf.checkpoints.load` that users call are this package's too.
"""

import importlib

_LOAD_NAMES = (
    "HEADS",
    "LoadReport",
    "assign_weights",
    "load_tf1_checkpoint",
    "load_weights",
    "released_name",
    "weights_checkpoint",
)


def __getattr__(name: str):
    """Loads `albert_tf.checkpoints.load`, and TensorFlow with it, on first use."""
    if name in _LOAD_NAMES:
        return getattr(importlib.import_module("albert_tf.checkpoints.load"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
