"""Scored spans and the places of their pieces -> answers, n-best lists, thresholds.

Every question gets an answer, from whichever of its windows; "" says that there is
none, and its n-best list then says why.

v2.0 asks whether to answer at all. A question's null score is a logit: the higher, the
likelier it has no answer (the original calls it a log odds). One comparison decides,
here, when a threshold is tuned and when it is used: answer if null score < threshold.
The original tunes with <= and answers with <, so the very question that defines the
threshold goes wrong, and it reports with a second, fixed threshold of 1.0.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

# Half of a chance that there is no answer: what a model means if nothing is tuned.
DEFAULT_THRESHOLD = 0.0
# Scores of what may not be chosen lie near -1e30; real ones never come near this.
NO_SCORE = -1e20


@dataclasses.dataclass(frozen=True)
class AnswerRules:
    """What may be an answer, with the original's defaults.

    Attributes:
      n_best_size: most answers of a question in its list.
      max_answer_length: most pieces of an answer.
    """

    n_best_size: int = 20
    max_answer_length: int = 30

    def __post_init__(self):
        for field in dataclasses.fields(self):
            if getattr(self, field.name) < 1:
                raise ValueError(
                    f"{field.name} must be at least 1. "
                    f"Received {getattr(self, field.name)}."
                )


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A possible answer.

    Attributes:
      text: as the paragraph has it.
      start, end: half-open range of characters in the paragraph.
      score: v1.1: start logit + end logit; v2.0: sum of their log probabilities; of
        several models: log of the mean probability.
      probability: among the candidates of the question.
    """

    text: str
    start: int
    end: int
    score: float
    probability: float


@dataclasses.dataclass(frozen=True)
class Proposals:
    """What a model, or several, have to say on a set of questions.

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
            question: found[0].text if found else ""
            for question, found in self.candidates.items()
        }

    def predictions(self, threshold: float = DEFAULT_THRESHOLD) -> dict[str, str]:
        """Question id -> answer, "" for none, as `predictions.json` has it.

        Args:
          threshold: what null scores are compared with, -inf and inf included; without
            null scores (v1.1) it has no effect.
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
            question: [dataclasses.asdict(candidate) for candidate in found]
            for question, found in self.candidates.items()
        }
        for question, reason in self.reasons.items():
            listed[question] = [{"text": "", "probability": 0.0, "reason": reason}]
        return listed


def propose(
    rows: Iterable[Mapping[str, Any]],
    outputs: Mapping[str, np.ndarray],
    contexts: Mapping[str, str],
    rules: AnswerRules,
) -> Proposals:
    """Answers from the spans that a model found in each window.

    A span counts if it lies in the paragraph, is not longer than allowed, and starts
    where its window shows most context.

    Args:
      rows: `records.squad_features`, R of them.
      outputs: in the order of the rows: `span_starts`, `span_ends` int [R, K],
        inclusive positions in the row; `span_scores` float [R, K]; for v2.0
        `no_answer_logits` float [R], of which a question takes its windows' lowest.
      contexts: question id -> text of its paragraph.
      rules: what may be an answer.
    Raises:
      ValueError: a question of `contexts` has no row, or a row is of none of them.
    """
    found: dict[str, dict[str, tuple]] = {question: {} for question in contexts}
    null_scores: dict[str, float] = {}
    has_pieces: dict[str, bool] = {}
    for index, row in enumerate(rows):
        question = bytes(np.asarray(row["question_id"]).item()).decode()
        if question not in contexts:
            raise ValueError(
                f"Rows have a question {question!r} that the file has not: make them "
                "of this file again."
            )
        has_pieces[question] = has_pieces.get(question, False) or bool(
            np.any(row["token_is_max_context"])
        )
        spans = [
            outputs[f"span_{name}"][index] for name in ("starts", "ends", "scores")
        ]
        _collect(found[question], row, spans, contexts[question], rules)
        if "no_answer_logits" in outputs:
            logit = float(outputs["no_answer_logits"][index])
            null_scores[question] = min(logit, null_scores.get(question, math.inf))
    missing = contexts.keys() - has_pieces.keys()
    if missing:
        raise ValueError(
            f"{len(missing)} questions have no row, {min(missing)!r} among them: make "
            "the rows of this file again."
        )
    candidates = {q: _best(spans, rules.n_best_size) for q, spans in found.items()}
    reasons = {
        question: "no valid span" if has_pieces[question] else "empty paragraph"
        for question, best in candidates.items()
        if not best
    }
    has_null_scores = "no_answer_logits" in outputs
    return Proposals(candidates, null_scores if has_null_scores else None, reasons)


