"""The check of an ONNX file notices other numbers, and knows what is a tie."""

import math

import numpy as np
import pytest

from albert_tf.serving.onnx_check import differences_from_model, is_certain
from albert_tf.task_config import Classification, MultipleChoice, Squad
from albert_tf.tasks.answers import NO_SCORE
from helpers.onnx_models import content_of, random_served

TASKS = {
    "classifier": Classification("toy", ["bad", "good"], threshold=0.3),
    "multiple choice": MultipleChoice(),
    "v1.1": Squad(False, max_answer_length=4),
    "v2.0": Squad(True, max_answer_length=4, threshold=math.inf),
}


@pytest.mark.parametrize("name", TASKS)
def test_only_other_weights_make_a_difference(name):
    served = random_served(TASKS[name])
    content = content_of(served)
    found = differences_from_model(content, served)
    # Scores of spans are up to 100.
    assert max(found.values()) < 5e-5
    for variable in served.model.variables:
        if variable.name.startswith("bert/embeddings/word"):
            variable.assign(variable + 0.5 * np.sign(variable))
    changed = differences_from_model(content, served)
    assert changed.keys() == found.keys()
    assert max(changed.values()) > 1e-3
    assert "threshold" not in found or changed["threshold"] == 0


def test_values_that_are_no_numbers_are_a_difference():
    served = random_served(None)
    content = content_of(served)
    [pooler] = [v for v in served.model.encoder.variables if "pooler/dense/k" in v.name]
    pooler.assign(np.full(pooler.shape, np.nan))
    found = differences_from_model(content, served)
    assert math.isnan(found["pooled_output"]) and found["mean_output"] < 1e-5


SCORES = np.array(
    [
        [3.0, 3.0 - 1e-6, 1.0, NO_SCORE, NO_SCORE],
        [3.0, 2.0, 1.0, 0.5, NO_SCORE],
    ]
)


def test_positions_of_tied_spans_are_not_certain():
    certain = is_certain("span_starts", {"span_scores": SCORES})
    assert certain.tolist() == [[0, 0, 1, 0, 0], [1, 1, 1, 1, 0]]
    assert is_certain("span_scores", {"span_scores": SCORES}).all()
    beams = {"span_scores": SCORES, "null_scores": np.zeros(2)}
    assert is_certain("span_scores", beams).tolist() == [[False], [True]]
    assert is_certain("span_ends", beams).tolist() == [[0] * 5, [1, 1, 1, 1, 0]]
    assert is_certain("null_scores", beams).all()


def test_decisions_at_their_bound_are_not_certain():
    outputs = {
        "null_scores": np.array([0.5, 0.7, -9.0]),
        "threshold": np.array([0.5 + 1e-6, 0.5, math.inf]),
    }
    assert is_certain("answered", outputs).tolist() == [False, True, True]
    probabilities = np.array([[0.4, 0.2, 0.4], [0.3, 0.5, 0.2]])
    assert is_certain("choice", {"probabilities": probabilities}).tolist() == [0, 1]
