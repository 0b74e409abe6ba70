"""Graphs store each weight once and say what they are."""

import json

import numpy as np
import onnx
import tensorflow as tf

from albert_tf.serving.onnx_graph import OPSET, Graph
from helpers.onnx_models import start


def scaled_thrice():
    """A graph that multiplies ids by a weight, and adds a number, three times."""
    graph = Graph()
    ids = graph.input("ids", ["batch", 3])
    weight = tf.Variable([2.0, 3.0, 5.0], name="some/scale")
    value = graph.cast(ids, np.float32)
    for number in (7, 7, 9):
        product = graph.add("Mul", value, graph.weight(weight))
        value = graph.add("Add", product, graph.constant(number, np.float32))
    graph.output("result", value, np.float32, ["batch", 3])
    return graph.to_model({"labels": ["schlecht", "gut"], "length": 24}, "1.2.3")


def test_weights_and_numbers_are_stored_once():
    model = scaled_thrice()
    onnx.checker.check_model(model, full_check=True)
    stored = {
        each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer
    }
    assert next(iter(stored)) == "some/scale" and len(stored) == 3
    assert sorted(float(v) for v in list(stored.values())[1:]) == [7.0, 9.0]
    found = start(model.SerializeToString()).run(None, {"ids": np.array([[1, 0, -4]])})
    expected = np.array([1.0, 0, -4])
    for number in (7, 7, 9):
        expected = expected * [2, 3, 5] + number
    assert found[0].tolist() == [expected.tolist()]


def test_long_constants_are_stored_apart():
    graph = Graph()
    names = {graph.constant(np.arange(size)) for size in (9, 10, 9)}
    assert len(names) == 3


def test_operations_with_several_outputs_give_all_of_them():
    graph = Graph()
    ids = graph.input("ids", ["batch", 4])
    parts = graph.add_several("Split", ids, outputs=2, axis=1, num_outputs=2)
    graph.output("second", parts[1], np.int64, ["batch", 2])
    session = start(graph.to_model({}, "1").SerializeToString())
    assert session.run(None, {"ids": np.array([[1, 2, 3, 5]])})[0].tolist() == [[3, 5]]


def test_a_reader_learns_the_metadata_and_who_wrote_it():
    model = scaled_thrice()
    assert (model.producer_name, model.producer_version) == ("albert-tf", "1.2.3")
    assert [each.version for each in model.opset_import] == [OPSET]
    metadata = start(model.SerializeToString()).get_modelmeta().custom_metadata_map
    assert json.loads(metadata["labels"]) == ["schlecht", "gut"]
    assert json.loads(metadata["length"]) == 24
