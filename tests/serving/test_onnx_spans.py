"""ONNX graphs of SQuAD choose the model's spans."""

import math

import numpy as np
import pytest

from albert_tf.serving.base import IDS
from albert_tf.task_config import Squad
from albert_tf.tasks.answers import NO_SCORE
from helpers.onnx_models import (
    content_of,
    expected_answers,
    full,
    random_batch,
    random_served,
    run,
    start,
)

SETTINGS = {"max_answer_length": 4, "n_best_size": 41}
TASKS = {
    "v1.1": Squad(False, **SETTINGS),
    "v2.0": Squad(True, start_n_top=6, end_n_top=5, threshold=0.5, **SETTINGS),
    "v2.0, always": Squad(True, start_n_top=2, threshold=math.inf, **SETTINGS),
}


@pytest.fixture(scope="module", params=TASKS)
def served(request):
    served = random_served(TASKS[request.param])
    return served, start(content_of(served))


# Rows of fewer tokens than beams, and of more.
@pytest.mark.parametrize("shape", [(2, 3), (5, 24)])
def test_spans_and_scores_are_the_models(served, shape):
    served, session = served
    batch = random_batch(shape)
    found, expected = run(session, batch), expected_answers(served, batch)
    assert found.keys() == expected.keys()
    is_span = expected["span_scores"] > NO_SCORE
    for name, values in expected.items():
        assert found[name].dtype == values.dtype, name
        if name in ("span_starts", "span_ends"):
            assert np.array_equal(found[name][is_span], values[is_span]), name
        else:
            np.testing.assert_allclose(found[name], values, rtol=1e-5, atol=1e-5)
    if shape[1] == 24:
        assert 10 < is_span.sum() < is_span.size


def test_empty_batches_and_single_tokens_get_answers(served):
    served, session = served
    found = run(session, dict.fromkeys(IDS, full((0, 5), 1)))
    assert all(len(values) == 0 for values in found.values())
    found = run(session, dict.fromkeys(IDS, full((2, 1), 1)))
    assert (found["span_scores"] == np.float32(NO_SCORE)).all()
    assert not found["probabilities"].any()
