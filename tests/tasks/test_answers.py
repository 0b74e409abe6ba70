"""Spans -> answers: rules, windows, thresholds, ensembles."""

import itertools
import json
import math

import numpy as np
import pytest

from albert_tf.task_config import Squad
from albert_tf.tasks import answers
from albert_tf.tasks.answers import Proposals

TEXT = "one two three four five"
STARTS = [0, 4, 8, 14, 19]
ENDS = [3, 7, 13, 18, 23]


def row(question_id="q", first=0, words=5, max_context=None):
    """A window of words first..first+words of TEXT; two question pieces before it.

    The words are positions 4, 5, ... of the row.
    """
    inside = slice(4, 4 + words)
    length = 4 + words + 1
    made = {
        "question_id": question_id.encode(),
        "p_mask": np.ones(length, np.int64),
        "token_is_max_context": np.zeros(length, np.int64),
        "piece_starts": np.zeros(length, np.int64),
        "piece_ends": np.zeros(length, np.int64),
    }
    made["p_mask"][0] = 0
    made["p_mask"][inside] = 0
    made["token_is_max_context"][inside] = 1 if max_context is None else max_context
    made["piece_starts"][inside] = STARTS[first : first + words]
    made["piece_ends"][inside] = ENDS[first : first + words]
    return made


def outputs(spans, no_answer_logits=None):
    """Arrays of (start, end, score) lists, a row each, filled up."""
    most = max(map(len, spans))
    filled = [[*each, *[(0, 0, -1e30)] * (most - len(each))] for each in spans]
    array = np.array(filled, np.float64).reshape(len(spans), most, 3)
    made = {
        "span_starts": array[..., 0].astype(np.int32),
        "span_ends": array[..., 1].astype(np.int32),
        "span_scores": array[..., 2].astype(np.float32),
    }
    if no_answer_logits is not None:
        made["no_answer_logits"] = np.array(no_answer_logits, np.float32)
    return made


def propose(rows, spans, no_answer_logits=None, contexts=None, **rules):
    return answers.propose(
        rows,
        outputs(spans, no_answer_logits),
        contexts or {"q": TEXT},
        Squad(True, **rules),
    )


def test_the_best_span_of_all_windows_answers_with_its_text_as_given():
    rows = [row(first=0, words=3), row(first=2, words=3)]
    proposed = propose(rows, [[(4, 5, 1.0), (5, 5, 0.5)], [(5, 6, 2.0)]])
    [*texts] = [candidate.text for candidate in proposed.candidates["q"]]
    assert texts == ["four five", "one two", "two"]
    first = proposed.candidates["q"][0]
    assert (first.start, first.end) == (14, 23)
    assert TEXT[first.start : first.end] == first.text
    assert proposed.predictions() == {"q": "four five"}
    weights = np.exp([2.0, 1.0, 0.5])
    np.testing.assert_allclose(
        [each.probability for each in proposed.candidates["q"]],
        weights / weights.sum(),
        rtol=1e-6,
    )


@pytest.mark.parametrize(
    "span",
    [
        (5, 4, 9.0),  # ends before it starts
        (4, 7, 9.0),  # four pieces, one more than allowed
        (2, 4, 9.0),  # starts in the question
        (0, 0, 9.0),  # [CLS]
        (0, 4, 9.0),
        (8, 9, 9.0),  # ends at [SEP]
        (6, 11, 9.0),  # beyond the row
        (11, 11, 9.0),
        (6, 6, 9.0),  # another window shows this piece in more context
        (4, 4, float("nan")),
        (4, 4, -1e30),
    ],
)
def test_spans_that_may_not_be_answers_are_left_out(span):
    rows = [row(max_context=[1, 1, 0, 1, 1])]
    proposed = propose(rows, [[span, (5, 6, 0.5)]], max_answer_length=3)
    assert [each.text for each in proposed.candidates["q"]] == ["two three"]


def test_one_text_is_listed_once_with_its_best_score():
    contexts = {"q": "tea tea tea"}
    words = row(words=3)
    words["piece_starts"][4:7], words["piece_ends"][4:7] = [0, 4, 8], [3, 7, 11]
    spans = [[(4, 4, 1.0), (5, 5, 3.0), (6, 6, 2.0)]]
    [only] = propose([words], spans, contexts=contexts).candidates["q"]
    assert (only.text, only.start, only.end) == ("tea", 4, 7)
    assert only.score == 3.0 and only.probability == 1.0


