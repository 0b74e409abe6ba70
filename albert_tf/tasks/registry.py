"""Builds the task that a task configuration describes."""

from collections.abc import Mapping
from typing import Any

from albert_tf.tasks.base import Task
from albert_tf.tasks.classification import classification, regression
from albert_tf.tasks.multiple_choice import multiple_choice


def from_facts(facts: Mapping[str, Any], dropout: float = 0.0) -> Task:
    """The task that a fine-tuned model's `task.json` tells of.

    Args:
      facts: what it says.
      dropout: of the head.
    """
    name, labels = facts["task_name"], facts["labels"]
    if "levels" in facts:
        return multiple_choice(name, facts["levels"], dropout)
    if labels is None:
        return regression(name, dropout)
    return classification(name, labels, facts["scores"], dropout)
