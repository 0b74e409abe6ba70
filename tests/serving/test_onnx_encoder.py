"""The encoder's ONNX graph gives the original's numbers, of fused operations."""

from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest

from albert_tf.checkpoints.load import released_name
from albert_tf.serving.base import IDS
from albert_tf.serving.create import create_served_model
from albert_tf.serving.encoder import EncoderModel
from albert_tf.task_config import MultipleChoice
from helpers.onnx_models import (
    assert_refuses,
    content_of,
    expected_answers,
    full,
    random_batch,
    random_served,
    run,
    start,
)
from helpers.references import REFERENCES, Case

CONFIGURATIONS = {
    "groups": {"num_hidden_layers": 4, "num_hidden_groups": 2, "inner_group_num": 2},
    "attention's own": {"attention_groups": 2, "hidden_act": "gelu_erf"},
    "BERT": {"embedding_size": 12, "num_hidden_groups": 2, "hidden_act": "relu"},
    "projected": {
        "embedding_size": 12,
        "project_embeddings": True,
        "hidden_act": "tanh",
    },
    "three segments": {"type_vocab_size": 3, "hidden_act": "linear", "ffn_groups": 2},
}


@pytest.fixture(scope="module")
def session():
    return start(content_of(random_served(None)))


@pytest.mark.parametrize("name", REFERENCES)
def test_outputs_equal_the_originals(name, reference):
    case = Case(reference / name)
    model = EncoderModel(case.config, case.model.encoder)
    session = start(content_of(create_served_model(model, case.config, None)))
    found = run(session, case.batch)
    visible = case.expected["input_mask"][..., np.newaxis]
    expected = {
        "sequence_output": case.expected["sequence_output"] * visible,
        "pooled_output": case.expected["pooled_output"],
    }
    for output, values in expected.items():
        np.testing.assert_allclose(found[output], values, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_every_configuration_gives_the_models_numbers(name):
    served = random_served(None, **CONFIGURATIONS[name])
    session = start(content_of(served))
    for shape in ((1, 1 + 4), (3, 24)):
        batch = random_batch(shape)
        found = run(session, batch)
        for output, values in expected_answers(served, batch).items():
            np.testing.assert_allclose(found[output], values, atol=1e-5)


def test_layers_that_share_weights_have_one_copy():
    served = random_served(None, num_hidden_layers=4, num_hidden_groups=2)
    model = onnx.load_from_string(content_of(served))
    stored = {
        each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer
    }
    weights = {released_name(v): v.numpy() for v in served.model.encoder.variables}
    assert weights.keys() <= stored.keys()
    for name, values in weights.items():
        assert np.array_equal(stored[name], values), name
    # Numbers and shapes.
    others = [values.size for name, values in stored.items() if name not in weights]
    assert len(weights) == 41 and max(others) <= 4


def test_the_graph_is_of_operations_with_fast_kernels():
    layers = 3
    served = random_served(None, num_hidden_layers=layers, num_hidden_groups=1)
    model = onnx.load_from_string(content_of(served))
    counts = Counter(node.op_type for node in model.graph.node)
    assert counts["LayerNormalization"] == 1 + 2 * layers
    assert counts["Gelu"] == counts["Softmax"] == layers
    # Four projections, two products of attention, two of the feed-forward part; and
    # those of embeddings and pooler.
    assert counts["MatMul"] == 8 * layers + 2
    assert counts["Transpose"] == counts["Reshape"] == 4 * layers
    assert counts["Shape"] == 1 and "Einsum" not in counts
    epsilons = {
        attribute.f
        for node in model.graph.node
        for attribute in node.attribute
        if attribute.name == "epsilon"
    }
    assert epsilons == {np.float32(1e-12)}


@pytest.mark.parametrize(
    "task_config", [None, MultipleChoice()], ids=["rows", "options"]
)
def test_onnxruntime_fuses_the_layers(task_config, tmp_path):
    layers = 3
    served = random_served(task_config, num_hidden_layers=layers)
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "fused.onnx")
    start(content_of(served), options)
    nodes = onnx.load(tmp_path / "fused.onnx").graph.node
    counts = Counter(node.op_type for node in nodes)
    # Bias, residual and LayerNorm; bias and gelu.
    assert counts["SkipLayerNormalization"] == 2 * layers
    assert counts["FastGelu"] == layers and counts["LayerNormalization"] == 1
    inputs = {node.op_type: len(node.input) for node in nodes}
    assert inputs["SkipLayerNormalization"] == 5 and inputs["FastGelu"] == 2


@pytest.mark.parametrize(
    ("reason", "changes"),
    [
        ("input_ids_must_be_in_0_to_60", {"input_ids": 61}),
        ("input_ids_must_be_in_0_to_60", {"input_ids": -1}),
        ("input_ids_must_be_in_0_to_60", {"input_ids": 2**32 + 5}),
        ("input_ids_must_be_in_0_to_60", {"input_ids": -(2**63)}),
        ("input_mask_must_be_0_or_1", {"input_mask": 2}),
        ("input_mask_must_be_0_or_1", {"input_mask": -1}),
        ("segment_ids_must_be_in_0_to_1", {"segment_ids": 2}),
        ("segment_ids_must_be_in_0_to_1", {"segment_ids": -1}),
    ],
)
def test_values_outside_a_table_are_refused(reason, changes, session):
    batch = random_batch((2, 7))
    changes = {name: full((2, 7), value) for name, value in changes.items()}
    assert_refuses(session, batch, reason, **changes)


def test_shapes_that_cannot_be_answered_are_refused(session):
    batch = random_batch((2, 7))
    for name in IDS:
        for shape in ((1, 7), (2, 1), (2, 8)):
            values = {name: full(shape, 0)}
            assert_refuses(session, batch, "inputs_must_have_one_shape", **values)
        assert_refuses(session, batch, "Invalid rank", **{name: full((7,), 0)})
    long = dict.fromkeys(IDS, full((2, 25), 1))
    assert_refuses(session, long, "rows_must_have_at_most_24_tokens")
    empty = dict.fromkeys(IDS, full((2, 0), 1))
    assert_refuses(session, empty, "rows_must_have_a_token")
    with pytest.raises(Exception, match=r"int32.*expected: \(tensor\(int64\)\)"):
        session.run(None, {name: batch[name].astype(np.int32) for name in IDS})


def test_rows_without_a_token_are_refused(session):
    batch = random_batch((3, 7))
    batch["input_mask"][1] = 0
    assert_refuses(session, batch, "rows_must_have_a_token_that_the_mask_shows")


def test_an_empty_batch_gets_an_empty_answer(session):
    found = run(session, dict.fromkeys(IDS, full((0, 5), 1)))
    assert found["sequence_output"].shape == (0, 5, 12)
    assert found["mean_output"].shape == found["pooled_output"].shape == (0, 12)
