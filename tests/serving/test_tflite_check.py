"""Files and models are compared by all their numbers, and scored as the task says."""

import numpy as np
import pytest

from albert_tf.serving import tflite_check
from albert_tf.serving.tflite_check import DevelopmentSet, LabelledRows
from albert_tf.task_config import (
    Classification,
    MultipleChoice,
    Regression,
    Squad,
    Tagging,
)
from albert_tf.tasks import create_task
from albert_tf.tasks.answer_metrics import QuestionSet
from albert_tf.tasks.answers import NO_SCORE
from albert_tf.tasks.squad import squad_task
from helpers.tiny import tiny_config

LABELS = ["bad", "good", "ugly"]


def answering(**outputs):
    """A model that always gives the same outputs."""
    return lambda _: {name: np.array(values) for name, values in outputs.items()}


def differences(ours, theirs, exact=True, shape=(1, 7)):
    model, file = answering(**ours), answering(**theirs)
    return tflite_check.largest_differences(model, file, tiny_config(), shape, exact)


def test_the_largest_difference_of_each_output_is_found():
    ours = {"values": [1.5], "pooled_output": [[0.25, -0.5, 2.0]]}
    theirs = {"values": [1.25], "pooled_output": [[0.25, -1.0, 2.125]]}
    assert differences(ours, theirs) == {"values": 0.25, "pooled_output": 0.5}
    nan = differences(ours, {**theirs, "values": [np.nan]})
    assert np.isnan(nan["values"]) and nan["pooled_output"] == 0.5
    assert np.isnan(differences({"values": [np.nan]}, theirs)["values"])
    same = {"threshold": np.array([-np.inf])}
    assert differences(same, same) == {"threshold": 0.0}
    assert differences(same, {"threshold": [1.0]}) == {"threshold": np.inf}


def spans(starts, scores):
    ends = [start + 1 for start in starts]
    return {"span_starts": [starts], "span_ends": [ends], "span_scores": [scores]}


def test_a_place_counts_where_its_score_stands_alone():
    ours = spans([4, 2, 3, 5], [3.0, 2.0, 2.0 - 1e-6, 1.0])
    swapped = spans([4, 3, 2, 6], [3.0, 2.0, 2.0 - 1e-6, 1.0])
    assert differences(ours, swapped)["span_starts"] == 0.0
    assert differences(ours, spans([6, 2, 3, 5], ours["span_scores"][0])) == {
        "span_starts": 2.0,
        "span_ends": 2.0,
        "span_scores": 0.0,
    }


def test_a_decision_counts_where_its_score_is_far_from_the_threshold():
    def decided(null_score, answered):
        values = {"null_scores": [null_score], "threshold": [1.5]}
        return {**values, "answered": [answered]}

    assert differences(decided(1.0, True), decided(1.0, False))["answered"] == 1.0
    assert differences(decided(1.5, True), decided(1.5, False))["answered"] == 0.0

    def chosen(best, choice):
        return {"probabilities": [[best, 0.5, 0.0]], "choice": [choice]}

    assert differences(chosen(0.75, 0), chosen(0.75, 2))["choice"] == 2.0
    assert differences(chosen(0.5, 0), chosen(0.5, 1))["choice"] == 0.0
    one = {"probabilities": [[1.0]], "choice": [0]}
    assert differences(one, {**one, "choice": [1]})["choice"] == 1.0


def test_of_a_file_near_the_model_only_numbers_are_compared():
    ours = spans([4, 2, 3], [3.0, 2.0, NO_SCORE])
    theirs = spans([2, 4, 6], [2.75, 2.0, 1.0])
    assert differences(ours, theirs, exact=False) == {"span_scores": 0.25}


