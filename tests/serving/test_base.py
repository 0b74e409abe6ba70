"""A fine-tuned model as it is served: from ids, from tf.Examples and from text."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import model_dir
from albert_tf.checkpoints.load import load_weights, weights_checkpoint
from albert_tf.model.heads import ClassificationModel
from albert_tf.serving import base as serving_base
from albert_tf.serving import export, tflite
from albert_tf.tasks.registry import from_facts
from albert_tf.text import packing, packing_tf
from albert_tf.text.tokenizer import AlbertTokenizer
from helpers import tiny
from helpers.fine_tuning_toys import MAX_SEQ_LENGTH, config, texts, write_vocabulary

LABELS = ["bad", "good", "ugly"]


def make_folder(folder, labels, pair, **changes):
    """A model folder with random weights of a task on one text or two."""
    shape = config(hidden_dropout_prob=0.4, **changes)
    model = ClassificationModel(shape, len(labels or [0]), seed=7)
    for variable in model.trainable_variables:
        if "output_weights" in variable.name:
            variable.assign(tf.random.stateless_normal(variable.shape, [1, 2]))
    facts = {
        "task_name": "toy",
        "labels": labels,
        "scores": ["eval_accuracy"],
        "bounds": None,
        "max_seq_length": MAX_SEQ_LENGTH,
        "columns": {"text": "text", "text_pair": "other" if pair else None},
    }
    tokenizer = AlbertTokenizer(vocab_file=write_vocabulary(folder))
    for name, content in model_dir.model_files(folder / "vocab.txt", facts).items():
        (folder / name).write_bytes(content)
    shape.to_json(folder / "albert_config.json")
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer.metadata()))
    weights_checkpoint(model).write(str(folder / "model.ckpt-3"))
    return folder


def export_folder(folder, target, text=True, precision="float32"):
    found = model_dir.ModelDir.read(folder)
    exported = export.ExportedModel(
        config=found.config,
        checkpoint=found.checkpoint,
        task=found.task,
        tokenizer=found.tokenizer() if text else None,
        tokenizer_settings=found.tokenizer_settings,
        precision=precision,
    )
    return export.export_model(exported, target)[0]


@pytest.fixture(scope="module")
def pair_model(tmp_path_factory):
    """The folder of a model of pairs, and its export."""
    folder = make_folder(tmp_path_factory.mktemp("pair"), LABELS, pair=True)
    return folder, export_folder(folder, tmp_path_factory.mktemp("served"))


def python_answer(folder, pairs):
    """What the Python path makes of texts or pairs."""
    found = model_dir.ModelDir.read(folder)
    tokenizer = found.tokenizer()
    task = from_facts(found.task)
    model = task.build_model(found.config, 0, "none")
    load_weights(model, found.checkpoint)
    answers, rows = [], []
    for pair in pairs:
        ids = [tokenizer.encode(text) for text in pair] + [None] * (2 - len(pair))
        special = 3 if len(pair) == 2 else 2
        kept = packing.truncate_longest_first(
            len(ids[0]), len(ids[1] or []), MAX_SEQ_LENGTH - special
        )
        row = packing.pack_segments(
            ids[0][: kept[0]],
            None if ids[1] is None else ids[1][: kept[1]],
            MAX_SEQ_LENGTH,
            cls_id=tokenizer.cls_id,
            sep_id=tokenizer.sep_id,
            pad_id=tokenizer.pad_id,
        )
        rows.append(row)
        batch = {name: tf.constant([values]) for name, values in row.items()}
        outputs = model(batch, training=False)
        answers.append(task.predictions(outputs, {"label_ids": 0}))
    return answers, rows


PAIRS = [
    ("lovely worda", "wordb awful"),
    ("", "wordc"),
    ("WORDD  Lövely", ""),
    ("worda " * 40, "wordb " * 3),
    ("wordc " * 9, "wordd " * 30),
    ("[SEP] unheard of 日本", "wordt"),
]


def signature(folder, name="text"):
    return tf.saved_model.load(str(folder)).signatures[name]


def test_pairs_of_text_get_the_answers_of_the_python_path(pair_model):
    folder, exported = pair_model
    answers, _ = python_answer(folder, PAIRS)
    first, second = zip(*PAIRS, strict=True)
    served = signature(exported)(text=tf.constant(first), text_pair=tf.constant(second))
    for row, answer in enumerate(answers):
        expected = answer["probabilities"].numpy()[0]
        np.testing.assert_allclose(served["probabilities"][row], expected, atol=1e-5)
        assert served["label"][row].numpy().decode() == LABELS[expected.argmax()]
        names = [name.decode() for name in served["labels"][row].numpy()]
        assert names == LABELS
    assert served["truncated"].numpy().tolist() == [False] * 3 + [True] * 2 + [False]


def test_single_texts_and_regressions_are_served(tmp_path):
    (tmp_path / "model").mkdir()
    folder = make_folder(tmp_path / "model", None, pair=False)
    exported = export_folder(folder, tmp_path / "served")
    sentences = [text for text, _ in texts(5, 1)] + [""]
    answers, _ = python_answer(folder, [(text,) for text in sentences])
    served = signature(exported)(text=tf.constant(sentences))
    expected = [answer["values"].numpy()[0] for answer in answers]
    np.testing.assert_allclose(served["values"], expected, atol=1e-5)


def test_examples_padded_or_not_get_the_answers_of_ids(pair_model):
    folder, exported = pair_model
    answers, rows = python_answer(folder, PAIRS)
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
    served = signature(exported, "examples")(examples=tf.constant(serialized))
    batch = {n: tf.constant(np.stack([row[n] for row in rows])) for n in rows[0]}
    by_ids = signature(exported, "ids")(**batch)
    wide = {name: tf.cast(value, tf.int64) for name, value in batch.items()}
    by_wide_ids = signature(exported, "ids_int64")(**wide)
    expected = [answer["probabilities"].numpy()[0] for answer in answers]
    for found in (served, by_ids, by_wide_ids):
        np.testing.assert_allclose(found["probabilities"], expected, atol=1e-5)


BARE_PROGRAM = """
import sys
import tensorflow as tf
{imports}
signature = tf.saved_model.load(sys.argv[1]).signatures[sys.argv[2]]
names = [spec.name for spec in signature.structured_input_signature[1].values()]
values = {{name: {value} for name in names}}
print(signature(**values)["probabilities"].numpy().tolist())
assert "albert_tf" not in sys.modules and "tf_keras" not in sys.modules
"""


@pytest.mark.parametrize(
    ("name", "imports", "value"),
    [
        ("text", "import tensorflow_text", 'tf.constant(["lovely worda"])'),
        ("ids", "", "tf.constant([[1, 1]])"),
    ],
)
def test_a_bare_process_answers_when_the_source_is_gone(
    pair_model, tmp_path, name, imports, value
):
    folder = tmp_path / "moved"
    source = tmp_path / "source"
    shutil.copytree(pair_model[0], source)
    exported = export_folder(source, folder, text=name == "text")
    shutil.rmtree(source)
    done = subprocess.run(
        [
            sys.executable,
            "-I",
            "-c",
            BARE_PROGRAM.format(imports=imports, value=value),
            str(exported),
            name,
        ],
        cwd=tmp_path,
        # Other libraries' tests set it, and with it TensorFlow loads tf_keras.
        env={k: v for k, v in os.environ.items() if k != "TF_USE_LEGACY_KERAS"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    [probabilities] = json.loads(done.stdout.splitlines()[-1])
    if name == "text":
        [answer], _ = python_answer(pair_model[0], [("lovely worda", "lovely worda")])
        np.testing.assert_allclose(probabilities, answer["probabilities"][0], atol=1e-5)
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
    AddV2 All ArgMax Assert BiasAdd Cast ConcatV2 Const Einsum Erf Exp ExpandDims
    GatherV2 Greater GreaterEqual Identity IdentityN Less LessEqual LogSoftmax MatMul
    Maximum Mean Minimum Mul NoOp OneHot Pack PadV2 ParseExampleV2 PartitionedCall
    Placeholder RaggedTensorToTensor Range ReadVariableOp Relu Reshape ResourceGather
    Rsqrt SelectV2 Shape Softmax Split Square StatefulPartitionedCall StridedSlice Sub
    Sum Tanh Tile TopKV2 Transpose ZerosLike
"""
OLD_OPERATIONS = set(_OLD_OPERATIONS.split())


