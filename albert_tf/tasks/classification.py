"""The classification task: labels for one text or a pair of texts."""

import functools
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from albert_tf.model.heads import ClassificationModel
from albert_tf.records.features import classifier_features
from albert_tf.task_config import Classification
from albert_tf.tasks import losses
from albert_tf.tasks.base import Arrays, Task, Tensors, WeightedMean
from albert_tf.tasks.metrics import METRICS


def classification_task(task_config: Classification, dropout: float) -> Task:
    """Builds the task of telling which label a row has.

    Its predictions are `probabilities` float32 [R, labels] and `label_ids`.

    Args:
      task_config: labels and metrics.
      dropout: probability of dropping a value of the head's input.
    """
    return Task(
        name=task_config.task_name,
        build_model=functools.partial(
            ClassificationModel,
            num_outputs=len(task_config.labels),
            head_dropout=dropout,
        ),
        losses={"loss": WeightedMean(losses.classification, losses.row_weights)},
        best_metric=task_config.metrics[0],
        features=lambda _: classifier_features("int64"),
        predictions=_predictions,
        host_metrics=functools.partial(label_metrics, names=task_config.metrics),
    )


def _predictions(outputs: Tensors, batch: Tensors) -> dict[str, tf.Tensor]:
    probabilities = tf.nn.softmax(outputs["logits"])
    return {"probabilities": probabilities, "label_ids": batch["label_ids"]}


def label_metrics(predictions: Arrays, names: Sequence[str]) -> dict[str, float]:
    """Computes metrics of `probabilities` [R, labels] against `label_ids` [R].

    Args:
      predictions: of all rows.
      names: keys of `METRICS`.
    Returns:
      These metrics, and `predicted_labels`, the number of different labels that are
      predicted: 1 for a model that has collapsed.
    """
    predicted = predictions["probabilities"].argmax(axis=-1)
    labels = predictions["label_ids"]
    metrics = {name: float(METRICS[name](labels, predicted)) for name in names}
    return {**metrics, "predicted_labels": len(np.unique(predicted))}
