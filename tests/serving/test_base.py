"""Signatures that all tasks share, and what they need to run."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.serving.base import IDS, ServedModel
from helpers import scripts
from helpers.served_models import export_folder, python_answer, signature


def test_examples_padded_or_not_get_the_answers_of_ids(pair_model, pair_answers):
    _, exported = pair_model
    answers, rows = pair_answers
    serialized = []
    for number, row in enumerate(rows):
        example = tf.train.Example()
        length = int(row["input_mask"].sum())
        for name, values in row.items():
            # Odd rows at their own length, without a mask.
            if number % 2 and name == "input_mask":
                continue
            kept = values[:length] if number % 2 else values
            example.features.feature[name].int64_list.value.extend(kept.tolist())
        serialized.append(example.SerializeToString())
    signatures = tf.saved_model.load(str(exported)).signatures
    served = signatures["examples"](examples=tf.constant(serialized))
    batch = {n: tf.constant(np.stack([row[n] for row in rows])) for n in rows[0]}
    by_ids = signatures["ids"](**batch)
    wide = {name: tf.cast(value, tf.int64) for name, value in batch.items()}
    by_wide_ids = signatures["ids_int64"](**wide)
    expected = [answer["probabilities"][0] for answer in answers]
    for found in (served, by_ids, by_wide_ids):
        np.testing.assert_allclose(found["probabilities"], expected, atol=1e-5)


# The second model needs tensorflow-text, so it comes after the first one is checked.
BARE_PROGRAM = """
import sys
import tensorflow as tf

def answer(folder, name, value):
    signature = tf.saved_model.load(folder).signatures[name]
    names = [spec.name for spec in signature.structured_input_signature[1].values()]
    answers = signature(**{name: value for name in names})
    print(answers["probabilities"].numpy().tolist())
    assert "albert_tf" not in sys.modules and "tf_keras" not in sys.modules

answer(sys.argv[1], "ids", tf.constant([[1, 1]]))
assert "tensorflow_text" not in sys.modules
import tensorflow_text
answer(sys.argv[2], "text", tf.constant(["lovely worda"]))
"""


def test_a_bare_process_answers_when_the_source_is_gone(pair_model, tmp_path):
    source = tmp_path / "source"
    shutil.copytree(pair_model[0], source)
    exports = [
        export_folder(source, tmp_path / f"moved_{text}", text=text)
        for text in (False, True)
    ]
    shutil.rmtree(source)
    done = subprocess.run(
        [sys.executable, "-I", "-c", BARE_PROGRAM, *map(str, exports)],
        cwd=tmp_path,
        env=scripts.plain_environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    by_ids, by_text = (json.loads(line)[0] for line in done.stdout.splitlines()[-2:])
    [answer], _ = python_answer(pair_model[0], [("lovely worda", "lovely worda")])
    np.testing.assert_allclose(by_text, answer["probabilities"][0], atol=1e-5)
    for probabilities in (by_ids, by_text):
        assert sum(probabilities) == pytest.approx(1, abs=1e-5)


def test_a_loaded_model_saved_again_answers_the_same(pair_model, tmp_path):
    _, exported = pair_model
    loaded = tf.saved_model.load(str(exported))
    tf.saved_model.save(loaded, str(tmp_path / "again"), loaded.signatures)
    inputs = {"text": tf.constant(["lovely"]), "text_pair": tf.constant(["awful"])}
    first = loaded.signatures["text"](**inputs)
    again = signature(tmp_path / "again")(**inputs)
    np.testing.assert_allclose(
        first["probabilities"], again["probabilities"], atol=1e-6
    )


# All of them are in TensorFlow 2.4.
_OLD_OPERATIONS = """
    AddV2 All ArgMax Assert BatchMatMulV2 BiasAdd BroadcastTo Cast ConcatV2 Const Cumsum
    Einsum EnsureShape Equal Erf Exp ExpandDims Fill FloorMod GatherV2 Greater
    GreaterEqual Identity IdentityN Less LessEqual LogSoftmax LogicalAnd LogicalOr
    MatMul Max Maximum Mean Min Minimum Mul NoOp NotEqual OneHot Pack PadV2
    ParseExampleV2 PartitionedCall Placeholder Pow RaggedTensorToTensor Range
    ReadVariableOp Relu Reshape ResourceGather Rsqrt ScatterNd SelectV2 Shape Softmax
    Split Square StatefulPartitionedCall StridedSlice Sub Sum Tanh Tile TopKV2 Transpose
    Unpack Where ZerosLike
