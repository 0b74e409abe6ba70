"""Builds the task that a task configuration describes."""

from albert_tf.task_config import (
    Classification,
    Embedding,
    MultiLabel,
    MultipleChoice,
    Regression,
    Squad,
    Tagging,
    TaskConfig,
)
from albert_tf.tasks.base import Task
from albert_tf.tasks.classification import classification_task
from albert_tf.tasks.embedding import embedding_task
from albert_tf.tasks.losses import PLAIN, ClassificationLoss
from albert_tf.tasks.multi_label import multi_label_task
from albert_tf.tasks.multiple_choice import multiple_choice_task
from albert_tf.tasks.regression import regression_task
from albert_tf.tasks.squad import squad_task
from albert_tf.tasks.tagging import tagging_task


def create_task(
    task_config: TaskConfig,
    dropout: float = 0.0,
    loss: ClassificationLoss = PLAIN,
) -> Task:
    """Builds a task.

    Args:
      task_config: what the model is for. The task of SQuAD has no `host_metrics`,
        which need the questions: see `albert_tf.tasks.squad.squad_task`.
      dropout: probability of dropping a value of the head's input in training.
      loss: how the training of a classifier weighs examples.
    Raises:
      ValueError: other tasks do not weigh examples.
    """
    match task_config:
        case Classification():
            return classification_task(task_config, dropout, loss)
        case MultiLabel():
            return multi_label_task(task_config, dropout, loss)
    if loss != PLAIN:
        raise ValueError(
            "Class weights, label smoothing and the focal loss are for classifiers. "
            f"Received {loss} for {task_config.task_name}: leave them out."
        )
    match task_config:
        case Embedding():
            return embedding_task(task_config, dropout)
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
