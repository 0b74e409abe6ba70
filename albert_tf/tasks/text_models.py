"""The model of a task whose rows come from tables of texts."""

import functools
from collections.abc import Callable
from typing import Any

import tf_keras

from albert_tf.model.heads import ClassificationModel
from albert_tf.model.windowed_heads import WindowedClassificationModel
from albert_tf.task_config import TextTask


def build_classifier(
    task_config: TextTask, num_outputs: int, dropout: float
) -> Callable[..., tf_keras.Model]:
    """Returns the function that builds the model, as `Task.build_model`.

    Args:
      task_config: says whether long texts have windows.
      num_outputs: of the head.
      dropout: probability of dropping a value of the head's input.
    """
    arguments: dict[str, Any] = {"num_outputs": num_outputs, "head_dropout": dropout}
    if task_config.window_pooling is None:
        return functools.partial(ClassificationModel, **arguments)
    return functools.partial(
        WindowedClassificationModel,
        window_pooling=task_config.window_pooling,
        **arguments,
    )
