"""An exported model answers as the encoder does, with TensorFlow alone around it."""

import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints.load import HEADS, load_weights
from albert_tf.config import AlbertConfig, OptimizerConfig
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.heads import PretrainingModel
from albert_tf.serving import export
from albert_tf.training import optimization, run_checkpoints
from helpers import tiny

# With dropout, so that an export that drops is noticed.
CONFIG = tiny.tiny_config(
    num_hidden_groups=2, initializer_range=0.3, hidden_dropout_prob=0.4
)
# (batch, pieces): usual, both smallest, the longest, one piece in several rows.
SHAPES = ((2, 7), (1, 1), (3, CONFIG.max_position_embeddings), (5, 1))
TOKENIZER = {"vocab_size": CONFIG.vocab_size, "lower_case": True}

# What a server has: TensorFlow, the folder, and numbers.
BARE_PROGRAM = """
import sys
import numpy as np
import tensorflow as tf

folder, questions, answers = sys.argv[1:]
model = tf.saved_model.load(folder)
serve = model.signatures["serving_default"]
results = {}
with np.load(questions) as given:
    for number in sorted({name.split("/")[0] for name in given}):
        inputs = {
            name: tf.constant(given[f"{number}/{name}"])
            for name in ("input_ids", "input_mask", "segment_ids")
        }
        for name, value in serve(**inputs).items():
            results[f"{number}/{name}"] = value.numpy()
np.savez(answers, **results)
graph = serve.graph.as_graph_def()
nodes = list(graph.node)
for function in graph.library.function:
    nodes.extend(function.node_def)
print(*sorted({node.op for node in nodes if not hasattr(tf.raw_ops, node.op)}))
print(*sorted({"albert_tf", "tf_keras", "tensorflow_text"} & set(sys.modules)))
"""


def export_encoder(config, checkpoint, folder, settings=None):
    """Exports as the version that a folder's name says."""
    exported = export.ExportedModel(
        config, str(checkpoint), tokenizer_settings=settings or {}
    )
    return export.export_model(exported, folder.parent, int(folder.name))[1]


def random_inputs(shape, seed=0):
    """Rows of which each has a visible piece and all but the shortest have padding."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, shape[1] + 1, (shape[0], 1))
    columns = np.arange(shape[1])
    return {
        "input_ids": rng.integers(0, CONFIG.vocab_size, shape).astype(np.int32),
        "input_mask": (columns < lengths).astype(np.int32),
        "segment_ids": (columns >= lengths // 2).astype(np.int32),
    }


def serve(folder, inputs):
    signature = tf.saved_model.load(str(folder)).signatures["serving_default"]
    return signature(**{name: tf.constant(value) for name, value in inputs.items()})


def everything_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A training checkpoint: encoder, heads and optimizer state."""
    model = PretrainingModel(CONFIG, seed=5)
    optimizer = optimization.create_optimizer(OptimizerConfig())
    optimizer.build(model.trainable_variables)
    saved = run_checkpoints.training_checkpoint(model, optimizer)
    return saved.save(tmp_path_factory.mktemp("run") / "model.ckpt")


@pytest.fixture(scope="module")
def encoder(checkpoint):
    encoder = AlbertEncoder(CONFIG, seed=6)
    load_weights(encoder, checkpoint, unused_ok=HEADS)
    return encoder


@pytest.fixture(scope="module")
def exported(checkpoint, tmp_path_factory):
    folder = tmp_path_factory.mktemp("serving") / "model" / "1"
    report = export_encoder(CONFIG, checkpoint, folder, TOKENIZER)
    assert report.missing == () and len(report.unused) == 7
    return folder


