"""The tasks of SQuAD, version 1.1 and 2.0.

| | v1.1 | v2.0 |
|---|---|---|
| model | `SpanModel` | `AnswerableSpanModel` |
| loss | (start + end) / 2 | the same, end given start, + answerability / 2 |
| best checkpoint | `f1` | `best_f1`, under the threshold best for the data set |
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from albert_tf.model.span_heads import AnswerableSpanModel, SpanModel
from albert_tf.records.features import squad_features
from albert_tf.task_config import Squad
from albert_tf.tasks import losses, span_losses
from albert_tf.tasks.answer_metrics import QuestionSet
from albert_tf.tasks.base import Arrays, Task, Tensors, WeightedMean

_V2_PREDICTIONS = ("span_starts", "span_ends", "span_scores", "no_answer_logits")
# Character ranges of tokens, which only the host needs.
_HOST_FEATURES = ("piece_starts", "piece_ends")
_MODEL_FEATURES = ("input_ids", "segment_ids", "p_mask", "token_is_max_context")


def squad_task(
    task_config: Squad, dropout: float = 0.0, questions: QuestionSet | None = None
) -> Task:
    """Builds the task of SQuAD v1.1 or v2.0.

    Its predictions are `span_starts`, `span_ends` int32 [R, K], `span_scores` float32
    [R, K], as `span_losses.best_spans` returns them, and for v2.0 `no_answer_logits`
    float32 [R].

    Args:
      task_config: version, lengths, beams and threshold.
      dropout: v2.0: probability of dropping a value of the answerability classifier's
        last layer.
      questions: questions of the rows that are evaluated; None: no `host_metrics`.
    """
    task = _v2(task_config, dropout) if task_config.version_2 else _v1(task_config)
    if questions is None:
        return task

    def host_metrics(predictions: Arrays) -> dict[str, float]:
        asked = questions
        if "row_index" in predictions:
            asked = questions.of_rows(predictions["row_index"])
        return asked.score(asked.proposals(predictions), task_config.threshold)

    return dataclasses.replace(task, host_metrics=host_metrics)


def _v1(task_config: Squad) -> Task:
    return Task(
        name=task_config.task_name,
        build_model=SpanModel,
        read_batch=_read_batch,
        losses={"loss": WeightedMean(span_losses.span_loss, losses.row_weights)},
        best_metric="f1",
        features=lambda _: squad_features(with_places=False),
        predictions=span_losses.best_spans(
            task_config.n_best_size, task_config.max_answer_length
        ),
    )


def _v2(task_config: Squad, dropout: float) -> Task:
    return Task(
        name=task_config.task_name,
        build_model=functools.partial(
            AnswerableSpanModel,
            start_n_top=task_config.start_n_top,
            end_n_top=task_config.end_n_top,
            head_dropout=dropout,
        ),
        read_batch=_read_batch,
        losses={
            "span_loss": WeightedMean(
                span_losses.conditional_span_loss, losses.row_weights
            ),
            "half_answerability_loss": WeightedMean(
                span_losses.half_answerability_loss, losses.row_weights
            ),
        },
        best_metric="best_f1",
        features=lambda _: squad_features(with_places=False),
        predictions=_v2_predictions,
    )


def _v2_predictions(outputs: Tensors, batch: Tensors) -> dict[str, tf.Tensor]:
    return {name: outputs[name] for name in _V2_PREDICTIONS}


def _read_batch(features: Mapping[str, Any]) -> dict[str, Any]:
    return {name: v for name, v in features.items() if name not in _HOST_FEATURES}


def predict(
    task: Task,
    model: tf_keras.Model,
    rows: Sequence[Mapping[str, Any]],
    batch_size: int,
) -> dict[str, np.ndarray]:
    """Predicts a few rows that are in memory; predictions are in their order.

    Args:
      task: task of SQuAD.
      model: model of the task, with weights.
      rows: `records.features.squad_features` with places, at least one row.
      batch_size: rows in a batch.
    """
    make_predictions = task.predictions
    if make_predictions is None:
        raise ValueError(f"The task {task.name} keeps no predictions: pass SQuAD's.")
    names = (*_MODEL_FEATURES, "input_mask")
    spec = {name: tf.TensorSpec([None, None], tf.int32) for name in names}

    # A function, since a call of the model itself takes almost twice as long.
    @tf.function(input_signature=[spec], autograph=False)
    def predictions(batch):
        return make_predictions(model(batch), batch)

    parts = []
    for first in range(0, len(rows), batch_size):
        part = rows[first : first + batch_size]
        batch = {name: _padded([row[name] for row in part]) for name in _MODEL_FEATURES}
        batch["input_mask"] = _padded([np.ones_like(row["input_ids"]) for row in part])
        parts.append(predictions(batch))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _padded(rows: Sequence[np.ndarray]) -> tf.Tensor:
    return tf.ragged.constant([row.tolist() for row in rows], tf.int32).to_tensor()
