"""The forward pass without training: equal numbers, nothing for padding, fused."""

import collections

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from albert_tf.model.encoder import AlbertEncoder
from helpers.tiny import tiny_config

LENGTHS = (7, 1, 4)


def batch_of(mask, seed=3):
    mask = np.asarray(mask, np.int32)
    rng = np.random.default_rng(seed)
    return {
        "input_ids": tf.constant(rng.integers(5, 29, mask.shape), tf.int32),
        "input_mask": tf.constant(mask),
        "segment_ids": tf.constant(rng.integers(0, 2, mask.shape), tf.int32),
    }


def padded_mask(length=9):
    return np.arange(length) < np.array(LENGTHS)[:, np.newaxis]


def encoder(**changes):
    changes = {"initializer_range": 0.3, **changes}
    return AlbertEncoder(tiny_config(**changes), seed=5)


def outputs_of(model, batch):
    named = {k: v for k, v in model(batch).items() if k != "encoder_outputs"}
    return {k: v.numpy() for k, v in named.items()}


@pytest.mark.parametrize(
    "mask",
    [padded_mask(), [[0, 1, 1, 0, 1], [1, 0, 0, 1, 0]], np.ones([2, 5])],
    ids=["padded", "with holes", "full"],
)
@pytest.mark.parametrize(
    "changes", [{}, {"hidden_act": "gelu_erf", "num_hidden_groups": 2}]
)
def test_tokens_have_the_numbers_of_training(mask, changes):
    model, batch = encoder(**changes), batch_of(mask)
    inferred = outputs_of(model, batch)
    model.skips_padding = False
    expected = outputs_of(model, batch)
    visible = np.asarray(mask) > 0
    for name in ("sequence_output", "embedding_output"):
        found = inferred[name]
        np.testing.assert_allclose(
            found[visible], expected[name][visible], rtol=0, atol=1e-5
        )
    np.testing.assert_allclose(
        inferred["pooled_output"], expected["pooled_output"], rtol=0, atol=1e-5
    )


def test_padding_is_0_and_changes_nothing():
    model, short = encoder(), batch_of(padded_mask(7))
    longer = {name: tf.pad(values, [[0, 0], [0, 3]]) for name, values in short.items()}
    expected, found = outputs_of(model, short), outputs_of(model, longer)
    assert not found["sequence_output"][:, 7:].any()
    np.testing.assert_array_equal(found["pooled_output"], expected["pooled_output"])
    np.testing.assert_array_equal(
        found["sequence_output"][:, :7], expected["sequence_output"]
    )


def test_a_row_without_a_visible_token_depends_on_no_other_row():
    model, batch = encoder(), batch_of(padded_mask())
    hidden = np.array(batch["input_mask"])
    hidden[1] = 0
    batch["input_mask"] = tf.constant(hidden)
    together = model(batch)["pooled_output"][1]
    alone = model({name: values[1:2] for name, values in batch.items()})
    np.testing.assert_allclose(together, alone["pooled_output"][0], atol=1e-6)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("input_mask", (3, 7)),
        ("input_mask", (2, 9)),
        ("input_mask", (9, 3)),
        ("segment_ids", (3, 11)),
        ("segment_ids", (9, 3)),
    ],
)
def test_inputs_of_other_shapes_are_refused(name, shape):
    batch = batch_of(padded_mask())
    batch[name] = tf.ones(shape, tf.int32)
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match=r"[Ss]hape"):
        encoder()(batch)


@pytest.mark.parametrize("shape", [(1, 9), (3, 1)])
def test_a_mask_of_fewer_rows_or_columns_is_repeated(shape):
    model, batch = encoder(), batch_of(np.ones([3, 9]))
    expected = outputs_of(model, batch)
    found = outputs_of(model, {**batch, "input_mask": tf.ones(shape, tf.int32)})
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)


@pytest.mark.parametrize("dtype", [tf.bool, tf.int64, tf.float32, "list"])
def test_masks_of_any_type_are_read(dtype):
    model, batch = encoder(), batch_of(padded_mask())
    expected = outputs_of(model, batch)["pooled_output"]
    mask = batch["input_mask"]
    batch["input_mask"] = (
        mask.numpy().tolist() if dtype == "list" else tf.cast(mask, dtype)
    )
    np.testing.assert_array_equal(outputs_of(model, batch)["pooled_output"], expected)


def test_an_empty_batch_has_empty_outputs():
    outputs = outputs_of(encoder(), batch_of(np.zeros([0, 6])))
    assert outputs["sequence_output"].shape == (0, 6, 12)
    assert outputs["pooled_output"].shape == (0, 12)


def fused_operations(function, *inputs):
    """Counts the operations of a function's graph as TensorFlow runs it."""
    context.enable_run_metadata()
    try:
        function(*inputs)
        metadata = context.export_run_metadata()
    finally:
        context.disable_run_metadata()
    counts = collections.Counter()
    for graph in metadata.function_graphs:
        for node in graph.post_optimization_graph.node:
            fused = [op.decode() for op in node.attr["fused_ops"].list.s]
            counts[(node.op.strip("_").removeprefix("Mkl"), *fused)] += 1
    return counts


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_tensorflow_fuses_the_operations(precision):
    layers = 4
    policy = "mixed_bfloat16" if precision == "bfloat16" else precision
    model = AlbertEncoder(tiny_config(num_hidden_layers=layers), seed=1, dtype=policy)
    ids = tf.TensorSpec([None, None], tf.int32)
    names = ("input_ids", "input_mask", "segment_ids")
    specs = {name: ids for name in names}

    @tf.function(input_signature=[specs], autograph=False)
    def encode(batch):
        outputs = model(batch)
        return outputs["sequence_output"], outputs["pooled_output"]

    counts = fused_operations(encode, batch_of(padded_mask()))
    if not any(name == "FusedMatMul" for name, *_ in counts):
        pytest.skip(
            "This TensorFlow, or this processor, has none of oneDNN's operations."
        )
    product = "FusedMatMul"
    assert counts[(product, "BiasAdd", "GeluApproximate")] == layers
    assert counts[(product, "BiasAdd", "Add")] == 2 * layers
    assert counts[(product, "BiasAdd", "Tanh")] == 1
    # Query, key and value in one; the projection of the embeddings.
    assert counts[(product, "BiasAdd")] == layers + 1
    # The fused normalization would crash servers.
    assert counts[("LayerNorm",)] == 0
    assert counts[("Rsqrt",)] == 2 * layers + 1


@pytest.mark.parametrize(
    "changes", [{}, {"embedding_size": 12}], ids=["ALBERT", "BERT"]
)
def test_bfloat16_is_near_float32(changes):
    batch = batch_of(padded_mask())
    config = tiny_config(initializer_range=0.3, **changes)
    exact, rounded = (
        AlbertEncoder(config, seed=5, dtype=policy)(batch)["pooled_output"]
        for policy in ("float32", "mixed_bfloat16")
    )
    assert rounded.dtype == tf.bfloat16
    np.testing.assert_allclose(tf.cast(rounded, tf.float32), exact, atol=0.1)


def test_gradients_without_training_are_those_of_training():
    model, batch = encoder(), batch_of(padded_mask())
    gradients = []
    for training in (False, True):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(batch, training=training)["pooled_output"][:, 1])
        gradients.append(tape.gradient(loss, model.trainable_variables))
    for inferred, trained in zip(*gradients, strict=True):
        inferred, trained = map(tf.convert_to_tensor, (inferred, trained))
        np.testing.assert_allclose(inferred, trained, rtol=0, atol=2e-4)
