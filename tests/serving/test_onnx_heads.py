"""ONNX graphs of classifiers, regressions, multiple choice and taggers."""

import numpy as np
import pytest

from albert_tf.serving.base import IDS
from albert_tf.task_config import (
    Classification,
    Embedding,
    MultiLabel,
    MultipleChoice,
    Regression,
    Tagging,
)
from helpers.onnx_models import (
    assert_refuses,
    content_of,
    expected_answers,
    full,
    random_batch,
    random_served,
    run,
    start,
)

TASKS = {
    "classifier": Classification("toy", ["bad", "good", "ugly", "fair", "odd"]),
    "classifier with a threshold": Classification("toy", ["a", "b"], threshold=0.25),
    "several labels": MultiLabel("toy", ["a", "b", "c"], thresholds=[0.5, 0.2, 0.7]),
    "regression": Regression("toy"),
    "vectors": Embedding("toy"),
    "first tokens": Embedding("toy", pooling="first", normalize=False),
    "pooled outputs": Embedding("toy", pooling="pooled"),
    "multiple choice": MultipleChoice(),
    "tagger": Tagging("toy", ["O", "B-a", "I-a", "B-b"]),
}


@pytest.fixture(scope="module")
def choice():
    served = random_served(MultipleChoice())
    return served, start(content_of(served))


@pytest.mark.parametrize("name", TASKS)
def test_answers_are_the_models(name):
    served = random_served(TASKS[name])
    session = start(content_of(served))
    for rows, length in ((1, 24), (5, 7)):
        shape = (rows, *[3] * (served.ids_rank - 2), length)
        batch = random_batch(shape)
        found, expected = run(session, batch), expected_answers(served, batch)
        assert found.keys() == expected.keys()
        for output, values in expected.items():
            assert found[output].dtype == values.dtype, output
            np.testing.assert_allclose(found[output], values, atol=1e-5)
    # Rows differ, or nothing was compared.
    assert np.ptp(next(iter(found.values())), axis=0).max() > 1e-3


def test_missing_options_have_no_probability(choice):
    served, session = choice
    batch = random_batch((2, 3, 7))
    batch["input_mask"][0, 1] = batch["input_mask"][1, :2] = 0
    found, expected = run(session, batch), expected_answers(served, batch)
    assert (found["probabilities"] == 0).tolist() == [[0, 1, 0], [1, 1, 0]]
    assert found["choice"].tolist() == expected["choice"].tolist()
    np.testing.assert_allclose(
        found["probabilities"], expected["probabilities"], atol=1e-5
    )


def test_questions_without_options_are_refused(choice):
    _, session = choice
    batch = random_batch((2, 3, 7))
    reason = "questions_must_have_an_option_that_the_mask_shows"
    batch["input_mask"][1] = 0
    assert_refuses(session, batch, reason)
    assert_refuses(session, dict.fromkeys(IDS, full((2, 0, 7), 1)), reason)


def test_empty_batches_get_empty_answers(choice):
    found = run(choice[1], dict.fromkeys(IDS, full((0, 3, 7), 1)))
    assert found["probabilities"].shape == (0, 3) and found["choice"].shape == (0,)
    served = random_served(TASKS["classifier with a threshold"])
    found = run(start(content_of(served)), dict.fromkeys(IDS, full((0, 7), 1)))
    assert found["probabilities"].shape == (0, 2) and found["threshold"].shape == (0,)
