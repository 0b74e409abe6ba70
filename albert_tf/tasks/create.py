"""Builds the task that a task configuration describes."""

from albert_tf.task_config import (
    Classification,
    MultipleChoice,
    Regression,
    Squad,
    Tagging,
    TaskConfig,
)
from albert_tf.tasks.base import Task
from albert_tf.tasks.classification import classification_task
from albert_tf.tasks.multiple_choice import multiple_choice_task
from albert_tf.tasks.regression import regression_task
from albert_tf.tasks.squad import squad_task
from albert_tf.tasks.tagging import tagging_task


def create_task(task_config: TaskConfig, dropout: float = 0.0) -> Task:
    """Builds a task.

    Args:
      task_config: what the model is for. The task of SQuAD has no `host_metrics`,
        which need the questions: see `albert_tf.tasks.squad.squad_task`.
      dropout: probability of dropping a value of the head's input in training.
    """
    match task_config:
        case Classification():
            return classification_task(task_config, dropout)
        case Regression():
            return regression_task(task_config, dropout)
        case MultipleChoice():
            return multiple_choice_task(task_config, dropout)
        case Squad():
            return squad_task(task_config, dropout)
        case Tagging():
            return tagging_task(task_config, dropout)
    raise TypeError(
        f"A task is built from a task configuration. Received {task_config!r}: pass a "
        "value of albert_tf.task_config."
    )
