"""Weights in and out: checkpoint formats, loading, conversion, model folders.

The names of `albert_tf.checkpoints.load` that users call can be taken from this package
as well; they are loaded on first use, and TensorFlow with them.
"""

import importlib
from typing import Any

_LOAD_NAMES = (
    "HEADS",
    "LoadReport",
    "assign_weights",
    "load_tf1_checkpoint",
    "load_weights",
    "released_name",
    "weights_checkpoint",
)


def __getattr__(name: str) -> Any:
    """Loads a name of `albert_tf.checkpoints.load`."""
    if name in _LOAD_NAMES:
        return getattr(importlib.import_module("albert_tf.checkpoints.load"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LOAD_NAMES])
