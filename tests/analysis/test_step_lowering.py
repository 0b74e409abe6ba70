"""The lowered step: static shapes, the whole update, and the precision asked for."""

import re

import pytest
import tensorflow as tf

from albert_tf.analysis import costs, step_lowering
from albert_tf.config import OptimizerConfig, TrainConfig
from albert_tf.records.features import pretraining_features
from albert_tf.tasks.pretraining import PRETRAINING
from helpers.lowered_steps import LENGTH, PREDICTIONS, ROWS, lower
from helpers.tiny import tiny_config
from helpers.training_jobs import two_devices


@pytest.mark.parametrize("micro_batches", [1, 3])
def test_the_lowered_step_is_static_and_updates_weights_and_moments(micro_batches):
    text, _ = lower(micro_batches)
    assert "?x" not in text
    assert f"tensor<{ROWS}x{LENGTH}xi32>" in text
    results = re.findall(r"^    return (.*) :", text, re.MULTILINE)[-1]
    variables = 25
    # All weights, both moments of each, the step count and more beside the report.
    assert len(results.split(",")) > 3 * variables


@pytest.mark.parametrize(
    ("precision", "name"), [("bfloat16", "bf16"), ("float16", "f16")]
)
def test_products_have_16_bits_and_weights_32(precision, name):
    text, _ = lower(precision=precision)
    products = re.findall(r"dot_general.* -> tensor<[\dx]*x(\w+)>", text)
    assert products.count(name) > 0.9 * len(products)
    signature = text[text.index("@main") : text.index("{\n", text.index("@main"))]
    assert "f16" not in signature


def test_replicas_sum_the_bytes_of_the_gradients_once_a_step():
    strategy = two_devices()
    train = TrainConfig("unused", precision="bfloat16", gradient_accumulation_steps=3)
    with strategy.scope():
        step = step_lowering.build_step(
            PRETRAINING, tiny_config(), OptimizerConfig(), train
        )
    specs = step_lowering.batch_specs(pretraining_features(LENGTH, PREDICTIONS), ROWS)
    run = tf.function(lambda *values: strategy.run(step, values), autograph=False)
    graph = run.get_concrete_function(specs, tf.TensorSpec([2], tf.int32)).graph
    summed = [
        operation.inputs[0].shape.num_elements() * operation.inputs[0].dtype.size
        for operation in graph.get_operations()
        if operation.type == "CollectiveReduceV2" and operation.device.endswith("CPU:0")
    ]
    # The weights of the losses, and all gradients in one sum.
    losses = 4 * len(PRETRAINING.losses)
    assert sorted(summed) == [losses, step_lowering.gradient_bytes(step)]


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_layers_that_share_weights_sum_one_float32_gradient(precision):
    def count(**changes):
        config, train = tiny_config(**changes), TrainConfig("x", precision=precision)
        step = step_lowering.build_step(PRETRAINING, config, OptimizerConfig(), train)
        return step_lowering.gradient_bytes(step)

    shared = count(num_hidden_layers=5)
    assert shared == count(num_hidden_layers=2)
    parameters = costs.parameter_counts(tiny_config())
    assert shared == 4 * sum(parameters.values())


def test_a_batch_has_the_bytes_of_its_rows():
    specs = step_lowering.batch_specs(pretraining_features(LENGTH, PREDICTIONS), ROWS)
    one = step_lowering.batch_specs(pretraining_features(LENGTH, PREDICTIONS), 1)
    # Ids, mask, segments and starts of words; positions, ids and weights; the label.
    row = 4 * (4 * LENGTH + 3 * PREDICTIONS + 1)
    assert step_lowering.batch_bytes(one) == row
    assert step_lowering.batch_bytes(specs) == ROWS * row
