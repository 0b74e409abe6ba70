"""Checkpoints of albert_zh become models with E = H that compute the same numbers."""

import json

import numpy as np
import pytest

from albert_tf.checkpoints import albert_zh, formats, tensorflow_files
from albert_tf.checkpoints.load import HEADS, load_weights
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.heads import PretrainingModel
from helpers.tiny_weights import convert, random_model


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
