"""Tensors that recomputation keeps for the backward pass, off XLA and under it."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.heads import PretrainingModel
from helpers.tiny import MAX_PREDICTIONS, MAX_SEQ_LENGTH, tiny_config

BATCH = 7
LAYERS = 3
WAYS = ("none", "attention", "block")


def trace(rematerialize, jit_compile=False, layers=LAYERS, groups=1):
    """The traced function of gradients, and its forward pass's operations."""
    config = tiny_config(num_hidden_layers=layers, num_hidden_groups=groups)
    model = PretrainingModel(config, seed=1, rematerialize=rematerialize)
    forward = []

    @tf.function(jit_compile=jit_compile)
    def gradients(ids, positions):
        ones = tf.ones_like(ids)
        batch = {"input_ids": ids, "input_mask": ones, "segment_ids": ones}
        with tf.GradientTape() as tape:
            rows = {**batch, "masked_lm_positions": positions}
            outputs = model(rows, training=True)
            loss = tf.add_n([tf.reduce_sum(value**2) for value in outputs.values()])
        forward.extend(loss.graph.get_operations())
        return tape.gradient(loss, model.trainable_variables)

    specs = [
        tf.TensorSpec([BATCH, length], tf.int32)
        for length in (MAX_SEQ_LENGTH, MAX_PREDICTIONS)
    ]
    return gradients, gradients.get_concrete_function(*specs).graph, forward, specs


def kept_bytes(rematerialize, layers):
    """Bytes of activations that the forward pass makes and the backward pass reads."""
    # Layers that share nothing are traced into one graph.
    _, graph, forward, _ = trace(rematerialize, layers=layers, groups=layers)
    names = {operation.name for operation in forward}
    # Weights have none of these sizes.
    rows = {BATCH, BATCH * MAX_SEQ_LENGTH, BATCH * MAX_PREDICTIONS}
    kept = {
        tensor.name: tensor
        for operation in graph.get_operations()
        if operation.name not in names
        for tensor in operation.inputs
        if tensor.op.name in names and tensor.shape.rank and tensor.shape[0] in rows
    }
    return sum(
        int(np.prod(tensor.shape)) * tensor.dtype.size for tensor in kept.values()
    )


def test_recomputed_parts_are_not_kept():
    none, attention, block = (
        (kept_bytes(way, 4) - kept_bytes(way, 2)) / 2 for way in WAYS
    )
    rows = 4 * BATCH * tiny_config().num_attention_heads * MAX_SEQ_LENGTH
    # Of a layer's attention one number a row instead of one a pair.
    assert none - attention == rows * MAX_SEQ_LENGTH - rows
    # Of a whole layer its input alone.
    assert block == 4 * BATCH * MAX_SEQ_LENGTH * tiny_config().hidden_size


@pytest.mark.parametrize("way", WAYS)
def test_xla_is_given_the_second_computation_behind_a_barrier(way):
    """Without one it merges both; the TPU compiler takes it in test_tpu_report.py."""
    products, barriers = count_operations(way)
    plain_products, plain_barriers = count_operations("none")
    # Attention again: the product of query and key. A block: all of its seven.
    more = {"none": 0, "attention": LAYERS, "block": 7 * LAYERS}[way]
    assert products - plain_products == more
    assert barriers - plain_barriers == (0 if way == "none" else LAYERS)


def count_operations(way):
    gradients, _, _, specs = trace(way, jit_compile=True)
    text = gradients.experimental_get_compiler_ir(*specs)(stage="hlo")
    return text.count(" dot("), text.count(" opt-barrier(")
