"""An exported encoder answers as the encoder does, with TensorFlow alone around it."""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints.load import HEADS, load_weights
from albert_tf.config import AlbertConfig
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.serving import export
from helpers import scripts
from helpers.served_models import ENCODER_CONFIG as CONFIG

# (batch, tokens): usual, both smallest, the longest, one token in several rows.
SHAPES = ((2, 7), (1, 1), (3, CONFIG.max_position_embeddings), (5, 1))

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


def random_inputs(shape, seed=0):
    """Rows of which each has a visible token and all but the shortest have padding."""
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


@pytest.fixture(scope="session")
def encoder(encoder_checkpoint):
    encoder = AlbertEncoder(CONFIG, seed=6)
    load_weights(encoder, encoder_checkpoint, unused_ok=HEADS)
    return encoder


def test_a_process_with_tensorflow_alone_gets_what_the_encoder_gives(
    encoder_export, encoder, tmp_path
):
    asked = {
        f"{number}/{name}": value
        for number, shape in enumerate(SHAPES)
        for name, value in random_inputs(shape, seed=number).items()
    }
    np.savez(tmp_path / "questions.npz", **asked)
    arguments = [encoder_export, tmp_path / "questions.npz", tmp_path / "answers.npz"]
    # -I: neither this folder nor PYTHONPATH are searched.
    done = subprocess.run(
        [sys.executable, "-I", "-c", BARE_PROGRAM, *map(str, arguments)],
        cwd=tmp_path,
        env=scripts.plain_environment(),
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
    exported = export.ExportedModel(config, str(folder))
    version, _ = export.export_model(exported, tmp_path)
    expected = np.load(folder / "expected.npz")
    inputs = ("input_ids", "input_mask", "segment_ids")
    outputs = serve(version, {key: expected[key] for key in inputs})
    assert set(outputs) == {"pooled_output", "sequence_output", "mean_output"}
    visible = expected["input_mask"] == 1
    for key, compared in (("pooled_output", ...), ("sequence_output", visible)):
        value = outputs[key][compared]
        np.testing.assert_allclose(value, expected[key][compared], rtol=0, atol=1e-5)
    assert not np.any(outputs["sequence_output"][~visible])


def test_the_signature_has_the_promised_names_types_and_free_dimensions(encoder_export):
    loaded = tf.saved_model.load(str(encoder_export))
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


def test_input_that_is_too_long_is_refused_with_the_reason(encoder_export):
    inputs = random_inputs((2, CONFIG.max_position_embeddings + 1))
    words = "longer than max_position_embeddings"
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        serve(encoder_export, inputs)


def test_empty_batches_get_empty_answers(encoder_export):
    signatures = tf.saved_model.load(str(encoder_export)).signatures
    inputs = random_inputs((1, 5))
    answers = [
        signatures["ids"](**{n: tf.constant(v[:0]) for n, v in inputs.items()}),
        signatures["examples"](examples=tf.constant([], tf.string)),
    ]
    for answer in answers:
        assert answer["pooled_output"].shape == [0, CONFIG.hidden_size]
        assert len(answer["sequence_output"]) == len(answer["mean_output"]) == 0
