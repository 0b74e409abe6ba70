"""The pretraining tasks."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from albert_tf.config import AlbertConfig
from albert_tf.model.heads import PretrainingModel
from albert_tf.records.features import stated_pretraining_features
from albert_tf.tasks import losses, metrics
from albert_tf.tasks.base import Task, WeightedMean


def _read_batch(features: Mapping[str, Any]) -> dict[str, Any]:
    batch = dict(features)
    # Records use the original's name; 0 in order, 1 swapped, -1 without a label.
    labels = batch.pop("next_sentence_labels")
    if "document_ids" in batch:
        batch["sentence_order_label"] = labels
        for name in ("positions", "weights"):
            batch[f"sentence_order_{name}"] = batch.pop(f"next_sentence_{name}")
    else:
        batch["sentence_order_label"] = labels[:, 0]
    # Stored with static masks only, and not needed by these.
    batch.pop("token_boundary", None)
    return batch


PRETRAINING = Task(
    name="pretraining",
    build_model=PretrainingModel,
    read_batch=_read_batch,
    losses={
        "masked_lm_loss": WeightedMean(losses.masked_lm, losses.masked_lm_weights),
        "sentence_order_loss": WeightedMean(
            losses.sentence_order, losses.sentence_order_weights
        ),
    },
    metrics={
        "masked_lm_accuracy": WeightedMean(
            metrics.masked_lm_correct, losses.masked_lm_weights
        ),
        "sentence_order_accuracy": WeightedMean(
            metrics.sentence_order_correct, losses.sentence_order_weights
        ),
    },
    best_metric="masked_lm_accuracy",
    pair_objective="sop",
    features=stated_pretraining_features,
    can_grow=True,
)


def _renamed(numbers: Mapping[str, WeightedMean]) -> dict[str, WeightedMean]:
    """The same losses or metrics, named after the next sentence."""
    return {
        name.replace("sentence_order", "next_sentence"): number
        for name, number in numbers.items()
    }


# The same on rows of the objective of BERT, whose labels say if the second segment is
# the next text.
NEXT_SENTENCE = dataclasses.replace(
    PRETRAINING,
    losses=_renamed(PRETRAINING.losses),
    metrics=_renamed(PRETRAINING.metrics),
    pair_objective="nsp",
)


def _build_without_sentence_order(
    config: AlbertConfig, **options: Any
) -> PretrainingModel:
    model = PretrainingModel(config, **options)
    # As the pooler, the head gets no gradient.
    model.encoder.freeze_pooler()
    model.sentence_order.trainable = False
    return model


# The condition "None" of the paper's Table 5: only the loss of masked tokens.
MASKED_LM = dataclasses.replace(
    PRETRAINING,
    name="masked_lm",
    build_model=_build_without_sentence_order,
    losses={"masked_lm_loss": PRETRAINING.losses["masked_lm_loss"]},
    metrics={"masked_lm_accuracy": PRETRAINING.metrics["masked_lm_accuracy"]},
    pair_objective=None,
)


def pretraining_task(pair_objective: str | None, sentence_order_loss: bool) -> Task:
    """Returns the pretraining task of some rows.

    Args:
      pair_objective: what the two segments of a row are, as the sidecar says: "sop",
        "nsp" or "none"; None: as for "sop", the sidecar does not say it.
      sentence_order_loss: whether the labels of the pairs are learned.
    Raises:
      ValueError: the rows have no such labels.
    """
    if not sentence_order_loss:
        return MASKED_LM
    if pair_objective == "none":
        raise ValueError(
            "Rows of pair_objective=none have all segments in order, so there is no "
            "sentence order to learn or to score: pass --nosentence_order_loss, or "
            "rows made with --pair_objective=sop."
        )
    return NEXT_SENTENCE if pair_objective == "nsp" else PRETRAINING
