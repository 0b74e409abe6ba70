"""Requests that a model cannot answer are refused with the rule and the value."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.serving import checks
from helpers.tiny import tiny_config

CONFIG = tiny_config(vocab_size=31)
NAMES = ("input_ids", "input_mask", "segment_ids")


@tf.function(input_signature=[tf.TensorSpec([None, None], tf.int64)] * 3)
def checked(*values):
    return checks.checked_ids(dict(zip(NAMES, values, strict=True)), CONFIG)


def refusal(call, *values):
    """The message of the error of a graph that gets any shapes, as from a server."""
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        call.get_concrete_function()(*map(tf.constant, values))
    return str(error.value)


def batch(rows=3, tokens=5):
    rng = np.random.default_rng(6)
    limits = (CONFIG.vocab_size, 2, CONFIG.type_vocab_size)
    values = [rng.integers(0, limit, (rows, tokens)) for limit in limits]
    values[1][:, :1] = 1
    return values


def test_fit_ids_are_converted_and_stay_as_they_are():
    for size in ((3, 5), (0, 5), (1, 1)):
        values = batch(*size)
        found = checked(*map(tf.constant, values))
        for name, value in zip(NAMES, values, strict=True):
            assert found[name].dtype == tf.int32
            np.testing.assert_array_equal(found[name], value)


@pytest.mark.parametrize(
    ("name", "rule", "limit"),
    [
        ("input_ids", "below vocab_size, 31", 31),
        ("input_mask", "0 or 1", 2),
        ("segment_ids", "below type_vocab_size, 2", 2),
    ],
)
def test_values_are_checked_before_they_are_converted(name, rule, limit):
    for value in (limit, -1, 2**31, 2**32 + 1, 1 - 2**32, 2**62):
        values = batch()
        values[NAMES.index(name)][2, 3] = value
        message = refusal(checked, *values)
        assert f"{name} must not be negative and must be {rule}" in message
        assert f"[{value}]" in message


def test_shapes_are_checked_when_the_graph_runs():
    values = batch()
    for wrong in (values[0][0], values[0][..., np.newaxis], np.int64(3)):
        assert "is not compatible with expected shape [?,?]" in refusal(
            checked, *[wrong] * 3
        )
    ids, mask, segments = values
    message = refusal(checked, ids, mask[:1], segments)
    assert (
        "input_mask must have the shape of input_ids. Received] [1 5] [3 5]" in message
    )
    message = refusal(checked, ids, mask, segments[:, :1])
    assert "segment_ids must have the shape of input_ids" in message
    message = refusal(checked, *[each[:, :0] for each in values])
    assert "Rows must have at least one token" in message


def test_rows_need_a_token_and_options_do_not():
    values = batch()
    values[1][2] = 0
    message = refusal(checked, *values)
    assert "Every row must have a token that input_mask shows." in message
    ids = {n: tf.constant(v[np.newaxis]) for n, v in zip(NAMES, values, strict=True)}
    found = checks.checked_ids(ids, CONFIG)
    np.testing.assert_array_equal(found["input_mask"][0], values[1])


@tf.function(input_signature=[tf.TensorSpec([None], tf.string)] * 2)
def checked_texts(first, second):
    return checks.checked_rows({"first": first, "second": second})


def test_texts_have_the_rank_and_the_rows_of_their_signature():
    found = checked_texts(tf.constant(["a", "b"]), tf.constant(["c", "d"]))
    assert found["second"].numpy().tolist() == [b"c", b"d"]
    for text in ("a", [["a"]], [[["a"], ["b"]]]):
        message = refusal(checked_texts, text, text)
        assert "is not compatible with expected shape [?]" in message
    message = refusal(checked_texts, ["a", "b", "c"], ["d"])
    assert "first and second must have as many rows. Received] [3] [1]" in message


def test_a_rule_of_ones_own_is_refused_with_its_words():
    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32)])
    def call(values):
        found = checks.refuse_unless(tf.reduce_all(values > 0), "No.", {"v": values})
        return found["v"]

    assert call(tf.constant([4, 5])).numpy().tolist() == [4, 5]
    assert "[No.]" in refusal(call, np.int32([4, 0]))
