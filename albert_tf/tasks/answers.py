"""Answers of question answering: from scored spans to texts, n-best lists, thresholds.

Every question gets an answer from one of its windows, or "" if there is none; its
n-best list then says why.

In v2.0 a question may have no answer. Its null score is a logit: the higher, the
likelier it has no answer (the original calls it log odds). One comparison decides, when
a threshold is tuned and when it is used: a question is answered if its null score is
below the threshold. The original tunes with <= and answers with <, so that it is wrong
about the very question that defines the threshold, and it reports metrics under a
second, fixed threshold of 1.0.
"""

import dataclasses
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from albert_tf.task_config import SPAN_AVERAGES, Squad

# Spans that may not be chosen score about -1e30; real scores are far above this bound.
NO_SCORE = -1e20

# A text's best span in a question's windows: score and range of characters.
_Span: TypeAlias = tuple[float, int, int]


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A possible answer.

    Attributes:
      text: text as it stands in the paragraph.
      start, end: half-open range of characters in the paragraph.
      score: v1.1: start logit + end logit; v2.0: sum of their log probabilities; of
        several models: as `average` says, a log probability.
      probability: among the candidates of the question.
    """

    text: str
    start: int
    end: int
    score: float
    probability: float


@dataclasses.dataclass(frozen=True)
class Proposals:
    """Answers that a model, or several, propose to the questions of a data set.

    Attributes:
      candidates: question id -> distinct texts, best first; empty: see `reasons`.
      null_scores: question id -> null score; None in v1.1.
      reasons: question id -> why it has no candidate.
    """

    candidates: Mapping[str, Sequence[Candidate]]
    null_scores: Mapping[str, float] | None
    reasons: Mapping[str, str]

    def best_texts(self) -> dict[str, str]:
        """Question id -> the likeliest text, "" without candidates; no threshold."""
        return {
            question: candidates[0].text if candidates else ""
            for question, candidates in self.candidates.items()
        }

    def predictions(self, threshold: float = Squad.threshold) -> dict[str, str]:
        """Question id -> answer, "" for none, as `predictions.json` has it.

        Args:
          threshold: value that null scores are compared with, which may be -inf or inf;
            without null scores (v1.1) it has no effect.
        """
        texts = self.best_texts()
        if self.null_scores is None:
            return texts
        return {
            question: text if is_answered(self.null_scores[question], threshold) else ""
            for question, text in texts.items()
        }

    def n_best(self) -> dict[str, list[dict[str, Any]]]:
        """Question id -> its candidates, as `nbest_predictions.json` has them."""
        listed = {
            question: [dataclasses.asdict(candidate) for candidate in candidates]
            for question, candidates in self.candidates.items()
        }
        for question, reason in self.reasons.items():
            listed[question] = [{"text": "", "probability": 0.0, "reason": reason}]
        return listed


def propose(
    rows: Iterable[Mapping[str, Any]],
    outputs: Mapping[str, np.ndarray],
    contexts: Mapping[str, str],
    task_config: Squad,
) -> Proposals:
    """Makes answers from the spans that a model found in each window.

    A span is valid if it lies in the paragraph, is not longer than allowed, and starts
    where its window shows most context.

    Args:
      rows: `records.features.squad_features` with places, R of them.
      outputs: in the order of the rows: `span_starts`, `span_ends` int [R, K],
        inclusive positions in the row; `span_scores` float [R, K]; for v2.0
        `no_answer_logits` float [R]. The null score of a question is the lowest logit
        of its windows.
      contexts: question id -> text of its paragraph.
      task_config: lengths of n-best lists and of answers.
    Raises:
      ValueError: a question of `contexts` has no row, or a row belongs to none of them.
    """
    spans: dict[str, dict[str, _Span]] = {question: {} for question in contexts}
    null_scores: dict[str, float] = {}
    has_tokens: dict[str, bool] = {}
    for index, row in enumerate(rows):
        question = bytes(np.asarray(row["question_id"]).item()).decode()
        if question not in contexts:
            raise ValueError(
                f"Rows have a question {question!r} that the file has not: make the "
                "rows of this file again."
            )
        has_tokens[question] = has_tokens.get(question, False) or bool(
            np.any(row["token_is_max_context"])
        )
        row_outputs = [
            outputs[f"span_{name}"][index] for name in ("starts", "ends", "scores")
        ]
        valid = _valid_spans(row, row_outputs, task_config.max_answer_length)
        _keep_best(spans[question], valid, contexts[question])
        if "no_answer_logits" in outputs:
            logit = float(outputs["no_answer_logits"][index])
            null_scores[question] = min(logit, null_scores.get(question, math.inf))
    missing = contexts.keys() - has_tokens.keys()
    if missing:
        raise ValueError(
            f"{len(missing)} questions have no row, {min(missing)!r} among them: make "
            "the rows of this file again."
        )
    candidates = {
        question: _candidates(found, task_config.n_best_size)
        for question, found in spans.items()
    }
    reasons = {
        question: "no valid span" if has_tokens[question] else "empty paragraph"
        for question, best in candidates.items()
        if not best
    }
    has_null_scores = "no_answer_logits" in outputs
    return Proposals(candidates, null_scores if has_null_scores else None, reasons)


def _valid_spans(
    row: Mapping[str, Any], row_outputs: Sequence[np.ndarray], max_answer_length: int
) -> Iterator[_Span]:
    """The spans of one window that may be answers."""
    starts, ends, scores = row_outputs
    length = len(row["token_is_max_context"])
    may_start = np.asarray(row["token_is_max_context"]) == 1
    may_end = np.asarray(row["p_mask"]) == 0
    tokens = ends - starts + 1
    valid = (starts < length) & (ends < length) & (scores > NO_SCORE)
    valid &= (tokens >= 1) & (tokens <= max_answer_length)
    valid[valid] = may_start[starts[valid]] & may_end[ends[valid]]
    for start, end, score in zip(
        starts[valid], ends[valid], scores[valid], strict=True
    ):
        yield float(score), int(row["piece_starts"][start]), int(row["piece_ends"][end])


def _keep_best(found: dict[str, _Span], spans: Iterable[_Span], context: str) -> None:
    """Adds spans under their texts; of each text the best span is kept."""
    for span in spans:
        score, start, end = span
        text = context[start:end]
        if text and (text not in found or score > found[text][0]):
            found[text] = span


def _candidates(found: Mapping[str, _Span], n_best_size: int) -> list[Candidate]:
    """The best texts as candidates, best first."""
    best = sorted(found.items(), key=lambda item: (-item[1][0], *item[1][1:]))
    best = best[:n_best_size]
    if not best:
        return []
    scores = np.array([score for _, (score, _, _) in best])
    weights = np.exp(scores - scores.max())
    return [
        Candidate(text, start, end, score, float(weight / weights.sum()))
        for (text, (score, start, end)), weight in zip(best, weights, strict=True)
    ]


def average(
    proposals: Sequence[Proposals], n_best_size: int, averaged: str = SPAN_AVERAGES[0]
) -> Proposals:
    """Averages the answers of several models (section 4.9 of the paper).

    Null scores are averaged as they are.

    Args:
      proposals: answers of each model.
      n_best_size: most answers in a question's list.
      averaged: "log_probabilities", of the models that propose a text, as the original;
        or "probabilities", counted as 0 where a model does not propose it.
    Raises:
      ValueError: no model, models of other questions, or of both versions of SQuAD.
    """
    if not proposals:
        raise ValueError("An ensemble needs at least one model. Received none.")
    first = proposals[0]
    for other in proposals[1:]:
        if other.candidates.keys() != first.candidates.keys():
            raise ValueError("Models of an ensemble must answer the same questions.")
        if (other.null_scores is None) != (first.null_scores is None):
            raise ValueError(
                "Models of v1.1 and of v2.0 cannot make one ensemble: give models of "
                "one version."
            )
    candidates = {
        question: _average_candidates(
            [model.candidates[question] for model in proposals], n_best_size, averaged
        )
        for question in first.candidates
    }
    known = [model.null_scores for model in proposals if model.null_scores is not None]
    null_scores = None
    if known:
        null_scores = {
            question: sum(scores[question] for scores in known) / len(known)
            for question in first.candidates
        }
    reasons = {q: first.reasons[q] for q, best in candidates.items() if not best}
    return Proposals(candidates, null_scores, reasons)


def _average_candidates(
    lists: Sequence[Sequence[Candidate]], n_best_size: int, averaged: str
) -> list[Candidate]:
    found: dict[str, list[float]] = {}
    likeliest: dict[str, Candidate] = {}
    for candidates in lists:
        # A model may propose a text at several places.
        of_model: dict[str, float] = {}
        for candidate in candidates:
            text, share = candidate.text, candidate.probability
            of_model[text] = of_model.get(text, 0.0) + share
            if text not in likeliest or share > likeliest[text].probability:
                likeliest[text] = candidate
        for text, share in of_model.items():
            found.setdefault(text, []).append(share)
    if averaged == "probabilities":
        scores = {text: _log(sum(each) / len(lists)) for text, each in found.items()}
    else:
        scores = {text: statistics.fmean(map(_log, p)) for text, p in found.items()}
    best = sorted(scores, key=lambda text: (-scores[text], likeliest[text].start))
    return [
        dataclasses.replace(
            likeliest[text], score=scores[text], probability=math.exp(scores[text])
        )
        for text in best[:n_best_size]
    ]


def _log(probability: float) -> float:
    """The logarithm; finite of a probability that was rounded to 0, too."""
    return math.log(max(probability, np.finfo(np.float64).tiny))


def is_answered(null_score: float, threshold: float) -> bool:
    """True if a question is answered; never if its null score is NaN.

    This is the only place that compares the two.
    """
    return null_score < threshold


def best_threshold(
    null_scores: Sequence[float],
    if_answered: Sequence[float],
    if_not: Sequence[float],
) -> tuple[float, float]:
    """Finds the threshold under which the mean metric of questions is highest.

    It lies between two null scores, below all (-inf: answer none) or above all (inf:
    answer all). Of several equally good thresholds it is the lowest. In float32 as in
    float64 it is on the same side of every null score.

    Args:
      null_scores: float32 values [Q].
      if_answered: metric of each question if it is answered, [Q].
      if_not: metric of each question if its answer is "", [Q].
    Returns:
      (mean metric, threshold).
    """
    scores = np.asarray(null_scores, np.float64)
    gains = np.asarray(if_answered, np.float64) - np.asarray(if_not, np.float64)
    # No threshold answers a question whose null score is NaN or infinite.
    finite = scores < math.inf
    distinct, group = np.unique(scores[finite], return_inverse=True)
    # Sum of metrics if the questions of the lowest 0, 1, ... groups are answered.
    group_gains = np.bincount(group, gains[finite], minlength=len(distinct))
    totals = np.sum(if_not) + np.concatenate([[0.0], np.cumsum(group_gains)])
    # Sums of the same numbers in different orders differ in their last digits.
    answered = int(np.argmax(totals > totals.max() - 1e-9))
    return float(totals[answered]) / len(scores), _threshold_above(distinct, answered)


def _threshold_above(distinct: np.ndarray, answered: int) -> float:
    if answered == 0:
        return -math.inf
    if answered == len(distinct):
        return math.inf
    below, above = distinct[answered - 1], distinct[answered]
    middle = float(np.float32(below + (above - below) / 2))
    return middle if below < middle <= above else float(above)


def finite_threshold(threshold: float, null_scores: Sequence[float]) -> float:
    """Returns a finite threshold that decides some questions as an infinite one does.

    Args:
      threshold: any threshold; a finite one is returned as it is.
      null_scores: float32 values [Q] of the questions.
    """
    if math.isfinite(threshold):
        return threshold
    scores = np.asarray(null_scores, np.float32)
    scores = scores[np.isfinite(scores)]
    if not len(scores):
        return 0.0
    if threshold < 0:
        return float(scores.min())
    return float(np.nextafter(scores.max(), np.float32(np.inf)))