def test_a_process_with_tensorflow_alone_gets_what_the_encoder_gives(
    exported, encoder, tmp_path
):
    asked = {
        f"{number}/{name}": value
        for number, shape in enumerate(SHAPES)
        for name, value in random_inputs(shape, seed=number).items()
    }
    np.savez(tmp_path / "questions.npz", **asked)
    arguments = [exported, tmp_path / "questions.npz", tmp_path / "answers.npz"]
    # -I: neither this folder nor PYTHONPATH are searched.
    done = subprocess.run(
        [sys.executable, "-I", "-c", BARE_PROGRAM, *map(str, arguments)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    unknown_operations, imported_by_loading = done.stdout.split("\n")[:2]
    assert (unknown_operations, imported_by_loading) == ("", "")

    answers = np.load(tmp_path / "answers.npz")
    assert len(answers.files) == 3 * len(SHAPES)
    for number, shape in enumerate(SHAPES):
        expected = encoder(random_inputs(shape, seed=number))
        for name in ("pooled_output", "sequence_output"):
            answer = answers[f"{number}/{name}"]
            np.testing.assert_allclose(answer, expected[name], rtol=0, atol=1e-6)


def test_exported_reference_weights_give_the_original_numbers(reference, tmp_path):
    folder = reference / "encoder_shared"
    config = AlbertConfig.from_json(folder / "albert_config.json")
    export_encoder(config, folder, tmp_path / "1")
    expected = np.load(folder / "expected.npz")
    inputs = ("input_ids", "input_mask", "segment_ids")
    outputs = serve(tmp_path / "1", {key: expected[key] for key in inputs})
    assert set(outputs) == {"pooled_output", "sequence_output", "mean_output"}
    for key in ("pooled_output", "sequence_output"):
        value = outputs[key]
        np.testing.assert_allclose(value, expected[key], rtol=0, atol=1e-5)


def test_the_signature_has_the_promised_names_types_and_free_dimensions(exported):
    loaded = tf.saved_model.load(str(exported))
    assert set(loaded.signatures) == {"serving_default", "ids", "ids_int64", "examples"}
    signature = loaded.signatures["serving_default"]
    positional, named = signature.structured_input_signature
    assert positional == ()
    assert named == {
        name: tf.TensorSpec([None, None], tf.int32, name)
        for name in ("input_ids", "input_mask", "segment_ids")
    }
    hidden = CONFIG.hidden_size
    outputs = {
        name: (spec.dtype, spec.shape.as_list())
        for name, spec in signature.structured_outputs.items()
    }
    assert outputs == {
        "pooled_output": (tf.float32, [None, hidden]),
        "sequence_output": (tf.float32, [None, None, hidden]),
        "mean_output": (tf.float32, [None, hidden]),
    }


def test_input_that_is_too_long_is_refused_with_the_reason(exported):
    inputs = random_inputs((2, CONFIG.max_position_embeddings + 1))
    words = "longer than max_position_embeddings"
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        serve(exported, inputs)


def test_what_a_client_needs_to_know_lies_beside_the_model(
    exported, checkpoint, tmp_path
):
    extra = exported / "assets.extra"
    assert AlbertConfig.from_json(extra / "albert_config.json") == CONFIG
    assert json.loads((extra / "tokenizer.json").read_text()) == TOKENIZER
    export_encoder(CONFIG, checkpoint, tmp_path / "1")
    assert everything_in(tmp_path / "1" / "assets.extra") == [
        "albert_config.json",
        "batching_parameters.txt",
        "model_card.json",
        "tf_serving_warmup_requests",
    ]


def test_an_export_leaves_nothing_beside_it(exported):
    assert [path.name for path in exported.parent.iterdir()] == ["1"]


def test_versions_are_counted_up(checkpoint, tmp_path):
    for _ in range(2):
        exported = export.ExportedModel(CONFIG, str(checkpoint))
        export.export_model(exported, tmp_path)
    export.export_model(exported, tmp_path, version=10)
    export.export_model(exported, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"1", "2", "10", "11"}


@pytest.mark.parametrize("used", ["folder", "file"])
def test_a_place_in_use_is_refused_and_left_alone(used, checkpoint, tmp_path):
    target = tmp_path / "1"
    occupant = target / "saved_model.pb" if used == "folder" else target
    occupant.parent.mkdir(exist_ok=True)
    occupant.write_text("older")
    before = everything_in(tmp_path)
    with pytest.raises(ValueError, match="1 is in use"):
        export_encoder(CONFIG, checkpoint, target)
    assert everything_in(tmp_path) == before
    assert occupant.read_text() == "older"


def fill_disk_at_saving(_, folder, *__):
    tf.io.gfile.makedirs(f"{folder}/variables")
    raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")


def fill_disk_at_assets(*_):
    raise OSError("No space left on device")


@pytest.mark.parametrize(
    ("owner", "name", "fail"),
    [
        (tf.saved_model, "save", fill_disk_at_saving),
        (export, "write_json", fill_disk_at_assets),
    ],
)
def test_an_export_that_fails_leaves_nothing(
    owner, name, fail, checkpoint, tmp_path, monkeypatch
):
    monkeypatch.setattr(owner, name, fail)
    with pytest.raises(OSError, match="No space left"):
        export_encoder(CONFIG, checkpoint, tmp_path / "1")
    assert everything_in(tmp_path) == []


def test_what_a_killed_export_left_does_not_disturb(checkpoint, tmp_path):
    left = tmp_path / ".1.partial"
    left.mkdir()
    (left / "rest").write_text("half a model")
    export_encoder(CONFIG, checkpoint, tmp_path / "1")
    assert [path.name for path in tmp_path.iterdir()] == ["1"]
    assert not (tmp_path / "1" / "rest").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"vocab_size": 62}, r"word_embeddings of shape \[61, 6\].*\[62, 6\]"),
        ({"num_hidden_groups": 4}, r"2 attention groups, the model 4"),
    ],
)
def test_a_checkpoint_of_another_model_is_refused(changes, words, checkpoint, tmp_path):
    with pytest.raises(ValueError, match=words):
        export_encoder(CONFIG.replace(**changes), checkpoint, tmp_path / "model" / "1")
    assert everything_in(tmp_path) == []


def test_a_missing_checkpoint_is_named_and_nothing_written(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        export_encoder(CONFIG, tmp_path / "nowhere", tmp_path / "model" / "1")
    assert everything_in(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_an_os_error(checkpoint, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(OSError):
        export_encoder(CONFIG, checkpoint, tmp_path / "file" / "1")
