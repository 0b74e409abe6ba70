"""Other runtimes get the same requests; those that cannot be had are named."""

import collections
import dataclasses
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.serving import tflite
from albert_tf.serving.create import load_model
from albert_tf.text.tokenizer import AlbertTokenizer
from dev import serving_models, serving_peers, serving_requests
from dev.serving_contestant import PEERS
from helpers.fine_tuning_toys import config, write_vocabulary


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("peers")
    tokenizer = AlbertTokenizer(vocab_file=write_vocabulary(folder))
    exported = serving_models.write_model(
        folder / "model", config(num_hidden_layers=1), tokenizer, "float32"
    )
    return serving_peers.Source(exported, folder, threads=1, lengths=(5, 9))


def of_bfloat16(source):
    exported = dataclasses.replace(source.exported, precision="bfloat16")
    return dataclasses.replace(source, exported=exported)


def test_runtimes_that_are_not_installed_are_named(source, monkeypatch):
    monkeypatch.setitem(sys.modules, "ai_edge_litert.interpreter", None)
    for name in ("torch", "openvino", "onnxruntime"):
        monkeypatch.setitem(sys.modules, name, None)
    found, missing = serving_peers.make_peers(source, ["onnxruntime", "torch"])
    assert found == []
    assert missing == {
        f"{form}": f"{name} is not installed (extra `peers`)"
        for form, name in (
            ("onnxruntime, our ONNX file", "onnxruntime"),
            ("onnxruntime, transformers' ONNX file", "onnxruntime"),
            ("PyTorch, eager", "torch"),
        )
    }
    found, missing = serving_peers.make_peers(of_bfloat16(source), PEERS)
    assert found == [] and {*missing} == {
        *("LiteRT, float32", "LiteRT, int8"),
        *("onnxruntime, our ONNX file", "onnxruntime, transformers' ONNX file"),
        *("OpenVINO, our ONNX file", "OpenVINO, transformers' ONNX file"),
        *("PyTorch, bfloat16 weights", "PyTorch, autocast"),
    }
    assert missing["OpenVINO, our ONNX file"].startswith("openvino is not installed")
    assert serving_peers.make_peers(source, []) == ([], {})


def test_a_part_of_this_project_that_is_missing_is_named(source, monkeypatch):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    monkeypatch.setitem(sys.modules, "albert_tf.serving.onnx_file", None)
    monkeypatch.setitem(sys.modules, "torch", None)
    found, missing = serving_peers.make_peers(source, ["onnxruntime"])
    assert not found and missing == {
        "onnxruntime, our ONNX file": "albert_tf.serving.onnx_file is missing or of "
        "another version",
        "onnxruntime, transformers' ONNX file": "torch is not installed "
        "(extra `peers`)",
    }