def test_lists_are_cut_to_n_best_and_probabilities_sum_to_one():
    spans = [[(4 + i, 4 + i, float(i)) for i in range(5)]]
    found = propose([row()], spans, n_best_size=3).candidates["q"]
    assert [each.text for each in found] == ["five", "four", "three"]
    assert sum(each.probability for each in found) == pytest.approx(1.0)


def test_every_question_gets_an_answer_and_a_reason_where_it_is_none():
    contexts = {"q": TEXT, "none": TEXT, "void": ""}
    rows = [row("q"), row("none"), row("void", words=0)]
    proposed = propose(
        rows, [[(4, 4, 1.0)], [(5, 4, 1.0)], [(0, 0, 1.0)]], contexts=contexts
    )
    assert proposed.predictions() == {"q": "one", "none": "", "void": ""}
    assert proposed.reasons == {"none": "no valid span", "void": "empty paragraph"}
    listed = json.loads(json.dumps(proposed.n_best()))
    assert listed.keys() == contexts.keys()
    assert listed["void"] == [
        {"text": "", "probability": 0.0, "reason": "empty paragraph"}
    ]
    assert listed["q"][0]["text"] == "one"


def test_rows_of_other_questions_are_refused():
    with pytest.raises(ValueError, match="1 questions have no row, 'b' among them"):
        propose([row("q")], [[(4, 4, 1.0)]], contexts={"q": TEXT, "b": TEXT})
    with pytest.raises(ValueError, match="a question 'x' that the file has not"):
        propose([row("x")], [[(4, 4, 1.0)]])


def test_a_null_score_is_the_lowest_of_a_questions_windows():
    rows = [row("q"), row("b"), row("q")]
    spans = [[(4, 4, 1.0)], [(5, 5, 1.0)], [(6, 6, 0.0)]]
    proposed = propose(rows, spans, [3.0, -1.0, -2.0], contexts={"q": TEXT, "b": TEXT})
    assert proposed.null_scores == {"q": -2.0, "b": -1.0}
    assert proposed.predictions() == {"q": "one", "b": "two"}
    assert proposed.predictions(-1.5) == {"q": "one", "b": ""}
    # Only what is below the threshold is answered.
    assert proposed.predictions(-2.0) == {"q": "", "b": ""}
    assert proposed.predictions(math.inf) == {"q": "one", "b": "two"}
    assert proposed.predictions(-math.inf) == {"q": "", "b": ""}
    assert proposed.best_texts() == {"q": "one", "b": "two"}


def plain_best(null_scores, if_answered, if_not):
    """Every threshold tried, one by one."""
    values = sorted(set(null_scores))
    middles = [(a + b) / 2 for a, b in itertools.pairwise(values)]
    best = []
    for threshold in [-math.inf, *middles, math.inf]:
        scores = [
            a if answers.is_answered(null, threshold) else b
            for null, a, b in zip(null_scores, if_answered, if_not, strict=True)
        ]
        best.append((sum(scores) / len(scores), -threshold))
    score, threshold = max(best, key=lambda pair: (round(pair[0], 9), pair[1]))
    return score, -threshold


def test_best_threshold_equals_a_search_of_all():
    rng = np.random.default_rng(7)
    for _ in range(300):
        count = rng.integers(1, 12)
        # Many equal scores: questions that one threshold cannot tell apart.
        null_scores = rng.integers(-4, 5, count).astype(np.float32)
        impossible = rng.random(count) < rng.random()
        if_answered = np.where(impossible, 0.0, rng.choice([0, 33.3, 100.0], count))
        if_not = np.where(impossible, 100.0, 0.0)
        best, threshold = answers.best_threshold(null_scores, if_answered, if_not)
        wanted = plain_best(null_scores.tolist(), if_answered, if_not)
        assert best == pytest.approx(wanted[0])
        assert threshold == wanted[1]
        reached = [
            a if answers.is_answered(null, threshold) else b
            for null, a, b in zip(null_scores, if_answered, if_not, strict=True)
        ]
        assert np.mean(reached) == pytest.approx(best)


@pytest.mark.parametrize(
    ("null_scores", "impossible", "threshold"),
    [
        ([-3.0, -1.0, 2.0, 5.0], [0, 0, 1, 1], 0.5),
        # All above 1.0, the official script's own threshold.
        ([3.0, 4.0, 6.0, 9.0], [0, 0, 1, 1], 5.0),
        # All negative: 0.0 would answer everything.
        ([-9.0, -8.0, -7.0, -6.0], [1, 1, 1, 1], -math.inf),
        ([-9.0, -8.0, 7.0, 6.0], [0, 0, 0, 0], math.inf),
    ],
)
def test_separable_toys_score_everything(null_scores, impossible, threshold):
    if_not = [100.0 * each for each in impossible]
    if_answered = [100.0 - each for each in if_not]
    best = answers.best_threshold(null_scores, if_answered, if_not)
    assert best == (100.0, threshold)


