"""Predictions of question answering -> answers and their scores, in percent, by the
official scorers.

Answers are compared after lower-casing and without punctuation and English articles;
of several gold answers the best match counts.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from official.nlp.tools import squad_evaluate_v1_1, squad_evaluate_v2_0

from albert_tf.tasks.answers import AnswerRules, Proposals, best_threshold, propose

Golds = Mapping[str, Sequence[str]]


class QuestionSet:
    """The questions of a file, whose answers the predictions for its rows hold."""

    def __init__(
        self,
        rows: Sequence[Mapping[str, Any]],
        contexts: Mapping[str, str],
        golds: Golds | None,
        rules: AnswerRules,
    ):
        """Args:
        rows: `records.squad_features` with places, R of them.
        contexts: question id -> text of its paragraph.
        golds: question id -> gold answers; None: nobody knows them.
        rules: what may be an answer.
        """
        self._rows, self._contexts, self._rules = rows, contexts, rules
        self._golds = golds

    def proposals(self, predicted: Mapping[str, np.ndarray]) -> Proposals:
        """Answers from what was predicted for all rows, in their order, as `propose`
        takes it."""
        return propose(self._rows, predicted, self._contexts, self._rules)

    def score(self, proposals: Proposals, threshold: float) -> dict[str, float]:
        """v1.1: `score_v1`. v2.0: `score_v2` at a threshold, and `best_thresholds`.
        Without gold answers: nothing."""
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
    """`exact_match` and `f1` of SQuAD v1.1.

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
    scores = squad_evaluate_v1_1.evaluate(_as_dataset(golds), predictions)
    return {
        "exact_match": 100.0 * scores["exact_match"],
        "f1": 100.0 * scores["final_f1"],
    }


def score_v2(golds: Golds, predictions: Mapping[str, str]) -> dict[str, float]:
    """`exact` and `f1` of SQuAD v2.0, of all questions and as `HasAns_*`, `NoAns_*` of
    those with and without an answer (where there are any).

    Args:
      golds: question id -> gold answers; none if it has no answer.
      predictions: question id -> answer, "" for none, for all of them. A threshold has
        been applied already; the scorer gets no scores, so that its own one is idle.
    Raises:
      ValueError: a question lacks a prediction.
    """
    _check_all_predicted(golds, predictions)
    scores = squad_evaluate_v2_0.evaluate(_as_dataset(golds), predictions)
    names = [
        f"{group}{name}"
        for group in ("", "HasAns_", "NoAns_")
        for name in ("exact", "f1", "total")
    ]
    return {name: scores[name] for name in names if name in scores}


def best_thresholds(
    golds: Golds, texts: Mapping[str, str], null_scores: Mapping[str, float]
) -> dict[str, float]:
    """The thresholds best for this very file, and the scores that they would give.

    Such scores say what a model could reach, as the official script reports them; the
    threshold for other files is one that was tuned on the development set.

    Args:
      golds: question id -> gold answers; none if it has no answer.
      texts: question id -> the model's best text, whether or not it would answer.
      null_scores: question id -> see `answers.py`.
    Returns:
      `best_exact`, `best_exact_thresh`, `best_f1`, `best_f1_thresh`.
    """
    _check_all_predicted(golds, texts)
    answered = [_score_one(golds[q], texts[q]) for q in golds]
    empty = [_score_one(golds[q], "") for q in golds]
    scores = [null_scores[question] for question in golds]
    result = {}
    for index, name in enumerate(("exact", "f1")):
        best, threshold = best_threshold(
            scores, [pair[index] for pair in answered], [pair[index] for pair in empty]
        )
        result |= {f"best_{name}": best, f"best_{name}_thresh": threshold}
    return result


def _score_one(golds: Sequence[str], text: str) -> tuple[float, float]:
    scores = squad_evaluate_v2_0.evaluate(_as_dataset({"": golds}), {"": text})
    return scores["exact"], scores["f1"]


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