def test_random_rows_are_of_many_lengths_and_segments():
    seen = []

    def model(row):
        seen.append(row)
        return {"values": np.zeros(1)}

    config = tiny_config()
    for seed in range(200):
        row = tflite_check._random_row(np.random.default_rng(seed), config, (1, 3, 7))
        assert {v.shape for v in row.values()} == {(1, 3, 7)}
        assert {v.dtype for v in row.values()} == {np.dtype("int32")}
        model(row)
    lengths = {int(row["input_mask"][0, 0].sum()) for row in seen}
    assert lengths == set(range(1, 8))
    assert all((row["segment_ids"] <= row["input_mask"]).all() for row in seen)
    assert {int(row["segment_ids"][0, 0].sum()) for row in seen} >= set(range(7))
    ids = np.concatenate([row["input_ids"].ravel() for row in seen])
    assert ids.min() == 0 and ids.max() == config.vocab_size - 1


def rows_of(widths, **labels):
    return [
        {
            "input_ids": np.arange(1, width + 1),
            "segment_ids": np.arange(width) % 2,
            **{name: np.array(values[place]) for name, values in labels.items()},
        }
        for place, width in enumerate(widths)
    ]


def test_batches_are_padded_to_their_longest_row():
    labelled = LabelledRows(rows_of([2, 4, 3]), None)
    first, second = labelled.batches(2, None)
    np.testing.assert_array_equal(first["input_ids"], [[1, 2, 0, 0], [1, 2, 3, 4]])
    np.testing.assert_array_equal(first["input_mask"], [[1, 1, 0, 0], [1, 1, 1, 1]])
    np.testing.assert_array_equal(second["segment_ids"], [[0, 1, 0]])

    choices = [
        {
            "input_ids": [np.arange(1, 3), np.arange(1, 4)],
            "segment_ids": [np.zeros(2, int), np.ones(3, int)],
        }
    ]
    labelled = LabelledRows(choices, None)
    assert labelled.most_options() == 2
    [batch] = labelled.batches(2, 3)
    np.testing.assert_array_equal(
        batch["input_ids"], [[[1, 2, 0], [1, 2, 3], [0, 0, 0]]]
    )
    np.testing.assert_array_equal(
        batch["input_mask"], [[[1, 1, 0], [1, 1, 1], [0, 0, 0]]]
    )


def test_classes_numbers_and_choices_are_scored_by_their_tasks():
    """By the length of a row, which is its label or not."""

    def by_length(batch):
        lengths = batch["input_mask"].sum(axis=-1)
        return {"probabilities": np.eye(8)[lengths], "values": lengths * 1.0}

    labels = [3, 4, 5, 6, 1, 1, 2, 3, 5]
    rows = LabelledRows(rows_of([3, 4, 5, 6, 1, 2, 3, 4, 5], label_ids=labels), 2)
    task = create_task(Classification("toy", list("abcdefgh")))
    report = DevelopmentSet(task, {"dev": rows}).score({"file": by_length})
    assert report == {
        "dev": {
            "rows": 9,
            "truncated_rows": 2,
            "file": {"eval_accuracy": 6 / 9, "predicted_labels": 6},
        }
    }

    def higher(batch):
        answers = by_length(batch)
        # A place counts nowhere, since files are not exact here.
        answers["values"] = answers["values"] + 0.25 * (answers["values"] == 6)
        return {**answers, "choice": np.zeros(len(answers["values"]), int)}

    both = DevelopmentSet(task, {"dev": rows}).score(
        {
            "model": lambda b: {**by_length(b), "choice": b["input_mask"][:, 0]},
            "f": higher,
        }
    )
    assert both["dev"]["largest_differences"] == {"probabilities": 0, "values": 0.25}
    task = create_task(Regression("toy"))
    values = np.array(labels) * -0.5
    rows = LabelledRows(rows_of([3, 4, 5, 6, 1, 2, 3, 4, 5], label_ids=values), None)
    report = DevelopmentSet(task, {"dev": rows}).score({"file": by_length})
    lengths = np.array([3, 4, 5, 6, 1, 2, 3, 4, 5])
    expected = np.corrcoef(lengths, values)[0, 1]
    assert report["dev"]["file"]["pearson"] == pytest.approx(expected)
    assert report["dev"].keys() == {"rows", "file"}

    def longest(batch):
        return {"probabilities": batch["input_mask"].sum(axis=-1) / 8}

    questions = [
        {
            "input_ids": [np.ones(2, int), np.ones(3, int)],
            "segment_ids": [np.zeros(2, int), np.ones(3, int)],
            "label_ids": np.array(label),
            "level": np.array(level),
        }
        for label, level in ((1, 0), (0, 1), (1, 1))
    ]
    task = create_task(MultipleChoice(levels=["middle", "high"]))
    labelled = DevelopmentSet(task, {"dev": LabelledRows(questions, 0)})
    assert labelled.score({"file": longest}, options=4)["dev"]["file"] == {
        "eval_accuracy": pytest.approx(2 / 3),
        "eval_accuracy_middle": 1.0,
        "eval_accuracy_high": 0.5,
    }


