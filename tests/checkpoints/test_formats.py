"""Weights of every format are read under released names and give the same outputs."""

import json
import shutil
import warnings

import numpy as np
import pytest
import tensorflow as tf
from official.nlp.modeling import networks

from albert_tf.checkpoints import (
    albert_zh,
    formats,
    hugging_face,
    model_dir,
    tensorflow_files,
    verify,
)
from albert_tf.checkpoints.load import HEADS, load_weights
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.heads import PretrainingModel
from albert_tf.serving import export
from helpers import tiny
from helpers.tiny_weights import (
    TOKENS,
    assert_same_weights,
    convert,
    files_in,
    random_model,
    write_model,
)


@pytest.fixture
def released(tmp_path):
    """A released folder; its weights."""
    config, weights = random_model()
    return write_model(tmp_path / "released", weights, config), weights


def encoder_part(weights):
    return {n: v for n, v in weights.items() if n.startswith("bert/")}


def assert_close(some, others):
    np.testing.assert_allclose(some, others, rtol=0, atol=1e-4)


# -- tf-models' AlbertEncoder


def garden_encoder(config, rng):
    encoder = networks.AlbertEncoder(
        vocab_size=config.vocab_size,
        embedding_width=config.embedding_size,
        hidden_size=config.hidden_size,
        num_layers=config.num_hidden_layers,
        num_attention_heads=config.num_attention_heads,
        max_sequence_length=config.max_position_embeddings,
        type_vocab_size=config.type_vocab_size,
        intermediate_size=config.intermediate_size,
        dict_outputs=True,
    )
    for variable in encoder.variables:
        variable.assign(rng.normal(0, 0.4, variable.shape))
    return encoder


def run_garden(encoder, batch):
    return encoder(
        {
            "input_word_ids": batch["input_ids"],
            "input_mask": batch["input_mask"],
            "input_type_ids": batch["segment_ids"],
        }
    )


@pytest.mark.parametrize(("root", "width"), [("encoder", 6), ("model", 12)])
def test_tf_models_encoder_agrees_both_ways(root, width, tmp_path):
    config = tiny.tiny_config(embedding_size=width)
    theirs = garden_encoder(config, np.random.default_rng(2))
    folder = tmp_path / "theirs"
    tf.train.Checkpoint(**{root: theirs}).save(str(folder / "ckpt"))
    config.to_json(folder / "albert_config.json")
    own = AlbertEncoder(config, seed=3)
    report = load_weights(own, folder)
    assert (report.missing, report.unused) == ((), ())
    batch = verify.random_batch(config, np.random.default_rng(4))
    outputs, expected = own(batch), run_garden(theirs, batch)
    assert_close(outputs["sequence_output"], expected["sequence_output"])
    assert_close(outputs["pooled_output"], expected["pooled_output"])

    results = convert(folder, tmp_path / "back", "model_garden")
    assert max(results["largest_differences"]["target"].values()) < 1e-4
    again = garden_encoder(config, np.random.default_rng(5))
    status = tf.train.Checkpoint(**{root: again}).read(
        str(tmp_path / "back" / "albert_encoder.ckpt")
    )
    status.assert_existing_objects_matched()
    for some, others in zip(theirs.variables, again.variables, strict=True):
        assert np.array_equal(some, others), some.name


def test_tf_models_masked_lm_head_is_read(tmp_path):
    """The names that its pretrainer gives the head, noted from its release 2.20."""
    config, weights = random_model()
    scope = "bert/cls/predictions"
    names = {
        "cls/predictions/transform/dense/kernel": f"{scope}/transform/dense/kernel",
        "cls/predictions/transform/dense/bias": f"{scope}/transform/dense/bias",
        "cls/predictions/transform/LayerNorm/gamma": (
            f"{scope}/transform/LayerNorm/gamma"
        ),
        "cls/predictions/transform/LayerNorm/beta": f"{scope}/transform/LayerNorm/beta",
        "cls/predictions/output_bias": f"{scope}/output_bias/bias",
    }
    theirs = garden_encoder(config, np.random.default_rng(2))
    head = {k: tf.Variable(weights[n], name=k) for n, k in names.items()}
    objects = tf.train.Checkpoint(encoder=theirs, masked_lm=[*head.values()])
    objects.write(str(tmp_path / "ckpt"))
    config.to_json(tmp_path / "albert_config.json")
    stored = formats.read_weights(tmp_path)
    for name in names:
        assert np.array_equal(stored.weights[name], weights[name]), name


