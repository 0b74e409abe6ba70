"""The task of several labels a text: any number of them, or none."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from sklearn import metrics as sklearn_metrics

from albert_tf.records.features import multi_label_features
from albert_tf.task_config import MultiLabel
from albert_tf.tasks.base import Arrays, Task, Tensors
from albert_tf.tasks.losses import PLAIN, ClassificationLoss
from albert_tf.tasks.metrics import class_table
from albert_tf.tasks.text_models import build_classifier

# Without positives, a rate is 0 and not undefined.
_ZERO: dict[str, Any] = {"zero_division": 0.0}


def multi_label_task(
    task_config: MultiLabel,
    dropout: float,
    loss: ClassificationLoss = PLAIN,
) -> Task:
    """Builds the task of telling which labels a row has.

    Its predictions are `probabilities` float32 [R, labels], each on its own, and
    `label_ids` int32 [R, labels], 1 for a label that the row has.

    Args:
      task_config: labels and their thresholds.
      dropout: probability of dropping a value of the head's input.
      loss: how training weighs examples.
    """
    labels, thresholds = task_config.labels, task_config.all_thresholds
    windows = task_config.window_pooling is not None
    return Task(
        name=task_config.task_name,
        build_model=build_classifier(task_config, len(labels), dropout),
        losses={"loss": loss.of_label_sets()},
        evaluation_losses={"loss": PLAIN.of_label_sets()},
        best_metric="micro_f1",
        features=lambda _: multi_label_features(len(labels), windows),
        predictions=_predictions,
        host_metrics=functools.partial(multi_label_metrics, thresholds=thresholds),
        details=functools.partial(label_table, labels=labels, thresholds=thresholds),
    )


def _predictions(outputs: Tensors, batch: Tensors) -> dict[str, tf.Tensor]:
    return {
        "probabilities": tf.sigmoid(outputs["logits"]),
        "label_ids": batch["label_ids"],
    }


def chosen_labels(probabilities: np.ndarray, thresholds: Sequence[float]) -> np.ndarray:
    """True for each label whose probability reaches its threshold, bool [R, L]."""
    return probabilities >= np.asarray(thresholds, probabilities.dtype)


def multi_label_metrics(
    predictions: Arrays, thresholds: Sequence[float]
) -> dict[str, float]:
    """Computes metrics of the labels whose probabilities reach their thresholds.

    Args:
      predictions: the task's, of all rows.
      thresholds: of each label.
    Returns:
      `micro_precision`, `micro_recall` and `micro_f1` of all labels of all rows
      together, `macro_f1`, the mean over the labels, and `subset_accuracy`, the share
      of rows whose labels are all right.
    """
    gold = predictions["label_ids"] > 0
    chosen = chosen_labels(predictions["probabilities"], thresholds)
    precision, recall, f1, _ = sklearn_metrics.precision_recall_fscore_support(
        gold, chosen, average="micro", **_ZERO
    )
    macro = sklearn_metrics.f1_score(gold, chosen, average="macro", **_ZERO)
    return {
        "micro_f1": float(f1),
        "micro_precision": float(precision),
        "micro_recall": float(recall),
        "macro_f1": float(macro),
        "subset_accuracy": float(sklearn_metrics.accuracy_score(gold, chosen)),
    }


def label_table(
    predictions: Arrays, labels: Sequence[str], thresholds: Sequence[float]
) -> dict[str, Any]:
    """Computes `classes`: label -> `precision`, `recall`, `f1` and `support`, the
    number of rows that have it."""
    gold = predictions["label_ids"] > 0
    chosen = chosen_labels(predictions["probabilities"], thresholds)
    columns = sklearn_metrics.precision_recall_fscore_support(
        gold, chosen, average=None, **_ZERO
    )
    return {"classes": class_table(labels, columns)}


class Tuned(NamedTuple):
    """Thresholds that were found on rows with labels.

    Attributes:
      thresholds: of each label.
      without_examples: how many labels no row has; they keep 0.5.
    """

    thresholds: tuple[float, ...]
    without_examples: int


def tune_thresholds(predictions: Arrays) -> Tuned:
    """Finds the threshold of the best F1 of each label on its own.

    Of several as good ones the one nearest to 0.5 is taken; each lies in the middle
    between two probabilities that occur.

    Args:
      predictions: the task's, of rows with labels.
    """
    gold, probabilities = predictions["label_ids"] > 0, predictions["probabilities"]
    thresholds = [0.5] * gold.shape[1]
    for label in np.flatnonzero(gold.any(axis=0)):
        thresholds[label] = _best_threshold(gold[:, label], probabilities[:, label])
    return Tuned(tuple(thresholds), int((~gold.any(axis=0)).sum()))


def _best_threshold(gold: np.ndarray, probabilities: np.ndarray) -> float:
    precision, recall, values = sklearn_metrics.precision_recall_curve(
        gold, probabilities.astype(np.float64)
    )
    total = precision + recall
    f1 = 2 * precision * recall / np.where(total > 0, total, 1)
    # The curve's last point belongs to no probability.
    f1 = f1[:-1]
    middles = (values + np.concatenate([[0.0], values[:-1]])) / 2
    best = np.flatnonzero(f1 >= f1.max() - 1e-12)
    nearest = best[np.abs(middles[best] - 0.5).argmin()]
    # All thresholds between two probabilities choose the same rows.
    low, high = (0.0, *values)[nearest], values[nearest]
    return 0.5 if low < 0.5 <= high else float(middles[nearest])
