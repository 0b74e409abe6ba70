"""The tagging task: a tag for each word, as those of named entities."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from seqeval import metrics as seqeval_metrics

from albert_tf.model.heads import TokenClassificationModel
from albert_tf.records.features import tagging_features, unseen_tag_ids
from albert_tf.task_config import Tagging
from albert_tf.tasks import losses
from albert_tf.tasks.base import Arrays, Task, Tensors, WeightedMean
from albert_tf.text import entities

# The type of all entities that training had none of.
UNSEEN = "(unseen)"


def tagging_task(task_config: Tagging, dropout: float) -> Task:
    """Builds the task of tagging the words of sentences.

    Its predictions are `probabilities` float32 [R, S, labels], 0 for tokens without a
    tag, `tag_ids` and `sentence`, as `features.tagging_features` has them.

    Args:
      task_config: the labels.
      dropout: probability of dropping a value of the head's input.
    """
    labels = task_config.labels
    weights = functools.partial(losses.tagging_weights, num_labels=len(labels))
    return Task(
        name=task_config.task_name,
        build_model=functools.partial(
            TokenClassificationModel, num_outputs=len(labels), head_dropout=dropout
        ),
        losses={"loss": WeightedMean(losses.tagging, weights)},
        best_metric="f1",
        features=lambda _: tagging_features(),
        predictions=_predictions,
        host_metrics=functools.partial(tagging_metrics, labels=labels),
        details=functools.partial(class_table, labels=labels),
    )


def _predictions(outputs: Tensors, batch: Tensors) -> dict[str, tf.Tensor]:
    is_tagged = tf.cast(batch["tag_ids"] > 0, tf.float32)
    return {
        "probabilities": tf.nn.softmax(outputs["logits"]) * is_tagged[..., tf.newaxis],
        "tag_ids": batch["tag_ids"],
        "sentence": batch["sentence"],
    }


def sentence_tags(
    predictions: Arrays, labels: Sequence[str]
) -> dict[int, tuple[list[str], list[float]]]:
    """Joins the windows of each sentence.

    Args:
      predictions: the task's, of rows in their order.
      labels: the task's.
    Returns:
      Number of each sentence that has words -> the likeliest tag of each word, and its
      probability.
    """
    rows, tokens = np.nonzero(predictions["tag_ids"])
    probabilities = predictions["probabilities"][rows, tokens]
    chosen = probabilities.argmax(axis=-1)
    best = probabilities.max(axis=-1)
    found: dict[int, tuple[list[str], list[float]]] = {}
    for sentence, words in _groups(predictions["sentence"][rows]):
        tags = [labels[label] for label in chosen[words]]
        found[sentence] = tags, best[words].tolist()
    return found


def gold_tags(predictions: Arrays, labels: Sequence[str]) -> list[list[str]]:
    """The true tags of each sentence that has words, in the order of sentences."""
    rows, tokens = np.nonzero(predictions["tag_ids"])
    ids = predictions["tag_ids"][rows, tokens]
    names = dict(enumerate(labels, start=1))
    begin, inside = unseen_tag_ids(len(labels))
    names |= {begin: f"B-{UNSEEN}", inside: f"I-{UNSEEN}"}
    groups = _groups(predictions["sentence"][rows])
    return [[names[tag] for tag in ids[words]] for _, words in groups]


def _groups(sentences: np.ndarray) -> list[tuple[int, slice]]:
    """Number of each sentence, and the places of its words, which are adjacent."""
    starts = np.flatnonzero(np.diff(sentences, prepend=-1))
    ends = [*starts[1:].tolist(), len(sentences)][: len(starts)]
    return [
        (int(sentences[start]), slice(start, end))
        for start, end in zip(starts.tolist(), ends, strict=True)
    ]


def tagging_metrics(predictions: Arrays, labels: Sequence[str]) -> dict[str, float]:
    """Computes metrics of entities, as seqeval does, and of words.

    Args:
      predictions: the task's, of all rows.
      labels: the task's.
    Returns:
      `precision`, `recall` and `f1` of entities, which are right if type and borders
      are, and `eval_accuracy` of tags.
    """
    gold, predicted = _pairs(predictions, labels)
    options: dict[str, Any] = {"zero_division": 0}
    return {
        "precision": float(seqeval_metrics.precision_score(gold, predicted, **options)),
        "recall": float(seqeval_metrics.recall_score(gold, predicted, **options)),
        "f1": float(seqeval_metrics.f1_score(gold, predicted, **options)),
        "eval_accuracy": float(seqeval_metrics.accuracy_score(gold, predicted)),
    }


def class_table(predictions: Arrays, labels: Sequence[str]) -> dict[str, Any]:
    """Computes `classes`: type of entities, and the averages -> `precision`, `recall`,
    `f1` and `support`, the number of such entities.

    Args:
      predictions: the task's, of all rows.
      labels: the task's.
    """
    gold, predicted = _pairs(predictions, labels)
    if not any(map(entities.entities, (*gold, *predicted))):
        return {"classes": {}}
    report = seqeval_metrics.classification_report(
        gold, predicted, output_dict=True, zero_division=0
    )
    return {
        "classes": {
            name: {
                "precision": float(values["precision"]),
                "recall": float(values["recall"]),
                "f1": float(values["f1-score"]),
                "support": int(values["support"]),
            }
            for name, values in report.items()
        }
    }


def _pairs(
    predictions: Arrays, labels: Sequence[str]
) -> tuple[list[list[str]], list[list[str]]]:
    """The true and the predicted tags of all sentences, as seqeval reads them."""
    predicted = [tags for tags, _ in sentence_tags(predictions, labels).values()]
    gold = gold_tags(predictions, labels)
    spelled = [list(map(entities.with_prefixes, each)) for each in (gold, predicted)]
    return spelled[0], spelled[1]
