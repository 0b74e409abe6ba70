"""Tasks as data: what the one loop of `training.py` needs to know about each.

A new task is a new value here, never a new loop.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tf_keras

from albert_tf import losses, metrics
from albert_tf.config import AlbertConfig
from albert_tf.models import (
    ClassificationModel,
    MultipleChoiceModel,
    PretrainingModel,
)


class WeightedMean(NamedTuple):
    """A number that is a weighted mean over a data set.

    Attributes:
      values: (outputs, batch) -> float32 tensor.
      weights: batch -> float32 tensor of the same shape.
    """

    values: Callable[[Mapping, Mapping], Any]
    weights: Callable[[Mapping], Any]


@dataclasses.dataclass(frozen=True)
class Task:
    """One task.

    Attributes:
      name: as reports call it.
      build_model: (model configuration, seed, rematerialize) -> model whose call takes
        a batch.
      read_batch: features as parsed from records -> the batch under the code's names.
      losses: name -> loss; training minimises the sum of their means.
      metrics: name -> score; evaluation reports them and the losses.
      best_metric: the score that the best checkpoint is chosen by; higher is better.
      predictions: (outputs, batch) -> name -> tensor [B, ...], what is kept of each row
        when a set is evaluated or predicted; sizes after B are those of every batch.
        None: nothing.
      score: those of all rows, in their order -> more scores; computed on the host.
    """

    name: str
    build_model: Callable[[AlbertConfig, int, str], tf_keras.Model]
    read_batch: Callable[[Mapping], dict]
    losses: Mapping[str, WeightedMean]
    metrics: Mapping[str, WeightedMean]
    best_metric: str
    predictions: Callable[[Mapping, Mapping], dict] | None = None
    score: Callable[[Mapping[str, np.ndarray]], dict[str, float]] | None = None


def _read_pretraining_batch(features: Mapping) -> dict:
    batch = dict(features)
    # On disk the original's name; 0 in order, 1 swapped.
    batch["sentence_order_label"] = batch.pop("next_sentence_labels")[:, 0]
    # Offline masks are final; the boundaries serve who makes masks anew.
    batch.pop("token_boundary")
    return batch


PRETRAINING = Task(
    name="pretraining",
    build_model=PretrainingModel,
    read_batch=_read_pretraining_batch,
    losses={
        "masked_lm_loss": WeightedMean(losses.masked_lm, losses.masked_lm_weights),
        "sentence_order_loss": WeightedMean(losses.sentence_order, losses.row_weights),
    },
    metrics={
        "masked_lm_accuracy": WeightedMean(
            metrics.masked_lm_correct, losses.masked_lm_weights
        ),
        "sentence_order_accuracy": WeightedMean(
            metrics.sentence_order_correct, losses.row_weights
        ),
    },
    best_metric="masked_lm_accuracy",
)


def _build_without_sentence_order(
    config: AlbertConfig, seed: int, rematerialize: str
) -> PretrainingModel:
    model = PretrainingModel(config, seed, rematerialize)
    # Without a gradient of theirs, weight decay would take them to nothing.
    model.encoder.pooler.trainable = False
    model.sentence_order.trainable = False
    return model


# The condition "None" of the paper's Table 5: the loss of masked pieces alone.
MASKED_LM = dataclasses.replace(
    PRETRAINING,
    name="masked_lm",
    build_model=_build_without_sentence_order,
    losses={"masked_lm_loss": PRETRAINING.losses["masked_lm_loss"]},
    metrics={"masked_lm_accuracy": PRETRAINING.metrics["masked_lm_accuracy"]},
)


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


def multiple_choice(
    name: str, levels: Sequence[str] = (), dropout: float = 0.1
) -> Task:
    """Which of a question's options is right.

    Its predictions are `probabilities` float32 [R, C], 0 for options that a question
    lacks, `options`, how many it has, `label_ids` and `level`.

    Args:
      name: as reports call it.
      levels: names of the parts of a set that have an accuracy of their own; a row's
        `level` is an index, or none of these.
      dropout: of the head.
    """

    def build_model(config, seed, rematerialize):
        return MultipleChoiceModel(config, dropout, seed, rematerialize)

    def predictions(outputs, batch):
        present = tf.reduce_max(batch["input_mask"], axis=-1)
        return {
            "probabilities": tf.nn.softmax(outputs["logits"]),
            "options": tf.reduce_sum(present, axis=-1),
            **{name: batch[name] for name in ("label_ids", "level")},
        }

    def score(predicted):
        chosen = predicted["probabilities"].argmax(axis=-1)
        correct = chosen == predicted["label_ids"]
        found = {"eval_accuracy": float(correct.mean())}
        for index, level in enumerate(levels):
            of_level = predicted["level"] == index
            if of_level.any():
                found[f"eval_accuracy_{level}"] = float(correct[of_level].mean())
        return found

    return Task(
        name=name,
        build_model=build_model,
        read_batch=dict,
        losses={"loss": WeightedMean(losses.classification, losses.row_weights)},
        metrics={},
        best_metric="eval_accuracy",
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