def test_tf_models_training_state_is_left_out(tmp_path):
    config = tiny.tiny_config()
    theirs = garden_encoder(config, np.random.default_rng(2))
    state = {"optimizer": tf.train.Checkpoint(m=tf.Variable(1.0, name="m"))}
    checkpoint = tf.train.Checkpoint(model=theirs, **state)
    checkpoint.save(str(tmp_path / "ckpt"))
    stored = formats.read_weights(tmp_path, config)
    assert all(name.startswith("bert/") for name in stored.weights)
    assert len(stored.ignored) == 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_hidden_groups": 2}, "num_hidden_groups=2"),
        ({"ffn_groups": 4}, "groups=4"),
        ({"inner_group_num": 2}, "inner_group_num=2"),
        ({"embedding_size": 12, "project_embeddings": True}, "projects no embeddings"),
    ],
)
def test_shapes_that_tf_models_has_not_are_refused(changes, words, tmp_path):
    config, weights = random_model(**changes)
    source = write_model(tmp_path / "source", encoder_part(weights), config)
    with pytest.raises(ValueError, match=words):
        convert(source, tmp_path / "there", "model_garden")
    assert files_in(tmp_path) == ["source"]


def test_another_number_of_heads_is_noticed(tmp_path):
    theirs = garden_encoder(tiny.tiny_config(), np.random.default_rng(2))
    tf.train.Checkpoint(encoder=theirs).write(str(tmp_path / "ckpt"))
    config = tiny.tiny_config(num_attention_heads=4)
    with pytest.raises(ValueError, match="has 3 heads, the configuration 4"):
        formats.read_weights(tmp_path, config)


@pytest.mark.parametrize("activation", ["gelu", "gelu_erf", "relu", "tanh", "linear"])
def test_activations_are_tf_models_own(activation, tmp_path):
    config, weights = random_model(hidden_act=activation)
    source = write_model(tmp_path / "source", encoder_part(weights), config)
    results = convert(source, tmp_path / "there", "model_garden")
    assert max(results["largest_differences"]["target"].values()) < 1e-5


# -- hub modules and SavedModels


def write_hub_module(folder, config, weights, scope="module", factor=1.0):
    """A TF1 hub module: variables under a scope, two tag sets, assets."""
    v1 = tf.compat.v1
    builder = v1.saved_model.Builder(str(folder))
    for tags in ([], ["train"]):
        with v1.Graph().as_default(), v1.Session() as session:
            inputs = {
                name: v1.placeholder(tf.int32, [None, None], name)
                for name in ("input_ids", "input_mask", "segment_ids")
            }
            with v1.name_scope(scope):
                encoder = AlbertEncoder(config, seed=0)
            outputs = encoder(inputs)
            results = {
                name: factor * outputs[name]
                for name in ("sequence_output", "pooled_output")
            }
            for variable in encoder.variables:
                name = variable.name.split(":")[0].removeprefix(f"{scope}/")
                variable.load(weights[name], session)
            signature = v1.saved_model.predict_signature_def(inputs, results)
            variables = {v.name.split(":")[0]: v for v in encoder.variables}
            saver = v1.train.Saver(variables)
            signatures = {"tokens": signature}
            if tags:
                builder.add_meta_graph(tags, signatures, saver=saver)
            else:
                builder.add_meta_graph_and_variables(
                    session, tags, signatures, saver=saver
                )
    builder.save()
    (folder / "assets").mkdir()
    config.to_json(folder / "assets" / "albert_config.json")
    (folder / "assets" / "vocab.txt").write_text("\n".join(TOKENS))
    return folder


@pytest.mark.parametrize("scope", ["module", ""])
def test_a_hub_module_brings_weights_shape_and_vocabulary(scope, tmp_path):
    config, weights = random_model(num_hidden_layers=1)
    folder = write_hub_module(tmp_path / "hub", config, weights, scope)
    stored = formats.read_weights(folder)
    assert_same_weights(stored.weights, encoder_part(weights))
    assert stored.config == config and stored.format.value == "tensorflow1"
    results = convert(folder, tmp_path / "own", "own")
    assert set(results["largest_differences"]["source"]) == {
        "sequence_output",
        "pooled_output",
    }
    assert (tmp_path / "own/vocab.txt").read_text().split() == TOKENS
    assert model_dir.read_config(tmp_path / "own") == config
    report = load_weights(AlbertEncoder(config, seed=1), folder)
    assert (report.missing, report.unused) == ((), ())


