"""Kernels and their written-out gradients against plain formulas."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from albert_tf.model.kernels import attend, gelu, layer_norm


@pytest.mark.parametrize("function", [gelu, layer_norm])
def test_written_out_gradients_equal_numeric_ones(function):
    rng = np.random.default_rng(3)
    shapes = [(2, 5, 7)] + [(7,)] * (2 if function is layer_norm else 0)
    inputs = [tf.constant(rng.normal(size=shape), tf.float32) for shape in shapes]
    theory, numeric = tf.test.compute_gradient(function, inputs, delta=1e-2)
    for found, expected in zip(theory, numeric, strict=True):
        np.testing.assert_allclose(found, expected, atol=3e-3)


def test_layer_norm_is_keras_own_and_calm_on_constants():
    rng = np.random.default_rng(4)
    values = tf.constant(rng.normal(3.0, 2.0, (3, 4, 11)), tf.float32)
    gamma, beta = (tf.constant(rng.normal(size=11), tf.float32) for _ in range(2))
    oracle = tf_keras.layers.LayerNormalization(epsilon=1e-12)
    oracle.build(values.shape)
    oracle.set_weights([gamma.numpy(), beta.numpy()])
    np.testing.assert_allclose(
        layer_norm(values, gamma, beta), oracle(values), atol=1e-5
    )
    constant = layer_norm(tf.fill([2, 11], 3.7), gamma, beta)
    assert np.isfinite(constant).all()


def test_layer_norm_keeps_three_digits_far_from_zero():
    """Both moments come from one pass, whose difference loses digits there."""
    rng = np.random.default_rng(7)
    rows = rng.normal(30.0, 1.0, (5, 64))
    expected = (rows - rows.mean(-1, keepdims=True)) / rows.std(-1, keepdims=True)
    found = layer_norm(tf.constant(rows, tf.float32), tf.ones(64), tf.zeros(64))
    np.testing.assert_allclose(found, expected, atol=1e-3)


@pytest.mark.parametrize("size", [1e-3, 1.0, 2e4])
def test_layer_norm_of_float16_is_computed_in_float32(size):
    """Squares of 1e-3 and 2e4, and 1e-12, are no numbers of float16."""
    rng = np.random.default_rng(9)
    rows = tf.cast(rng.normal(0.0, size, (5, 12)), tf.float16)
    gamma, beta = (tf.constant(rng.normal(size=12), tf.float32) for _ in range(2))
    found = layer_norm(rows, gamma, beta)
    assert found.dtype == tf.float16
    expected = layer_norm(tf.cast(rows, tf.float32), gamma, beta)
    np.testing.assert_array_equal(found, tf.cast(expected, tf.float16))
    constant = layer_norm(tf.fill([2, 12], tf.cast(size, tf.float16)), gamma, beta)
    np.testing.assert_array_equal(constant, tf.cast([beta, beta], tf.float16))


def attention_inputs(rng, batch=2, length=5, heads=3, width=4):
    """Query, key, value, and logits that mask the last column of the second row."""
    shape = (batch, heads, length, width)
    parts = [tf.constant(rng.normal(size=shape), tf.float32) for _ in range(3)]
    masked = np.zeros((batch, 1, 1, length), np.float32)
    masked[1, ..., -1] = -10_000.0
    return parts, tf.constant(masked)


def drop_some(pairs):
    kept = np.random.default_rng(8).random(pairs.shape) > 0.3
    return tf.where(kept, pairs / 0.7, 0.0)


def test_attention_in_float16_does_not_see_padding():
    parts, mask_logits = attention_inputs(np.random.default_rng(12))
    # Logits of hundreds, so that a masked one must be far below.
    parts = [tf.cast(20 * part, tf.float16) for part in parts]
    found = attend(parts, mask_logits, lambda pairs: pairs)
    assert found.dtype == tf.float16 and np.isfinite(found).all()
    shorter = [part[:, :, :-1] for part in parts]
    expected = attend(shorter, mask_logits[..., :-1], lambda pairs: pairs)
    np.testing.assert_allclose(found[1, :, :-1], expected[1], rtol=2e-3)


@pytest.mark.parametrize("recompute", [False, True])
def test_attention_and_its_gradients_are_those_of_the_plain_formula(recompute):
    rng = np.random.default_rng(10)
    parts, mask_logits = attention_inputs(rng)
    weights = tf.constant(rng.normal(size=parts[0].shape), tf.float32)

    def plain(query, key, value):
        logits = tf.einsum("BNSD,BNTD->BNST", query, key) + mask_logits
        dropped = drop_some(tf.nn.softmax(logits))
        return tf.einsum("BNST,BNTD->BNSD", dropped, value)

    def ours(query, key, value):
        return attend((query, key, value), mask_logits, drop_some, recompute)

    def evaluate(function):
        with tf.GradientTape() as tape:
            tape.watch(parts)
            output = function(*parts)
        return [output, *tape.gradient(output, parts, weights)]

    found = tf.function(lambda: evaluate(ours))()
    for one, other in zip(found, evaluate(plain), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
