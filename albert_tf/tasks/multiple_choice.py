"""The multiple-choice task: the right one of a question's options."""

import functools
from collections.abc import Sequence

import tensorflow as tf

from albert_tf.model.heads import MultipleChoiceModel
from albert_tf.records.features import choice_features
from albert_tf.task_config import MultipleChoice
from albert_tf.tasks import losses
from albert_tf.tasks.base import Arrays, Task, Tensors, WeightedMean


def multiple_choice_task(task_config: MultipleChoice, dropout: float) -> Task:
    """Builds the task of choosing an option.

    Its predictions are `probabilities` float32 [R, C], 0 for options that a question
    lacks, `options`, the number that it has, `label_ids` and `level`.

    Args:
      task_config: name and levels; a row's `level` is an index of these, or none.
      dropout: probability of dropping a value of the head's input.
    """
    return Task(
        name=task_config.task_name,
        build_model=functools.partial(MultipleChoiceModel, head_dropout=dropout),
        losses={"loss": WeightedMean(losses.classification, losses.row_weights)},
        best_metric="eval_accuracy",
        features=lambda _: choice_features(),
        predictions=_predictions,
        host_metrics=functools.partial(choice_metrics, levels=task_config.levels),
    )


def _predictions(outputs: Tensors, batch: Tensors) -> dict[str, tf.Tensor]:
    present = tf.reduce_max(batch["input_mask"], axis=-1)
    return {
        "probabilities": tf.nn.softmax(outputs["logits"]),
        "options": tf.reduce_sum(present, axis=-1),
        **{name: batch[name] for name in ("label_ids", "level")},
    }


def choice_metrics(predictions: Arrays, levels: Sequence[str]) -> dict[str, float]:
    """Computes `eval_accuracy`, and `eval_accuracy_LEVEL` of each level with rows.

    Args:
      predictions: of all rows, as the task's.
      levels: names of levels.
    """
    chosen = predictions["probabilities"].argmax(axis=-1)
    correct = chosen == predictions["label_ids"]
    metrics = {"eval_accuracy": float(correct.mean())}
    for index, level in enumerate(levels):
        rows = predictions["level"] == index
        if rows.any():
            metrics[f"eval_accuracy_{level}"] = float(correct[rows].mean())
    return metrics