def _collect(found, row, spans, context, rules) -> None:
    """Keeps the best span of each text among those of one window that are valid."""
    starts, ends, scores = spans
    length = len(row["token_is_max_context"])
    may_start = np.asarray(row["token_is_max_context"]) == 1
    may_end = np.asarray(row["p_mask"]) == 0
    pieces = ends - starts + 1
    valid = (starts < length) & (ends < length) & (scores > NO_SCORE)
    valid &= (pieces >= 1) & (pieces <= rules.max_answer_length)
    valid[valid] = may_start[starts[valid]] & may_end[ends[valid]]
    for start, end, score in zip(
        starts[valid], ends[valid], scores[valid], strict=True
    ):
        place = int(row["piece_starts"][start]), int(row["piece_ends"][end])
        text = context[slice(*place)]
        if text and (text not in found or score > found[text][0]):
            found[text] = (float(score), *place)


def _best(found: Mapping[str, tuple], n_best_size: int) -> list[Candidate]:
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


def average(proposals: Sequence[Proposals], n_best_size: int) -> Proposals:
    """An ensemble's answers (section 4.9): a text's probability is its mean over the
    models, 0 where a model does not propose it; null scores are averaged as they are.

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
            [each.candidates[question] for each in proposals], n_best_size
        )
        for question in first.candidates
    }
    null_scores = None
    if first.null_scores is not None:
        null_scores = {
            question: sum(each.null_scores[question] for each in proposals)
            / len(proposals)
            for question in first.candidates
        }
    reasons = {q: first.reasons[q] for q, best in candidates.items() if not best}
    return Proposals(candidates, null_scores, reasons)


def _average_candidates(lists, n_best_size: int) -> list[Candidate]:
    totals: dict[str, float] = {}
    likeliest: dict[str, Candidate] = {}
    for candidate in (candidate for found in lists for candidate in found):
        text = candidate.text
        totals[text] = totals.get(text, 0.0) + candidate.probability / len(lists)
        if text not in likeliest or (
            candidate.probability > likeliest[text].probability
        ):
            likeliest[text] = candidate
    best = sorted(totals, key=lambda text: (-totals[text], likeliest[text].start))
    return [
        dataclasses.replace(
            likeliest[text],
            # A probability so small that it is 0 has a score, too.
            score=math.log(max(totals[text], np.finfo(np.float64).tiny)),
            probability=totals[text],
        )
        for text in best[:n_best_size]
    ]


def is_answered(null_score: float, threshold: float) -> bool:
    """Whether a question is answered; the only comparison of the two. Not if the score
    is not a number."""
    return null_score < threshold


def best_threshold(
    null_scores: Sequence[float],
    if_answered: Sequence[float],
    if_not: Sequence[float],
) -> tuple[float, float]:
    """The threshold under which questions score best.

    It lies between two null scores, below all (-inf: answer none) or above all (inf:
    answer all). Of several equally good ones it is the lowest. In float32 as in float64
    it is on the same side of every score.

    Args:
      null_scores: float32 values [Q].
      if_answered: what each question scores if it is answered, [Q].
      if_not: what it scores with "", [Q].
    Returns:
      the mean score, and the threshold.
    """
    scores = np.asarray(null_scores, np.float64)
    gains = np.asarray(if_answered, np.float64) - np.asarray(if_not, np.float64)
    # Not a number, or infinite: no threshold answers it.
    finite = scores < math.inf
    distinct, group = np.unique(scores[finite], return_inverse=True)
    # Sum of scores if the questions of the lowest 0, 1, ... groups are answered.
    group_gains = np.bincount(group, gains[finite], minlength=len(distinct))
    totals = np.sum(if_not) + np.concatenate([[0.0], np.cumsum(group_gains)])
    # Sums of the same numbers in another order differ in their last digits.
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