def test_onnxruntime_gets_inputs_by_their_names_and_types(source, monkeypatch):
    """A graph of the names of transformers, whose logits are sums of its inputs."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    helper, kinds = onnx.helper, onnx.TensorProto
    names = {
        "input_ids": kinds.INT64,
        "attention_mask": kinds.INT64,
        "token_type_ids": kinds.INT32,
    }
    nodes = [
        helper.make_node("Cast", [name], [f"{name}_"], to=kinds.FLOAT) for name in names
    ]
    nodes += [
        helper.make_node("ReduceSum", ["input_ids_", "axes"], ["a"]),
        helper.make_node("ReduceSum", ["attention_mask_", "axes"], ["b"]),
        helper.make_node("ReduceSum", ["token_type_ids_", "axes"], ["c"]),
        helper.make_node("Concat", ["a", "b", "c"], ["logits"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "sums",
        [helper.make_tensor_value_info(n, t, ["B", "S"]) for n, t in names.items()],
        [helper.make_tensor_value_info("logits", kinds.FLOAT, ["B", 3])],
        [helper.make_tensor("axes", kinds.INT64, [1], [1])],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9
    )
    path = source.folder / "sums.onnx"
    onnx.save(model, path)
    monkeypatch.setattr(serving_peers.Source, "onnx_file", lambda *_: path)
    found, missing = serving_peers.make_peers(source, ["onnxruntime"])
    assert len(found) == 2 and not missing
    batch = {
        "input_ids": np.array([[1, 0, 2, 0], [0, 1, 0, 0]], np.int32),
        "input_mask": np.array([[1, 1, 1, 0], [1, 0, 0, 0]], np.int32),
        "segment_ids": np.array([[0, 0, 1, 0], [0, 0, 0, 0]], np.int32),
    }
    expected = tf.nn.softmax([[3.0, 3.0, 1.0], [1.0, 1.0, 0.0]])
    np.testing.assert_allclose(found[0].ids(batch), expected, atol=1e-6)
    ids = source.exported.tokenizer.encode("worda lovely")
    total = [[float(np.sum([2, 3, *ids])), 4.0, 0.0]]
    special = source.exported.tokenizer.cls_id, source.exported.tokenizer.sep_id
    assert special == (2, 3)
    np.testing.assert_allclose(
        found[1].texts(["worda lovely"]), tf.nn.softmax(total), atol=1e-6
    )


def test_a_file_of_litert_is_made_for_each_length(source, monkeypatch):
    """Files whose probabilities are sums of ids and the length."""
    made = []

    def write(exported, path, settings):
        made.append((exported.precision, path.name, *settings))

        @tf.function(
            input_signature=[
                tf.TensorSpec([1, settings.length], tf.int32, name=name)
                for name in ("input_ids", "input_mask", "segment_ids")
            ]
        )
        def sums(input_ids, input_mask, segment_ids):
            both = tf.reduce_sum(input_ids, 1), tf.reduce_sum(input_mask, 1)
            return {"probabilities": tf.stack(both, 1) + 0 * tf.reduce_sum(segment_ids)}

        converter = tf.lite.TFLiteConverter.from_concrete_functions(
            [sums.get_concrete_function()], tf.Module()
        )
        path.write_bytes(converter.convert())

    settings = collections.namedtuple("Settings", ["length", "quantize"])
    monkeypatch.setattr(tflite, "TfliteSettings", settings, raising=False)
    monkeypatch.setattr(tflite, "export_tflite", write)
    found, missing = serving_peers.make_peers(source, ["tflite"])
    assert not missing and [each.name for each in found] == [
        "LiteRT, float32",
        "LiteRT, int8",
    ]
    assert made == [
        ("float32", "float32_5.tflite", 5, "none"),
        ("float32", "float32_9.tflite", 9, "none"),
        ("float32", "int8_5.tflite", 5, "dynamic"),
        ("float32", "int8_9.tflite", 9, "dynamic"),
    ]
    rng = np.random.default_rng(2)
    for each in found:
        for length in (9, 5):
            batch = serving_requests.random_ids(
                source.exported.tokenizer, 1, length, rng
            )
            expected = [[batch["input_ids"].sum(), length]]
            assert each.request(batch)().tolist() == expected
        assert each.request(["text"]) is None


def test_pytorch_and_its_onnx_file_answer_as_the_model(source):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    found, _ = serving_peers.make_peers(source, ["torch", "openvino", "onnxruntime"])
    exported = source.exported
    model, _ = load_model(exported.config, exported.checkpoint, exported.task_config)
    rng = np.random.default_rng(2)
    texts = [serving_requests.text_of(exported.tokenizer, n, rng) for n in (19, 4, 11)]
    batch = serving_requests.pack(exported.tokenizer, texts)
    expected = tf.nn.softmax(model(batch)["logits"])
    assert {"PyTorch, eager"} <= {each.name for each in found}
    for each in found:
        np.testing.assert_allclose(each.ids(batch), expected, atol=1e-5)
        np.testing.assert_allclose(each.texts(texts), expected, atol=1e-5)