def test_a_threshold_separates_neighbours_in_float32_too():
    below = np.float32(1.0)
    above = np.nextafter(below, np.float32(2.0))
    score, threshold = answers.best_threshold([below, above], [1.0, 0.0], [0.0, 1.0])
    assert score == 1.0
    assert below < np.float32(threshold) <= above
    assert float(below) < threshold <= float(above)


def test_questions_whose_score_is_no_number_are_never_answered():
    null_scores = [float("nan"), 1.0, math.inf]
    score, threshold = answers.best_threshold(null_scores, [1.0] * 3, [0.0] * 3)
    assert score == pytest.approx(1 / 3)
    assert threshold == math.inf
    assert not answers.is_answered(float("nan"), math.inf)
    assert answers.best_threshold([float("nan")], [1.0], [0.0]) == (0.0, -math.inf)


def model(candidates, null_score=None):
    """Proposals on question "q" of {text: probability}."""
    found = [
        answers.Candidate(text, 0, len(text), math.log(p), p)
        for text, p in candidates.items()
    ]
    found.sort(key=lambda each: -each.probability)
    null_scores = None if null_score is None else {"q": null_score}
    reasons = {} if found else {"q": "no valid span"}
    return Proposals({"q": found}, null_scores, reasons)


def test_an_ensemble_averages_probabilities_of_texts_and_null_scores():
    """The best answer of both need not be the best of either."""
    first = model({"one": 0.6, "two": 0.4}, null_score=-3.0)
    second = model({"three": 0.55, "two": 0.45}, null_score=2.0)
    both = answers.average([first, second], 2, "probabilities")
    found = both.candidates["q"]
    assert [each.text for each in found] == ["two", "one"]
    assert [each.probability for each in found] == pytest.approx([0.425, 0.3])
    assert both.null_scores == {"q": -0.5}
    assert both.predictions() == {"q": "two"}
    alone = answers.average([first], n_best_size=5)
    assert alone.predictions() == first.predictions()


def test_an_ensemble_averages_log_probabilities_of_the_models_that_propose_a_text():
    """As the original: a text that one model alone proposes keeps its probability."""
    first = model({"one": 0.6, "two": 0.4}, null_score=-3.0)
    second = model({"three": 0.55, "two": 0.45}, null_score=2.0)
    both = answers.average([first, second], n_best_size=5)
    found = {each.text: each for each in both.candidates["q"]}
    assert list(found) == ["one", "three", "two"]
    expected = {"one": 0.6, "three": 0.55, "two": math.sqrt(0.4 * 0.45)}
    for text, probability in expected.items():
        assert found[text].probability == pytest.approx(probability)
        assert found[text].score == pytest.approx(math.log(probability))
    assert both.null_scores == {"q": -0.5}


def test_an_ensemble_of_models_without_candidates_says_why():
    both = answers.average([model({}), model({"one": 1.0})], 5)
    assert both.predictions() == {"q": "one"} and not both.reasons
    neither = answers.average([model({}), model({})], 5)
    assert neither.reasons == {"q": "no valid span"}


def test_models_that_do_not_fit_together_are_refused():
    with pytest.raises(ValueError, match="at least one model"):
        answers.average([], 5)
    with pytest.raises(ValueError, match=r"v1\.1 and of v2\.0"):
        answers.average([model({"one": 1.0}), model({"one": 1.0}, 0.0)], 5)
    other = Proposals({"b": []}, None, {"b": "no valid span"})
    with pytest.raises(ValueError, match="the same questions"):
        answers.average([model({"one": 1.0}), other], 5)


def test_rules_are_checked():
    with pytest.raises(ValueError, match=r"n_best_size must be .* from 1 to 10,000\."):
        Squad(True, n_best_size=0)


def test_a_finite_threshold_decides_as_an_infinite_one():
    rng = np.random.default_rng(4)
    for count in (1, 2, 9):
        scores = rng.normal(0, 50, count).astype(np.float32).tolist()
        for threshold in (-math.inf, math.inf):
            finite = answers.finite_threshold(threshold, [*scores, math.nan])
            assert math.isfinite(finite)
            for score in scores:
                decided = answers.is_answered(score, finite)
                assert decided == answers.is_answered(score, threshold)
    assert answers.finite_threshold(0.25, [1.0]) == 0.25
    assert answers.finite_threshold(math.inf, [math.nan]) == 0.0
