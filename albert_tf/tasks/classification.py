"""Classification and regression tasks."""

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.model.heads import ClassificationModel
from albert_tf.tasks import losses, metrics
from albert_tf.tasks.base import Task, WeightedMean


def classification(
    name: str,
    labels: Sequence[str],
    scores: Sequence[str] = ("eval_accuracy",),
    dropout: float = 0.1,
) -> Task:
    """Which of some labels one or two texts have.

    Its predictions are `probabilities` float32 [R, labels] and `label_ids`.

    Args:
      name: as reports call it.
      labels: their names; a row's `label_ids` is an index.
      scores: of `metrics.SCORES`; the first one chooses the best checkpoint.
      dropout: of the head.
    """

    def build_model(config, seed, rematerialize):
        return ClassificationModel(config, len(labels), dropout, seed, rematerialize)

    def predictions(outputs, batch):
        probabilities = tf.nn.softmax(outputs["logits"])
        return {"probabilities": probabilities, "label_ids": batch["label_ids"]}

    def score(predicted):
        return score_classes(predicted, scores)

    return Task(
        name=name,
        build_model=build_model,
        read_batch=dict,
        losses={"loss": WeightedMean(losses.classification, losses.row_weights)},
        metrics={},
        best_metric=scores[0],
        predictions=predictions,
        score=score,
    )


def score_classes(
    predicted: Mapping[str, np.ndarray], scores: Sequence[str]
) -> dict[str, float]:
    """Scores of `probabilities` [R, labels] against `label_ids` [R], and how many
    labels are predicted at all: of a model that has collapsed, one."""
    classes = predicted["probabilities"].argmax(axis=-1)
    labels = predicted["label_ids"]
    found = {name: float(metrics.SCORES[name](labels, classes)) for name in scores}
    return {**found, "predicted_labels": len(np.unique(classes))}


def regression(name: str, dropout: float = 0.1) -> Task:
    """A number for one or two texts (STS-B's similarity, for instance).

    Its predictions are `values` float32 [R] and `label_ids`.

    Args:
      name: as reports call it.
      dropout: of the head.
    """

    def build_model(config, seed, rematerialize):
        return ClassificationModel(config, 1, dropout, seed, rematerialize)

    def predictions(outputs, batch):
        return {"values": outputs["logits"][:, 0], "label_ids": batch["label_ids"]}

    return Task(
        name=name,
        build_model=build_model,
        read_batch=dict,
        losses={"loss": WeightedMean(losses.regression, losses.row_weights)},
        metrics={},
        best_metric="pearson",
        predictions=predictions,
        score=score_values,
    )


def score_values(predicted: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Correlations of `values` [R] with `label_ids` [R]."""
    return {
        name: float(metrics.SCORES[name](predicted["label_ids"], predicted["values"]))
        for name in ("pearson", "spearman")
    }