def test_a_hub_module_that_computes_something_else_is_refused(tmp_path):
    config, weights = random_model(num_hidden_layers=1)
    folder = write_hub_module(tmp_path / "hub", config, weights, factor=1.01)
    with pytest.raises(ValueError, match=r"hub and its weights read here: .* differs"):
        convert(folder, tmp_path / "own", "own")
    assert files_in(tmp_path) == ["hub"]


def test_our_own_saved_model_is_read(released, tmp_path):
    folder, weights = released
    config = model_dir.read_config(folder)
    settings = {"lower_case": True, "strip_accents": False}
    model = export.ExportedModel(config, str(folder), tokenizer_settings=settings)
    exported, _ = export.export_model(model, tmp_path / "serving")
    for path in (exported, exported / "saved_model.pb"):
        stored = formats.read_weights(path)
        assert_same_weights(stored.weights, encoder_part(weights))
        assert stored.config == config
    results = convert(exported, tmp_path / "own", "own")
    assert len(results["largest_differences"]["source"]) == 2
    assert model_dir.read_cleaning(tmp_path / "own") == settings


def test_tf_models_saved_model_is_read(tmp_path):
    config = tiny.tiny_config()
    theirs = garden_encoder(config, np.random.default_rng(2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs.save(str(tmp_path / "theirs"))
    results = convert(tmp_path / "theirs", tmp_path / "own", "own", config=config)
    # Keras names the other output as the layers that give it.
    assert set(results["largest_differences"]["source"]) == {"pooled_output"}
    assert results["source_layout"] == "model_garden"


def test_a_saved_model_without_variables_is_refused(released, tmp_path):
    config = model_dir.read_config(released[0])
    model = export.ExportedModel(config, str(released[0]))
    exported, _ = export.export_model(model, tmp_path / "serving")
    shutil.rmtree(exported / "variables")
    with pytest.raises(FileNotFoundError, match="without its variables/: copy all"):
        formats.read_weights(exported)


# -- albert_zh


def write_albert_zh(folder, rng, **changes):
    """A model of albert_zh: its weights, and those of the same model unfactorised."""
    config, full = random_model(rng, embedding_size=12)
    table, projection = rng.random((61, 5)), rng.random((5, 12))
    parts = {
        "attention_1/self/": "attention/self/",
        "attention_1/output/dense/": "attention/output/dense/",
        "LayerNorm/": "attention/output/LayerNorm/",
        "ffn_1/intermediate/output/dense/": "output/dense/",
        "ffn_1/intermediate/dense/": "intermediate/dense/",
        "LayerNorm_1/": "output/LayerNorm/",
    }
    block = "bert/encoder/transformer/group_0/inner_group_0/"
    theirs = {}
    for name, value in full.items():
        for ours, part in parts.items():
            if name.startswith(block + ours):
                rest = name.removeprefix(block + ours)
                name = f"bert/encoder/layer_shared/{part}{rest}"
                break
        theirs[name] = value
    theirs["bert/embeddings/word_embeddings"] = table.astype(np.float32)
    theirs["bert/embeddings/word_embeddings_2"] = projection.astype(np.float32)
    full["bert/embeddings/word_embeddings"] = (table @ projection).astype(np.float32)
    folder.mkdir()
    tensorflow_files.write_named(folder / "albert_model.ckpt", theirs)
    values = {**config.to_dict(), "embedding_size": 5, "directionality": "bidi"}
    del values["num_hidden_groups"], values["inner_group_num"]
    file = folder / "albert_config_base.json"
    file.write_text(json.dumps({**values, **changes}))
    return config, full, theirs


def test_albert_zh_becomes_the_same_model_unfactorised(tmp_path):
    folder = tmp_path / "zh"
    config, full, _ = write_albert_zh(folder, np.random.default_rng(3))
    stored = formats.read_weights(folder)
    assert stored.format.value == "albert_zh" and stored.config == config
    assert set(stored.weights) == set(full)
    for name, value in full.items():
        np.testing.assert_allclose(stored.weights[name], value, rtol=1e-6)
    convert(folder, tmp_path / "own", "own")
    model = PretrainingModel(config, seed=1)
    report = load_weights(model, tmp_path / "own")
    assert (report.missing, report.unused) == ((), ())


def test_albert_zh_in_a_model_of_its_own_shape_says_what_to_do(tmp_path):
    config, _, _ = write_albert_zh(tmp_path / "zh", np.random.default_rng(3))
    encoder = AlbertEncoder(config.replace(embedding_size=5), seed=1)
    words = r"missing|embedding_size = hidden_size"
    with pytest.raises(ValueError, match=words):
        load_weights(encoder, tmp_path / "zh", "", HEADS)


def test_albert_zh_models_that_compute_otherwise_are_named(tmp_path):
    write_albert_zh(tmp_path / "zh", np.random.default_rng(3), ln_type="preln")
    with pytest.raises(ValueError, match="ln_type 'preln', expected 'postln'"):
        formats.read_weights(tmp_path / "zh")
    write_albert_zh(tmp_path / "post", np.random.default_rng(3), ln_type="postln")
    assert formats.read_weights(tmp_path / "post").format.value == "albert_zh"
    partly = {"bert/encoder/layer_shared/intermediate_3/dense/bias": np.zeros(2)}
    with pytest.raises(ValueError, match="shares its layers in part"):
        albert_zh.from_albert_zh(partly)
    with pytest.raises(ValueError, match=r"without .*word_embeddings_2"):
        albert_zh.from_albert_zh({"bert/encoder/layer_shared/x": np.zeros(2)})


# -- bad input


def test_a_folder_of_two_checkpoints_or_formats_is_ambiguous(released, tmp_path):
    folder, weights = released
    shutil.copytree(folder, tmp_path / "two")
    config = model_dir.read_config(folder)
    write_model(tmp_path / "two", weights, config, "model.ckpt-3")
    with pytest.raises(ValueError, match=r"several .*model\.ckpt-3, model\.ckpt-best"):
        formats.read_weights(tmp_path / "two")
    tensors, _ = hugging_face.to_transformers(weights, config)
    hugging_face.write(folder, tensors, hugging_face.config_to_dict(config, "X"))
    with pytest.raises(ValueError, match=r"several formats \(hugging_face, checkpoint"):
        formats.read_weights(folder)
    named = formats.read_weights(folder / "model.ckpt-best")
    assert_same_weights(named.weights, weights)


def test_a_missing_shard_is_named(released):
    folder = released[0]
    (folder / "model.ckpt-best.data-00000-of-00001").unlink()
    with pytest.raises(ValueError, match=r"copy its \.index and \.data files.*00001"):
        formats.read_weights(folder)


@pytest.mark.parametrize("name", ["", "nowhere", "nowhere/model.ckpt-best"])
def test_a_path_without_weights_is_named(name, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"No weights at .*up to '\.index'"):
        formats.read_weights(tmp_path / name)


def test_names_of_no_format_are_shown(tmp_path):
    tensorflow_files.write_named(tmp_path / "x", {"conv/kernel": np.ones(3)})
    with pytest.raises(ValueError, match=r"no known format: it holds conv/kernel\."):
        formats.read_weights(tmp_path)


def test_weights_without_a_configuration_ask_for_it(released, tmp_path):
    (released[0] / "albert_config.json").unlink()
    with pytest.raises(FileNotFoundError, match="pass --albert_config_file"):
        convert(released[0], tmp_path / "there", "own")
    convert(released[0], tmp_path / "there", "own", config=tiny.tiny_config())


@pytest.mark.parametrize("write", ["write_named", "write_own"])
def test_what_cannot_be_written_is_one_line(write, released, tmp_path):
    (tmp_path / "file").write_text("in the way")
    arguments = [released[1], 0] if write == "write_own" else [released[1]]
    with pytest.raises(OSError, match=r"cannot be written .*: make space") as caught:
        getattr(tensorflow_files, write)(tmp_path / "file" / "x", *arguments)
    assert "\n" not in str(caught.value)
