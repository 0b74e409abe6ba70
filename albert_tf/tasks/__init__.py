"""Tasks: for each its model, losses, metrics and predictions.

`create_task` builds the task that a task configuration describes.
"""

import importlib


def __getattr__(name: str):
    """Loads `albert_tf.tasks.create`, and TensorFlow with it, on first use."""
    if name == "create_task":
        return importlib.import_module("albert_tf.tasks.create").create_task
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