def operations(folder, name):
    graph = signature(folder, name).graph.as_graph_def()
    nodes = list(graph.node)
    for function in graph.library.function:
        nodes.extend(function.node_def)
    return {node.op for node in nodes}


@pytest.mark.parametrize("name", ["ids", "ids_int64", "examples"])
def test_an_old_server_knows_all_operations_but_those_of_text(pair_model, name):
    assert operations(pair_model[1], name) <= OLD_OPERATIONS
    assert not operations(pair_model[1], "text") <= OLD_OPERATIONS


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"input_ids": [[27, 1]]}, "must be below vocab_size, 27"),
        ({"input_ids": [[-1, 1]]}, "must not be negative"),
    ],
)
def test_ids_out_of_the_vocabulary_are_refused(pair_model, changed, words):
    inputs = {name: [[1, 0]] for name in ("input_ids", "input_mask", "segment_ids")}
    values = {name: tf.constant(v) for name, v in (inputs | changed).items()}
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        signature(pair_model[1], "ids")(**values)


@pytest.mark.parametrize("shorten", ["longest", "first", "second"])
def test_packing_in_a_graph_is_packing(shorten):
    rng = np.random.default_rng(2)
    rows = [
        [rng.integers(5, 61, rng.integers(0, 14)).tolist() for _ in range(2)]
        for _ in range(40)
    ]
    first, second = (
        tf.ragged.constant(
            [row[place] for row in rows], tf.int32, row_splits_dtype=tf.int64
        )
        for place in range(2)
    )
    batch, truncated = packing_tf.pack(
        first, second, 16, cls_id=tiny.CLS_ID, sep_id=tiny.SEP_ID, shorten=shorten
    )
    room = 13
    for number, (a, b) in enumerate(rows):
        kept_a, kept_b = packing.truncate_longest_first(len(a), len(b), room)
        if shorten == "first":
            kept_b = min(len(b), room)
            kept_a = min(len(a), room - kept_b)
        elif shorten == "second":
            kept_a = min(len(a), room)
            kept_b = min(len(b), room - kept_a)
        expected = packing.pack_segments(
            a[:kept_a],
            b[:kept_b],
            batch["input_ids"].shape[1],
            cls_id=tiny.CLS_ID,
            sep_id=tiny.SEP_ID,
            pad_id=0,
        )
        for name, values in expected.items():
            assert batch[name][number].numpy().tolist() == values.tolist()
        cut = len(a) + len(b) > room
        assert bool(truncated[number]) == cut


