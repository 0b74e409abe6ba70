"""Spans of tokens become the text of the context, as they do in Python."""

import numpy as np
import tensorflow as tf

from albert_tf.serving import squad_text
from albert_tf.tasks.answers import NO_SCORE


def test_running_maximum_is_numpys():
    rng = np.random.default_rng(4)
    for size in (1, 2, 3, 8, 13):
        values = rng.integers(0, 9, (4, size)).astype(np.int32)
        expected = np.maximum.accumulate(values, axis=1)
        found = squad_text.running_maximum(tf.constant(values))
        assert found.numpy().tolist() == expected.tolist()


def test_a_token_without_a_character_ends_where_the_one_before_it_does():
    starts = tf.ragged.constant([[0, 5, 5, 4], []], tf.int32)
    ends = tf.ragged.constant([[3, 5, 8, 7], []], tf.int32)
    found = squad_text.increasing_ranges(starts, ends)
    first, second = (values.numpy().tolist() for values in found)
    assert first == [[0, 5, 5, 5, 5], [0] * 5]
    assert second == [[3, 3, 8, 8, 8], [0] * 5]


def best(context, spans, scores, n_best_size=20):
    starts, ends = np.array(spans, np.int32).T[:, np.newaxis]
    answer = squad_text.best_answer(
        tf.constant([context]),
        tf.constant(starts),
        tf.constant(ends),
        tf.constant([scores], tf.float32),
        n_best_size,
    )
    return {name: values.numpy()[0] for name, values in answer.items()}


def test_each_text_counts_once_and_the_first_in_the_context_wins():
    # "ab" twice, and "cd" with the same score as the better one of them.
    answer = best("ab ab cdé", [(6, 9), (3, 5), (0, 2)], [1.0, 1.0, 0.0])
    assert answer["answer"].decode() == "ab" and answer["answer_start"] == 3
    assert answer["score"] == 1 and answer["probability"] == 0.5
    assert best("ab cdé", [(3, 6), (0, 2)], [2.0, 0.0], 1)["probability"] == 1


def test_without_a_valid_span_there_is_no_answer():
    answer = best("ab", [(0, 2), (1, 1)], [-1e30, 5.0])
    assert answer["answer"] == b"" and answer["answer_start"] == -1
    assert answer["score"] == np.float32(NO_SCORE) and answer["probability"] == 0
