"""A transformer block against numpy, with and without recomputation."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.blocks import FeedForward, SelfAttention, TransformerBlock
from albert_tf.model.layers import Initializer
from helpers.tiny import tiny_config

BATCH, LENGTH, HIDDEN, HEADS = 2, 5, 12, 3


def block_of(**options):
    config = tiny_config(hidden_act="relu", initializer_range=0.3)
    initializer = Initializer(config.initializer_range, 7)
    attention = SelfAttention(config, initializer, "block")
    feed_forward = FeedForward(config, initializer, "block")
    return TransformerBlock(attention, feed_forward, **options)


def inputs():
    rng = np.random.default_rng(3)
    hidden = rng.normal(size=[BATCH, LENGTH, HIDDEN]).astype(np.float32)
    visible = np.arange(LENGTH) < np.array([[LENGTH], [3]])
    mask_logits = np.where(visible, 0.0, -10_000.0)[:, None, None].astype(np.float32)
    return hidden, mask_logits


def normalized(values):
    centered = values - values.mean(-1, keepdims=True)
    return centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-12)


def split(projection, hidden):
    flat = hidden @ projection.kernel.numpy() + projection.bias.numpy()
    return flat.reshape(BATCH, LENGTH, HEADS, HIDDEN // HEADS).transpose(0, 2, 1, 3)


def expected_output(block, hidden, mask_logits):
    attention, feed_forward = block.attention, block.feed_forward
    query, key, value = (
        split(part, hidden)
        for part in (attention.query, attention.key, attention.value)
    )
    logits = query @ key.swapaxes(-1, -2) / np.sqrt(HIDDEN // HEADS) + mask_logits
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    context = (weights @ value).transpose(0, 2, 1, 3).reshape(hidden.shape)
    output = attention.output_projection
    hidden = normalized(hidden + context @ output.kernel.numpy() + output.bias.numpy())
    inner, output = feed_forward.intermediate, feed_forward.output_projection
    middle = np.maximum(hidden @ inner.kernel.numpy() + inner.bias.numpy(), 0)
    return normalized(hidden + middle @ output.kernel.numpy() + output.bias.numpy())


@pytest.mark.parametrize("recompute_all", [False, True])
def test_a_block_is_attention_then_feed_forward(recompute_all):
    block = block_of(recompute_all=recompute_all)
    hidden, mask_logits = inputs()
    found = block(tf.constant(hidden), tf.constant(mask_logits), None, 0)
    expected = expected_output(block, hidden, mask_logits)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_recomputation_changes_no_gradient():
    hidden, mask_logits = map(tf.constant, inputs())
    gradients = []
    for recompute_all in (False, True):
        block = block_of(recompute_all=recompute_all)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(block(hidden, mask_logits, None, 0) ** 3)
        gradients.append(tape.gradient(loss, block.trainable_variables))
    assert len(gradients[0]) == 16
    for plain, recomputed in zip(*gradients, strict=True):
        np.testing.assert_allclose(recomputed, plain, rtol=1e-4, atol=1e-4)
