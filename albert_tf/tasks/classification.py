"""The classification task: labels for one text or a pair of texts."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from sklearn import metrics as sklearn_metrics

from albert_tf.records.features import classifier_features
from albert_tf.task_config import Classification
from albert_tf.tasks.base import Arrays, Task, Tensors
from albert_tf.tasks.losses import PLAIN, ClassificationLoss
from albert_tf.tasks.metrics import METRICS, class_table
from albert_tf.tasks.text_models import build_classifier


def classification_task(
    task_config: Classification,
    dropout: float,
    loss: ClassificationLoss = PLAIN,
) -> Task:
    """Builds the task of telling which label a row has.

    Its predictions are `probabilities` float32 [R, labels] and `label_ids`.

    Args:
      task_config: labels and metrics.
      dropout: probability of dropping a value of the head's input.
      loss: how training weighs examples.
    """
    windows = task_config.window_pooling is not None
    return Task(
        name=task_config.task_name,
        build_model=build_classifier(task_config, len(task_config.labels), dropout),
        losses={"loss": loss.of_labels()},
        evaluation_losses={"loss": PLAIN.of_labels()},
        best_metric=task_config.metrics[0],
        features=lambda _: classifier_features("int64", windows),
        predictions=_predictions,
        host_metrics=functools.partial(label_metrics, names=task_config.metrics),
        details=functools.partial(class_report, labels=task_config.labels),
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


def class_report(predictions: Arrays, labels: Sequence[str]) -> dict[str, Any]:
    """Computes what scikit-learn reports of a classifier.

    Args:
      predictions: the task's, of all rows.
      labels: the task's.
    Returns:
      `macro_precision`, `macro_recall` and `macro_f1`, means over the labels that rows
      or predictions have; `classes`: label -> `precision`, `recall`, `f1` and
      `support`, the number of its rows; and `confusion_matrix`: for each true label
      the number of rows that are predicted as each label, in the order of the labels.
    """
    gold, predicted = (
        predictions["label_ids"],
        predictions["probabilities"].argmax(axis=-1),
    )
    places = np.arange(len(labels))
    columns = sklearn_metrics.precision_recall_fscore_support(
        gold, predicted, labels=places, average=None, zero_division=0.0
    )
    matrix = sklearn_metrics.confusion_matrix(gold, predicted, labels=places)
    present = np.union1d(gold, predicted)
    means = [float(column[present].mean()) for column in columns[:3]]
    return {
        **dict(
            zip(("macro_precision", "macro_recall", "macro_f1"), means, strict=True)
        ),
        "classes": class_table(labels, columns),
        "confusion_matrix": matrix.tolist(),
    }
