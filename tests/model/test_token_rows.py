"""Hidden states as a matrix with a row for each token."""

import numpy as np
import tensorflow as tf

from albert_tf.model.token_rows import AllRows, TokenRows

MASK = [[1, 1, 0, 1], [0, 0, 1, 0]]


def token_rows():
    return TokenRows.of(tf.constant(MASK), tf.zeros([2, 1, 1, 4]))


def test_token_rows_are_the_places_of_tokens_in_order():
    mask = tf.constant([[1, 1, 0, 1], [0, 0, 1, 0]])
    tokens = TokenRows.of(mask, tf.zeros([2, 1, 1, 4]))
    # The first position of a row is computed, whatever its mask.
    assert tokens.positions.numpy().tolist() == [0, 1, 3, 4, 6]
    assert tokens.rows.numpy().tolist() == [[0, 1, 1, 2], [3, 3, 4, 4]]
    values = tf.reshape(tf.range(10.0), [5, 2])
    padded = tokens.pad(values).numpy()
    assert padded.shape == (2, 4, 2)
    assert not padded[0, 2].any() and not padded[1, [1, 3]].any()
    np.testing.assert_array_equal(tokens.collect(padded.reshape(8, 2)), values)
    np.testing.assert_array_equal(tokens.spread(values)[1, 3], values[4])


def test_gradients_of_tokens_are_those_of_plain_gathers():
    tokens, rng = token_rows(), np.random.default_rng(4)
    values = tf.constant(rng.normal(size=(5, 3)), tf.float32)
    # What is computed from places without a token is not used.
    used = np.zeros([8, 1])
    used[tokens.positions] = 1
    weights = tf.constant(rng.normal(size=(8, 3)) * used, tf.float32)

    def gradient(spread, collect):
        with tf.GradientTape() as tape:
            tape.watch(values)
            flat = tf.reshape(spread(values), [8, 3])
            loss = tf.reduce_sum(flat * weights) + tf.reduce_sum(collect(flat) ** 3)
        return tf.convert_to_tensor(tape.gradient(loss, values))

    ours = gradient(tokens.spread, tokens.collect)
    plain = gradient(
        lambda rows: tf.gather(rows, tokens.rows),
        lambda flat: tf.gather(flat, tokens.positions),
    )
    np.testing.assert_allclose(ours, plain, rtol=1e-5)


def test_all_rows_have_every_position_and_fixed_shapes():
    shapes = []

    @tf.function
    def through(values):
        rows = AllRows(tf.zeros([2, 1, 1, 4]))
        parts = [rows.spread(values), rows.pad(values), rows.first(values)]
        shapes.extend(part.shape.as_list() for part in parts)
        return [*parts, rows.collect(values)]

    values = tf.reshape(tf.range(24.0), [8, 3])
    spread, padded, first, collected = through(values)
    assert shapes == [[2, 4, 3], [2, 4, 3], [2, 3]]
    np.testing.assert_array_equal(spread, tf.reshape(values, [2, 4, 3]))
    np.testing.assert_array_equal(padded, spread)
    np.testing.assert_array_equal(first, values[::4])
    np.testing.assert_array_equal(collected, values)
