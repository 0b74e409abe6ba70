"""SQuAD as a task: what a model of either version is, and what `task.json` says of it.

| | v1.1 | v2.0 |
|---|---|---|
| model | `SpanModel` | `AnswerableSpanModel` |
| loss | (start + end) / 2 | the same, end given start, + answerability / 2 |
| best checkpoint | `f1` | `best_f1`, under the threshold best for the set |
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from albert_tf.model.span_heads import AnswerableSpanModel, SpanModel
from albert_tf.tasks import losses, span_losses
from albert_tf.tasks.answer_metrics import QuestionSet
from albert_tf.tasks.answers import DEFAULT_THRESHOLD, AnswerRules
from albert_tf.tasks.base import Task, WeightedMean

NAMES = {False: "squad_v1", True: "squad_v2"}
_SPANS = ("span_starts", "span_ends", "span_scores")


@dataclasses.dataclass(frozen=True)
class SquadSettings:
    """What a trained model needs to answer as it did in training.

    Attributes:
      version_2: whether questions may have no answer.
      max_seq_length, doc_stride, max_query_length: of windows, in pieces.
      n_best_size, max_answer_length: as `AnswerRules`.
      start_n_top, end_n_top: v2.0's beams.
      threshold: v2.0's: a question is answered if its null score is lower.
    """

    version_2: bool
    max_seq_length: int = 384
    doc_stride: int = 128
    max_query_length: int = 64
    n_best_size: int = 20
    max_answer_length: int = 30
    start_n_top: int = 5
    end_n_top: int = 5
    threshold: float = DEFAULT_THRESHOLD

    def __post_init__(self):
        for name in ("start_n_top", "end_n_top"):
            if getattr(self, name) < 1:
                raise ValueError(
                    f"{name} must be at least 1. Received {getattr(self, name)}."
                )
        if math.isnan(self.threshold):
            raise ValueError("A threshold must be a number, inf or -inf. Received nan.")

    @property
    def rules(self) -> AnswerRules:
        """What may be an answer."""
        return AnswerRules(self.n_best_size, self.max_answer_length)

    def to_dict(self) -> dict[str, Any]:
        """As `task.json` has it: strict JSON, so an infinite threshold is a string."""
        values = {"task_name": NAMES[self.version_2], **dataclasses.asdict(self)}
        del values["version_2"]
        if math.isinf(self.threshold):
            values["threshold"] = str(self.threshold)
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "SquadSettings":
        """Reads `to_dict` back.

        Raises:
          ValueError: another task's, or not of this release.
        """
        values = dict(values)
        task = values.pop("task_name", None)
        if task not in NAMES.values():
            raise ValueError(
                f"The model was trained for {task!r}, not for SQuAD: give a folder "
                "that run_squad.py made."
            )
        try:
            values["threshold"] = float(values["threshold"])
            return cls(version_2=task == NAMES[True], **values)
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"A task.json of SQuAD is of another release ({error}): train again."
            ) from None


def squad_task(
    settings: SquadSettings,
    questions: QuestionSet | None = None,
    head_dropout: float = 0.1,
) -> Task:
    """SQuAD v1.1 or v2.0.

    Its predictions are `span_starts`, `span_ends` int32 [R, K], `span_scores` float32
    [R, K], as `spans.py` has them, and of v2.0 `no_answer_logits` float32 [R].

    Args:
      settings: the version, and how it answers.
      questions: those of the rows that are evaluated, to score them; None: not scored.
      head_dropout: v2.0's, before the answerability classifier's output.
    """

    def score(predicted: Mapping[str, np.ndarray]) -> dict[str, float]:
        return questions.score(questions.proposals(predicted), settings.threshold)

    task = _v2(settings, head_dropout) if settings.version_2 else _v1(settings)
    return dataclasses.replace(task, score=score if questions else None)


def _v1(settings: SquadSettings) -> Task:
    return Task(
        name=NAMES[False],
        build_model=SpanModel,
        read_batch=_read_batch,
        losses={"loss": WeightedMean(span_losses.span_loss, losses.row_weights)},
        metrics={},
        best_metric="f1",
        predictions=span_losses.best_spans(
            settings.n_best_size, settings.max_answer_length
        ),
    )


def _v2(settings: SquadSettings, head_dropout: float) -> Task:
    def build_model(config, seed, rematerialize):
        return AnswerableSpanModel(
            config,
            seed,
            rematerialize,
            start_n_top=settings.start_n_top,
            end_n_top=settings.end_n_top,
            head_dropout=head_dropout,
        )

    def predictions(outputs, batch):
        return {name: outputs[name] for name in (*_SPANS, "no_answer_logits")}

    return Task(
        name=NAMES[True],
        build_model=build_model,
        read_batch=_read_batch,
        losses={
            "span_loss": WeightedMean(
                span_losses.conditional_span_loss, losses.row_weights
            ),
            "half_answerability_loss": WeightedMean(
                span_losses.half_answerability_loss, losses.row_weights
            ),
        },
        metrics={},
        best_metric="best_f1",
        predictions=predictions,
    )


def _read_batch(features: Mapping) -> dict:
    # Places in the text are for the host.
    places = ("piece_starts", "piece_ends")
    return {name: value for name, value in features.items() if name not in places}


def predict(
    task: Task,
    model: tf_keras.Model,
    rows: Sequence[Mapping[str, Any]],
    batch_size: int,
) -> dict[str, np.ndarray]:
    """Predictions for rows in memory, in their order; for few of them.

    Args:
      task: from `squad_task`.
      model: from its `build_model`, with weights.
      rows: `records.squad_features` with places, at least one.
      batch_size: rows at a time.
    """
    names = ("input_ids", "segment_ids", "p_mask", "token_is_max_context")
    parts = []
    for first in range(0, len(rows), batch_size):
        some = rows[first : first + batch_size]
        batch = {name: _padded([row[name] for row in some]) for name in names}
        batch["input_mask"] = _padded([np.ones_like(row["input_ids"]) for row in some])
        parts.append(task.predictions(model(batch), batch))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _padded(values):
    return tf.ragged.constant([each.tolist() for each in values], tf.int32).to_tensor()
