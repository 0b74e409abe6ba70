"""Official scores of answers, and the thresholds best for a file."""

import json
import math

import pytest
from official.nlp.tools import squad_evaluate_v2_0

from albert_tf.task_config import Squad
from albert_tf.tasks import answers
from albert_tf.tasks.answer_metrics import (
    QuestionSet,
    best_thresholds,
    score_v1,
    score_v2,
)
from data_prep.fine_tuning import squad

GOLDS = {"a": ["the Tide", "tide"], "b": ["sailor sat"], "c": [], "d": []}
TEXTS = {"a": "tide!", "b": "sailor", "c": "rain", "d": "stone"}


def test_gold_answers_score_everything(shared_data):
    for language in ("en", "de", "zh"):
        golds = squad.read_squad(shared_data / f"squad/xquad.{language}.json").golds()
        predictions = {question: texts[0] for question, texts in golds.items()}
        scores = score_v1(golds, predictions)
        assert scores == {"exact_match": 100.0, "f1": 100.0}
    golds = squad.read_squad(shared_data / "squad" / "dev-v2.0-half.json").golds()
    predictions = {question: [*texts, ""][0] for question, texts in golds.items()}
    scores = score_v2(golds, predictions)
    assert scores["exact"] == scores["f1"] == 100.0
    assert scores["total"] == scores["HasAns_total"] + scores["NoAns_total"] == 6078
    nothing = dict.fromkeys(golds, "")
    scores = score_v2(golds, nothing)
    assert scores["NoAns_f1"] == 100.0 and scores["HasAns_f1"] == 0.0


def test_scores_of_v1_are_in_percent_and_the_best_gold_answer_counts():
    golds = {"a": GOLDS["a"], "b": GOLDS["b"]}
    scores = score_v1(golds, TEXTS)
    assert scores["exact_match"] == 50.0
    assert scores["f1"] == pytest.approx((100 + 200 / 3) / 2)


def test_scores_of_v2_are_split_by_answerability():
    predictions = TEXTS | {"c": ""}
    scores = score_v2(GOLDS, predictions)
    assert scores["exact"] == 50.0 and scores["total"] == 4
    assert scores["HasAns_exact"] == 50.0 and scores["NoAns_exact"] == 50.0
    assert scores["HasAns_f1"] == pytest.approx((100 + 200 / 3) / 2)
    only = score_v2({"c": []}, {"c": ""})
    assert only == {
        **{"exact": 100.0, "f1": 100.0, "total": 1},
        **{"NoAns_exact": 100.0, "NoAns_f1": 100.0, "NoAns_total": 1},
    }


@pytest.mark.parametrize(
    "null_scores",
    [
        {"a": -2.0, "b": -1.0, "c": 3.0, "d": 4.0},
        {"a": 11.0, "b": 12.0, "c": 13.0, "d": 14.0},
        {"a": -14.0, "b": -13.0, "c": -12.0, "d": -11.0},
    ],
)
def test_a_separable_toy_scores_100_by_the_official_scorer(null_scores):
    """The original's off-by-one makes 75 of it, its second threshold 50."""
    texts = {**TEXTS, "b": "sailor sat"}
    best = best_thresholds(GOLDS, texts, null_scores)
    assert best["best_f1"] == best["best_exact"] == 100.0
    candidates = {
        question: [answers.Candidate(text, 0, len(text), 0.0, 1.0)]
        for question, text in texts.items()
    }
    proposals = answers.Proposals(candidates, null_scores, {})
    for name in ("best_exact_thresh", "best_f1_thresh"):
        scores = score_v2(GOLDS, proposals.predictions(best[name]))
        assert scores["exact"] == scores["f1"] == 100.0


def test_only_unanswerable_questions_with_negative_scores_score_100():
    golds = {question: [] for question in GOLDS}
    null_scores = {question: -3.0 for question in GOLDS}
    best = best_thresholds(golds, TEXTS, null_scores)
    assert best["best_f1"] == 100.0 and best["best_f1_thresh"] == -3.0
    assert not answers.is_answered(-3.0, best["best_f1_thresh"])


@pytest.mark.parametrize("answerable", [True, False])
def test_thresholds_are_finite_where_one_side_is_empty(answerable):
    null_scores = {"a": -2.5, "b": 7.0}
    golds = {question: ["rain"] if answerable else [] for question in null_scores}
    texts = dict.fromkeys(null_scores, "rain")
    best = best_thresholds(golds, texts, null_scores)
    json.dumps(best, allow_nan=False)
    for name in ("best_exact_thresh", "best_f1_thresh"):
        for score in null_scores.values():
            assert answers.is_answered(score, best[name]) == answerable
    questions = QuestionSet([], {}, golds, Squad(True))
    candidate = answers.Candidate("rain", 0, 4, 0.0, 1.0)
    found = answers.Proposals(
        {key: [candidate] for key in null_scores}, null_scores, {}
    )
    # For other files all of them, or none, are answered.
    assert questions.tune(found) == (math.inf if answerable else -math.inf)


def test_best_scores_are_the_official_scripts_where_no_scores_are_equal(shared_data):
    golds = squad.read_squad(shared_data / "squad" / "dev-v2.0-half.json").golds()
    golds = dict(list(golds.items())[:700])
    texts = {q: (found[0] if i % 3 else "of") for i, (q, found) in filled(golds)}
    # Impossible ones score higher, mostly; no two scores are equal.
    null_scores = {
        q: (i * 37 % 701) / 701 + 0.6 * (not found)
        for i, (q, found) in enumerate(golds.items())
    }
    questions = [
        {"id": q, "answers": [{"text": text} for text in found]}
        for q, found in golds.items()
    ]
    official = squad_evaluate_v2_0.evaluate(
        [{"paragraphs": [{"qas": questions}]}], texts, null_scores
    )
    best = best_thresholds(golds, texts, null_scores)
    for ours, theirs in (("best_exact", "final_exact"), ("best_f1", "final_f1")):
        assert best[ours] == pytest.approx(official[theirs])
        # Theirs answers up to and with the score at the threshold.
        after = min(s for s in null_scores.values() if s > official[f"{theirs}_thresh"])
        assert official[f"{theirs}_thresh"] < best[f"{ours}_thresh"] <= after


def filled(golds):
    return enumerate((q, found or ["rain"]) for q, found in golds.items())


def test_missing_predictions_and_golds_are_named():
    with pytest.raises(ValueError, match="1 questions have no prediction, 'd' among"):
        score_v2(GOLDS, {k: TEXTS[k] for k in "abc"})
    with pytest.raises(ValueError, match="Question 'c' has no gold answer"):
        score_v1(GOLDS, TEXTS)
    with pytest.raises(ValueError, match="no question to score"):
        score_v1({}, {})
