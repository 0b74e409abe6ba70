"""Metrics of question answering, in percent, by the official scorers.

Answers are compared after lower-casing and without punctuation and English articles;
of several gold answers the best match counts.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from official.nlp.tools import squad_evaluate_v1_1, squad_evaluate_v2_0

from albert_tf.task_config import Squad
from albert_tf.tasks.answers import (
    Proposals,
    best_threshold,
    finite_threshold,
    propose,
)
from albert_tf.tasks.base import Arrays

# Question id -> gold answers.
Golds: TypeAlias = Mapping[str, Sequence[str]]


class QuestionSet:
    """The questions of a file, and the rows that were made of them."""

    def __init__(
        self,
        rows: Sequence[Mapping[str, Any]],
        contexts: Mapping[str, str],
        golds: Golds | None,
        task_config: Squad,
    ):
        """Keeps what is needed to answer and to score the questions.

        Args:
          rows: `records.features.squad_features` with places, R of them.
          contexts: question id -> text of its paragraph.
          golds: question id -> gold answers; None: they are unknown.
          task_config: which spans may be answers.
        """
        self._rows, self._contexts, self._golds = rows, contexts, golds
        self._task_config = task_config

    def of_rows(self, places: np.ndarray) -> "QuestionSet":
        """The questions of some of the rows, of which all rows are among them.

        Args:
          places: of the rows, int64.
        """
        if len(places) == len(self._rows):
            return self
        rows = [self._rows[place] for place in places]
        ids = {bytes(np.asarray(r["question_id"]).item()).decode() for r in rows}
        golds = self._golds
        return QuestionSet(
            rows,
            {name: text for name, text in self._contexts.items() if name in ids},
            golds and {name: golds[name] for name in golds if name in ids},
            self._task_config,
        )

    def proposals(self, predictions: Arrays) -> Proposals:
        """Answers from the predictions of all rows, in their order; see `propose`."""
        return propose(self._rows, predictions, self._contexts, self._task_config)

    def tune(self, proposals: Proposals) -> float:
        """Returns the threshold of v2.0 for the best F1, which may be inf or -inf.

        Raises:
          ValueError: there are no gold answers.
        """
        if self._golds is None or proposals.null_scores is None:
            raise ValueError("There are no gold answers to tune the threshold on.")
        texts = proposals.best_texts()
        return _best(self._golds, texts, proposals.null_scores)["f1"][1]

    def score(self, proposals: Proposals, threshold: float) -> dict[str, float]:
        """Metrics of v1.1, `score_v1`, or of v2.0, `score_v2` and `best_thresholds`.

        Args:
          proposals: answers to all questions.
          threshold: v2.0: decides which questions are answered.
        Returns:
          Name -> value; empty without gold answers.
        """
        if self._golds is None:
            return {}
        predictions = proposals.predictions(threshold)
        if proposals.null_scores is None:
            return score_v1(self._golds, predictions)
        return {
            **score_v2(self._golds, predictions),
            **best_thresholds(
                self._golds, proposals.best_texts(), proposals.null_scores
            ),
        }


def score_v1(golds: Golds, predictions: Mapping[str, str]) -> dict[str, float]:
    """Computes `exact_match` and `f1` of SQuAD v1.1.

    Args:
      golds: question id -> gold answers, at least one each.
      predictions: question id -> answer, for all of them.
    Raises:
      ValueError: a question lacks a prediction or a gold answer.
    """
    _check_all_predicted(golds, predictions)
    for question, answers in golds.items():
        if not answers:
            raise ValueError(
                f"Question {question!r} has no gold answer: score it as v2.0."
            )
    metrics = squad_evaluate_v1_1.evaluate(_as_dataset(golds), predictions)
    return {
        "exact_match": 100.0 * metrics["exact_match"],
        "f1": 100.0 * metrics["final_f1"],
    }


def score_v2(golds: Golds, predictions: Mapping[str, str]) -> dict[str, float]:
    """Computes `exact` and `f1` of SQuAD v2.0.

    They are computed of all questions and, as `HasAns_*` and `NoAns_*`, of those with
    and without an answer (where there are any).

    Args:
      golds: question id -> gold answers; none if it has no answer.
      predictions: question id -> answer, "" for none, for all of them. The threshold
        has already been applied; the scorer gets no null scores, so that it applies
        none of its own.
    Raises:
      ValueError: a question lacks a prediction.
    """
    _check_all_predicted(golds, predictions)
    metrics = squad_evaluate_v2_0.evaluate(_as_dataset(golds), predictions)
    names = [
        f"{group}{name}"
        for group in ("", "HasAns_", "NoAns_")
        for name in ("exact", "f1", "total")
    ]
    return {name: metrics[name] for name in names if name in metrics}


def best_thresholds(
    golds: Golds, texts: Mapping[str, str], null_scores: Mapping[str, float]
) -> dict[str, float]:
    """Finds the thresholds best for this very file, and the metrics under them.

    Such metrics are an upper bound, as the official script reports it; for other files
    use the threshold that was tuned on the development set. The thresholds are finite:
    one below all null scores is the lowest of them, one above all is next to the
    highest.

    Args:
      golds: question id -> gold answers; none if it has no answer.
      texts: question id -> the model's best text, whether or not it would answer.
      null_scores: question id -> null score, see `answers.py`.
    Returns:
      `best_exact`, `best_exact_thresh`, `best_f1`, `best_f1_thresh`.
    """
    metrics: dict[str, float] = {}
    for name, (best, threshold) in _best(golds, texts, null_scores).items():
        metrics[f"best_{name}"] = best
        metrics[f"best_{name}_thresh"] = finite_threshold(
            threshold, list(null_scores.values())
        )
    return metrics


def _best(
    golds: Golds, texts: Mapping[str, str], null_scores: Mapping[str, float]
) -> dict[str, tuple[float, float]]:
    """Maps "exact" and "f1" to the best value and its threshold, maybe infinite."""
    _check_all_predicted(golds, texts)
    answered = [_score_one(golds[q], texts[q]) for q in golds]
    empty = [_score_one(golds[q], "") for q in golds]
    scores = [null_scores[question] for question in golds]
    return {
        name: best_threshold(
            scores, [pair[index] for pair in answered], [pair[index] for pair in empty]
        )
        for index, name in enumerate(("exact", "f1"))
    }


def _score_one(golds: Sequence[str], text: str) -> tuple[float, float]:
    """`exact` and `f1` of one answer."""
    metrics = squad_evaluate_v2_0.evaluate(_as_dataset({"": golds}), {"": text})
    return metrics["exact"], metrics["f1"]


def _as_dataset(golds: Golds) -> list[dict[str, Any]]:
    """The part of a SQuAD file that the official scorers read."""
    questions = [
        {"id": question, "answers": [{"text": text} for text in answers]}
        for question, answers in golds.items()
    ]
    return [{"paragraphs": [{"qas": questions}]}]


def _check_all_predicted(golds: Golds, predictions: Mapping[str, str]) -> None:
    if not golds:
        raise ValueError("There is no question to score.")
    missing = golds.keys() - predictions.keys()
    if missing:
        raise ValueError(
            f"{len(missing)} questions have no prediction, {min(missing)!r} among "
            "them: predict the file that is scored."
        )
