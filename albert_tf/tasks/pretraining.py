"""The pretraining tasks."""

import dataclasses
from collections.abc import Mapping

from albert_tf.config import AlbertConfig
from albert_tf.model.heads import (
    PretrainingModel,
)
from albert_tf.tasks import losses, metrics
from albert_tf.tasks.base import Task, WeightedMean


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
