"""Weights of every format are read under released names and give the same outputs."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import (
    formats,
    model_dir,
    tensorflow_files,
)
from albert_tf.checkpoints.load import load_weights
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.serving import export
from helpers import tiny
from helpers.tiny_weights import (
    TOKENS,
    assert_same_weights,
    convert,
    encoder_weights,
    files_in,
    random_model,
    write_model,
)


@pytest.fixture
def released(tmp_path):
    """A released folder; its weights."""
    config, weights = random_model()
    return write_model(tmp_path / "released", weights, config), weights


def assert_close(some, others):
    np.testing.assert_allclose(some, others, rtol=0, atol=1e-4)


# -- tf-models' AlbertEncoder


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
    assert_same_weights(stored.weights, encoder_weights(weights))
    assert stored.config == config and stored.format.value == "tensorflow1"
    results = convert(folder, tmp_path / "own", "own", run_source=True)
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
        convert(folder, tmp_path / "own", "own", run_source=True)
    assert files_in(tmp_path) == ["hub"]


def test_the_graph_of_a_source_is_run_only_if_asked_for(tmp_path, monkeypatch):
    config, weights = random_model(num_hidden_layers=1)
    folder = write_hub_module(tmp_path / "hub", config, weights)
    loaded = []
    monkeypatch.setattr(tf.saved_model, "load", lambda *_, **__: loaded.append(1))
    (folder / "saved_model.pb").write_bytes(b"not even a graph")
    results = convert(folder, tmp_path / "own", "own")
    assert not loaded and set(results["largest_differences"]) == {"reload"}
    assert any("graph was not run" in note for note in results["notes"])
    stored = formats.read_weights(tmp_path / "own")
    assert_same_weights(stored.weights, encoder_weights(weights))
    with pytest.raises(ValueError, match="no SavedModel, so there is no graph to run"):
        convert(tmp_path / "own", tmp_path / "again", "own", run_source=True)


def test_our_own_saved_model_is_read(released, tmp_path):
    folder, weights = released
    config = model_dir.read_config(folder)
    settings = {"lower_case": True, "strip_accents": False}
    model = export.ExportedModel(config, str(folder), tokenizer_settings=settings)
    exported, _ = export.export_model(model, tmp_path / "serving")
    for path in (exported, exported / "saved_model.pb"):
        stored = formats.read_weights(path)
        assert_same_weights(stored.weights, encoder_weights(weights))
        assert stored.config == config
    results = convert(exported, tmp_path / "own", "own", run_source=True)
    assert len(results["largest_differences"]["source"]) == 2
    assert model_dir.read_cleaning(tmp_path / "own") == settings


# -- albert_zh


# -- bad input


def test_names_of_no_format_are_shown(tmp_path):
    tensorflow_files.write_named(tmp_path / "x", {"conv/kernel": np.ones(3)})
    with pytest.raises(ValueError, match=r"no known format: it holds conv/kernel\."):
        formats.read_weights(tmp_path)


def test_weights_without_a_configuration_ask_for_it(released, tmp_path):
    (released[0] / "albert_config.json").unlink()
    with pytest.raises(FileNotFoundError, match="pass --albert_config_file"):
        convert(released[0], tmp_path / "there", "own")
    convert(released[0], tmp_path / "there", "own", config=tiny.tiny_config())