"""
OLD_OPERATIONS = set(_OLD_OPERATIONS.split())


def operations(function):
    graph = function.graph.as_graph_def()
    nodes = list(graph.node)
    for function in graph.library.function:
        nodes.extend(function.node_def)
    return {node.op for node in nodes}


def test_an_old_server_knows_all_operations_but_those_of_text(pair_model):
    signatures = tf.saved_model.load(str(pair_model[1])).signatures
    for name in ("ids", "ids_int64", "examples"):
        assert operations(signatures[name]) <= OLD_OPERATIONS
    assert not operations(signatures["text"]) <= OLD_OPERATIONS


def example(**features):
    made = tf.train.Example()
    for name, values in features.items():
        made.features.feature[name].int64_list.value.extend(values)
    return made.SerializeToString()


def test_empty_batches_get_empty_answers(pair_model):
    signatures = tf.saved_model.load(str(pair_model[1])).signatures
    texts = tf.constant([], tf.string)
    answers = [
        signatures["text"](text=texts, text_pair=texts),
        signatures["examples"](examples=texts),
        *(
            signatures[name](**dict.fromkeys(IDS, tf.zeros([0, 4], dtype)))
            for name, dtype in (("ids", tf.int32), ("ids_int64", tf.int64))
        ),
    ]
    for answer in answers:
        assert answer["probabilities"].shape == [0, 3]
        assert answer["label"].shape == [0]


@pytest.mark.parametrize(
    ("features", "rule"),
    [
        ({}, "must have input_ids"),
        ({"input_ids": [2, 3], "input_mask": [1]}, "must be as long or missing"),
        ({"input_ids": [2, 3], "segment_ids": [0, 1, 1]}, "must be as long or missing"),
        ({"input_ids": [2, 2**32 + 5]}, "must be below vocab_size, 27"),
        ({"input_ids": [2, 3], "segment_ids": [0, 2]}, "below type_vocab_size, 2"),
        ({"input_ids": [2, 3], "input_mask": [0, 0]}, "a token that input_mask shows"),
        ({"input_ids": [2] * 25}, "longer than max_position_embeddings"),
    ],
)
def test_examples_that_cannot_be_answered_are_refused(pair_model, features, rule):
    examples = signature(pair_model[1], "examples")
    serialized = [example(input_ids=[2, 3, 4]), example(**features)]
    with pytest.raises(tf.errors.InvalidArgumentError, match=rule):
        examples(examples=tf.constant(serialized))


def test_texts_of_another_shape_are_refused(pair_model):
    text = signature(pair_model[1])
    for shape in ([3, 2], [3, 1], [3, 2, 1], []):
        texts = tf.fill(shape, "lovely")
        with pytest.raises(tf.errors.InvalidArgumentError, match="expected shape"):
            text(text=texts, text_pair=texts)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"as many rows.*\[2\] \[1\]"
    ):
        text(text=tf.fill([2], "a"), text_pair=tf.fill([1], "a"))


def test_ids_out_of_the_vocabulary_are_refused(pair_model):
    ids = signature(pair_model[1], "ids")
    inputs = {name: [[1, 0]] for name in ("input_ids", "input_mask", "segment_ids")}
    for changed, words in (
        ({"input_ids": [[27, 1]]}, "must be below vocab_size, 27"),
        ({"input_ids": [[-1, 1]]}, "must not be negative"),
        ({"input_mask": [[0, 0]]}, "must have a token that input_mask shows"),
    ):
        values = {name: tf.constant(v) for name, v in (inputs | changed).items()}
        with pytest.raises(tf.errors.InvalidArgumentError, match=words):
            ids(**values)


def test_a_task_without_an_answer_cannot_be_served(pair_model):
    class Unfinished(ServedModel):
        ids_rank = 2

    with pytest.raises(TypeError, match="abstract method"):
        Unfinished(None, None)