def test_warm_up_requests_are_what_the_server_reads(pair_model):
    from tensorflow_serving.apis import prediction_log_pb2

    _, exported = pair_model
    file = exported / "assets.extra" / "tf_serving_warmup_requests"
    loaded = tf.saved_model.load(str(exported))
    seen = set()
    for record in tf.data.TFRecordDataset(str(file)):
        log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
        request = log.predict_log.request
        name = request.model_spec.signature_name
        inputs = {
            key: tf.constant(tf.make_ndarray(value))
            for key, value in request.inputs.items()
        }
        answer = loaded.signatures[name](**inputs)
        rows = {len(value) for value in answer.values()}
        assert rows == {len(next(iter(inputs.values())))}
        seen.add((name, rows.pop()))
    names = ("serving_default", "examples", "text")
    assert seen == {(name, size) for name in names for size in (1, 2, 4)}


def test_the_card_says_what_it_is(pair_model):
    folder, exported = pair_model
    extra = exported / "assets.extra"
    card = json.loads((extra / "model_card.json").read_text())
    assert card["task"]["labels"] == LABELS
    settings = json.loads((folder / "tokenizer.json").read_text())
    assert card["tokenizer"] == settings and card["versions"]["tensorflow"]
    assert card["signatures_with_custom_operations"] == ["text"]


def test_bfloat16_answers_about_the_same(pair_model, tmp_path):
    folder, exported = pair_model
    low = export_folder(folder, tmp_path, precision="bfloat16")
    inputs = {"text": tf.constant(["lovely"]), "text_pair": tf.constant(["awful"])}
    one, other = (
        signature(path)(**inputs)["probabilities"] for path in (exported, low)
    )
    assert one.dtype == other.dtype == tf.float32
    difference = np.abs(one - other).max()
    assert 0 < difference < 0.05
    # Kernels are stored so: nothing is converted when it is asked.
    sizes = [
        sum(file.stat().st_size for file in (path / "variables").iterdir())
        for path in (exported, low)
    ]
    assert sizes[1] < 0.85 * sizes[0]


def test_a_threshold_to_export_is_an_output_of_classifiers(pair_model):
    found = model_dir.ModelDir.read(pair_model[0])
    exported = export.of_folder(found, text=False, threshold=0.75)
    answer = serving_base.task_outputs(exported.task)({"logits": tf.zeros([2, 3])}, {})
    assert answer["threshold"].numpy().tolist() == [0.75] * 2
    assert "threshold" not in serving_base.task_outputs(found.task)(
        {"logits": tf.zeros([2, 3])}, {}
    )
    with pytest.raises(ValueError, match=r"must be a number\. Received inf"):
        export.of_folder(found, text=False, threshold=np.inf)


def test_tflite_gives_the_models_numbers(pair_model, tmp_path):
    exported = export.of_folder(model_dir.ModelDir.read(pair_model[0]), text=False)
    path = tmp_path / "toy.tflite"
    differences = tflite.export_tflite(exported, path, 11)
    assert set(differences) == {"probabilities"} and differences["probabilities"] < 1e-5
    runner = tf.lite.Interpreter(str(path)).get_signature_runner()
    row = {
        name: np.full((1, 11), value, np.int32)
        for name, value in {"input_ids": 6, "input_mask": 1, "segment_ids": 0}.items()
    }
    served = signature(pair_model[1], "ids")(
        **{n: tf.constant(v) for n, v in row.items()}
    )
    np.testing.assert_allclose(
        runner(**row)["probabilities"], served["probabilities"], atol=1e-5
    )


def test_a_conversion_that_fails_says_so_and_writes_nothing(
    pair_model, tmp_path, monkeypatch
):
    exported = export.of_folder(model_dir.ModelDir.read(pair_model[0]), text=False)

    def fail(_):
        raise RuntimeError("no such operation\nand more")

    monkeypatch.setattr(
        tf.lite.TFLiteConverter,
        "from_concrete_functions",
        lambda *_: type("C", (), {"convert": fail})(),
    )
    with pytest.raises(ValueError, match=r"TFLite file: no such operation\.$"):
        tflite.export_tflite(exported, tmp_path / "toy.tflite", 11)
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match=r"24\. Received 25"):
        tflite.export_tflite(exported, tmp_path / "toy.tflite", 25)
