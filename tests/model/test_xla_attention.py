"""Attention in the form that XLA compiles, against plain formulas."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model import xla_attention

BATCH, LENGTH, HEADS, WIDTH, HIDDEN = 2, 5, 3, 4, 7


def draw(rng, *shape):
    return tf.constant(rng.normal(size=shape), tf.float32)


def outputs_and_gradients(function, inputs, seed=9, jit_compile=True):
    """The function's outputs, and the gradients of a random sum of them."""
    rng = np.random.default_rng(seed)
    weights = [draw(rng, *part.shape) for part in tf.nest.flatten(function(*inputs))]

    def compute():
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = tf.nest.flatten(function(*inputs))
        return [*outputs, *tape.gradient(outputs, inputs, weights)]

    return tf.function(compute, jit_compile=jit_compile)()


def assert_equal(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5)


def test_heads_are_projected_as_by_products_of_their_own():
    rng = np.random.default_rng(2)
    hidden = draw(rng, BATCH, LENGTH, HIDDEN)
    kernels = [draw(rng, HIDDEN, HEADS, WIDTH) for _ in range(3)]
    biases = [draw(rng, HEADS, WIDTH) for _ in range(3)]

    def ours(hidden, *weights):
        joined, value = xla_attention.project_heads(hidden, weights[:3], weights[3:])
        return [joined[0], joined[1], value]

    def plain(hidden, *weights):
        return [
            tf.einsum("BSH,HND->BSND", hidden, kernel) + bias
            for kernel, bias in zip(weights[:3], weights[3:], strict=True)
        ]

    inputs = [hidden, *kernels, *biases]
    assert_equal(
        outputs_and_gradients(ours, inputs),
        outputs_and_gradients(plain, inputs, jit_compile=False),
    )


def drop_some(pairs):
    kept = np.random.default_rng(8).random(pairs.shape) > 0.3
    return tf.where(kept, pairs / 0.7, 0.0)


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("drop", [tf.identity, drop_some, lambda pairs: pairs])
def test_attention_is_the_plain_formula(drop, recompute):
    rng = np.random.default_rng(10)
    parts = [draw(rng, BATCH, LENGTH, HEADS, WIDTH) for _ in range(3)]
    masked = np.zeros((BATCH, 1, 1, LENGTH), np.float32)
    masked[0] = -10_000.0  # a row of padding alone
    masked[1, ..., -1] = -10_000.0

    def ours(query, key, value):
        joined = tf.stack([query, key])
        return xla_attention.attend(joined, value, masked, drop, recompute)

    def plain(query, key, value):
        logits = tf.einsum("BSND,BTND->BNST", query, key) / 2.0 + masked
        return tf.einsum("BNST,BTND->BSND", drop(tf.nn.softmax(logits)), value)

    assert_equal(
        outputs_and_gradients(ours, parts),
        outputs_and_gradients(plain, parts, jit_compile=False),
    )


def test_attention_of_logits_beyond_the_range_of_exponentials_is_finite():
    large = tf.fill([1, LENGTH, HEADS, WIDTH], 30.0)
    value = draw(np.random.default_rng(4), 1, LENGTH, HEADS, WIDTH)
    found = outputs_and_gradients(
        lambda *parts: xla_attention.attend(
            *parts, tf.zeros([1, 1, 1, LENGTH]), lambda pairs: pairs
        ),
        [tf.stack([large, large]), value],
    )
    assert all(np.isfinite(part).all() for part in found)
    mean = np.broadcast_to(np.mean(value, axis=1, keepdims=True), value.shape)
    np.testing.assert_allclose(found[0], mean, atol=1e-5)


def test_bfloat16_attention_is_that_of_float32_within_its_rounding():
    rng = np.random.default_rng(5)
    parts = [draw(rng, 2, BATCH, 40, HEADS, 8), draw(rng, BATCH, 40, HEADS, 8)]
    mask_logits = tf.zeros([BATCH, 1, 1, 40])

    def attend(*parts):
        return xla_attention.attend(*parts, mask_logits, lambda pairs: pairs)

    expected = outputs_and_gradients(attend, parts)
    rounded = [tf.cast(part, tf.bfloat16) for part in parts]
    found = tf.function(lambda: attend(*rounded), jit_compile=True)()
    assert found.dtype == tf.bfloat16
    np.testing.assert_allclose(tf.cast(found, tf.float32), expected[0], atol=0.03)


def test_heads_are_merged_by_one_product():
    rng = np.random.default_rng(6)
    context = draw(rng, BATCH, LENGTH, HEADS, WIDTH)
    kernel, bias = draw(rng, HEADS * WIDTH, HIDDEN), draw(rng, HIDDEN)
    found = xla_attention.merge_heads(context, kernel, bias)
    flat = np.reshape(context, (BATCH, LENGTH, HEADS * WIDTH))
    np.testing.assert_allclose(found, flat @ kernel.numpy() + bias, atol=1e-5)