@pytest.mark.parametrize("version_2", [False, True])
def test_questions_are_scored_by_their_answers(version_2):
    task_config = Squad(version_2)
    row = {
        "question_id": np.array(b"q"),
        "input_ids": np.array([2, 9, 3, 11, 12, 3]),
        "segment_ids": np.array([0, 0, 0, 1, 1, 1]),
        "token_is_max_context": np.array([0, 0, 0, 1, 1, 0]),
        "p_mask": np.array([0, 1, 1, 0, 0, 1]),
        "piece_starts": np.array([0, 0, 0, 0, 5, 0]),
        "piece_ends": np.array([0, 0, 0, 4, 9, 0]),
    }
    questions = QuestionSet([row], {"q": "Nice rain"}, {"q": ["rain"]}, task_config)
    task = squad_task(task_config, questions=questions)

    def answer(start, null_score):
        outputs = {"span_starts": [[start]], "span_ends": [[4]], "span_scores": [[1.0]]}
        if version_2:
            outputs["null_scores"] = [null_score]
        return answering(**outputs)

    answers = {"right": answer(4, -1.0), "long": answer(3, -1.0)}
    answers["none"] = answer(4, 1.0)
    report = DevelopmentSet(task, {"dev": LabelledRows([row], None)}).score(answers)
    exact = "exact" if version_2 else "exact_match"
    assert report["dev"]["right"][exact] == 100.0
    assert report["dev"]["long"][exact] == 0.0
    assert report["dev"]["long"]["f1"] == pytest.approx(200 / 3)
    assert report["dev"]["none"][exact] == (0.0 if version_2 else 100.0)


def test_tags_are_scored_over_sentences_whatever_the_rows_are_padded_to():
    def row(sentence, tag_ids):
        zeros = [0] * len(tag_ids)
        return {
            **{"input_ids": zeros, "segment_ids": zeros, "tag_ids": tag_ids},
            "sentence": sentence,
        }

    rows = [row(0, [0, 2, 3, 0]), row(0, [0, 3, 1, 1, 0]), row(1, [0, 2, 0])]
    rows += [row(n, [0, 1, 0]) for n in range(2, 9)]

    def inside(batch, length=0):
        """Every token is inside an entity, with a little doubt at the first one."""
        mask = batch["input_mask"]
        pad = max(length - mask.shape[1], 0)
        values = np.zeros([*mask.shape, 3])
        values[..., 2] = mask
        values[:, 0, 2] -= 0.25 * bool(length)
        return {"probabilities": np.pad(values, [(0, 0), (0, pad), (0, 0)])}

    task = create_task(Tagging("toy", ["O", "B-a", "I-a"]))
    answers = {"model": inside, "tflite": lambda batch: inside(batch, 11)}
    report = DevelopmentSet(task, {"dev": LabelledRows(rows, None)}).score(answers)
    found = report["dev"]
    # One entity of the 2 that there are is found, and 8 that are none.
    assert found["model"] == found["tflite"]
    assert found["model"]["recall"] == 0.5
    assert found["model"]["precision"] == pytest.approx(1 / 9)
    assert found["largest_differences"] == {"probabilities": 0.25}
