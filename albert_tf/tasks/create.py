"""Builds the task that a task configuration describes."""

import dataclasses

from albert_tf.task_config import (
    Classification,
    MultipleChoice,
    Regression,
    Squad,
    TaskConfig,
)
from albert_tf.tasks.base import Task
from albert_tf.tasks.classification import classification, regression
from albert_tf.tasks.multiple_choice import multiple_choice
from albert_tf.tasks.squad import SquadSettings, squad_task


def create_task(task_config: TaskConfig, dropout: float = 0.0) -> Task:
    """Builds a task.

    Args:
      task_config: what the model is for. SQuAD's task scores nothing, which needs the
        questions: see `albert_tf.tasks.squad.squad_task`.
      dropout: probability of dropping a value of the head's input in training.
    """
    match task_config:
        case Classification(name, labels, metrics):
            return classification(name, labels, metrics, dropout)
        case Regression(name):
            return regression(name, dropout)
        case MultipleChoice(name, levels):
            return multiple_choice(name, levels, dropout)
        case Squad():
            settings = SquadSettings(**dataclasses.asdict(task_config))
            return squad_task(settings, head_dropout=dropout)
    raise TypeError(f"No task is known for {task_config!r}: pass a task configuration.")
