"""The costs of models, against the model itself, its graph and counted tensors."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.analysis import costs
from albert_tf.model.heads import PretrainingModel
from helpers import tiny


def test_parts_are_those_of_the_model_itself():
    config = tiny.tiny_config(inner_group_num=2, ffn_groups=4)
    counts = costs.parameter_counts(config)
    model = PretrainingModel(config, seed=1)
    variables = {v.name: int(tf.size(v)) for v in model.trainable_variables}
    assert sum(counts.values()) == sum(variables.values())
    block = model.encoder.blocks[0][0]
    sizes = {"attention": (block.attention, 2), "feed-forward": (block.feed_forward, 8)}
    for part, (layer, copies) in sizes.items():
        assert counts[part] == copies * sum(int(tf.size(v)) for v in layer.variables)
    assert counts["pooler"] == sum(
        int(tf.size(v)) for v in model.encoder.pooler.variables
    )


@pytest.mark.parametrize("inner", [1, 2])
@pytest.mark.parametrize("embedding", [6, 12])
def test_operations_are_those_of_the_graphs_products(inner, embedding):
    # Not shared, so that every product stands in the one graph.
    config = tiny.tiny_config(
        inner_group_num=inner, embedding_size=embedding, num_hidden_groups=4
    )
    length, predictions = 11, 3
    model = PretrainingModel(config, seed=1)
    names = ("input_ids", "input_mask", "segment_ids")
    batch = {name: tf.TensorSpec([1, length], tf.int32) for name in names}
    batch["masked_lm_positions"] = tf.TensorSpec([1, predictions], tf.int32)
    graph = tf.function(model).get_concrete_function(batch, training=True).graph
    found = sum(map(products_of, graph.get_operations()))
    assert 2 * found == costs.forward_operations(config, length, predictions)


def products_of(operation):
    """Multiplications of a product of matrices; 0 for another operation."""
    if operation.type not in ("MatMul", "BatchMatMulV2", "Einsum"):
        return 0
    first, second = (tensor.shape.as_list() for tensor in operation.inputs)
    if operation.type == "Einsum":
        equation = operation.get_attr("equation").decode()
        (one, other), output = (
            equation.split("->")[0].split(","),
            equation.split("->")[1],
        )
        sizes = dict(zip(one + other, first + second, strict=True))
        assert set(output) <= set(sizes)
        return int(np.prod(list(sizes.values())))
    flag = "transpose_a" if operation.type == "MatMul" else "adj_x"
    inner = first[-2 if operation.get_attr(flag) else -1]
    return int(np.prod(operation.outputs[0].shape.as_list())) * inner


def test_activations_grow_by_the_same_for_every_layer_and_shrink_when_recomputed():
    config = tiny.tiny_config(hidden_dropout_prob=0.1, num_hidden_groups=4)
    sizes = (11, 3)
    kept = costs.activation_bytes(config, *sizes)
    whole = costs.traced_activation_bytes(config, *sizes)
    assert kept == whole
    less = costs.activation_bytes(config, *sizes, rematerialize="block")
    layer = sizes[0] * config.hidden_size * 4
    # A whole block recomputed leaves its input alone.
    deeper = config.replace(num_hidden_layers=5, num_hidden_groups=1)
    more = costs.activation_bytes(deeper, *sizes, rematerialize="block")
    assert less < kept and layer <= more - less <= 1.5 * layer


def test_a_product_keeps_its_input_once_however_it_is_viewed():
    weight = tf.Variable(tf.ones([5, 7]))

    @tf.function(input_signature=[tf.TensorSpec([3, 5])])
    def gradient(x):
        with tf.GradientTape() as tape:
            kept = tf.tanh(x)
            views = tf.identity(tf.reshape(kept, [3, 5]))
            loss = tf.reduce_sum(tf.matmul(views, weight) + tf.matmul(kept, weight))
        boundary.append(len(tf.compat.v1.get_default_graph().get_operations()))
        return tape.gradient(loss, weight)

    boundary = []
    graph = gradient.get_concrete_function().graph
    inputs = [t for t in graph.inputs if t.dtype == tf.float32]
    found = costs.bytes_across(graph.get_operations(), boundary[0], inputs)
    assert found == 3 * 5 * 4
