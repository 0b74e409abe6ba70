"""Checkpoints of tf-models' AlbertEncoder are read and written."""

import warnings

import numpy as np
import pytest
import tensorflow as tf
from official.nlp.modeling import networks

from albert_tf.checkpoints import formats, verify
from albert_tf.checkpoints.load import load_weights
from albert_tf.model.encoder import AlbertEncoder
from helpers import tiny
from helpers.tiny_weights import (
    convert,
    encoder_weights,
    files_in,
    random_model,
    write_model,
)


def assert_close(some, others):
    np.testing.assert_allclose(some, others, rtol=0, atol=1e-4)


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
    visible = batch["input_mask"].numpy()[..., np.newaxis]
    assert_close(outputs["sequence_output"], expected["sequence_output"] * visible)
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
    source = write_model(tmp_path / "source", encoder_weights(weights), config)
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
    source = write_model(tmp_path / "source", encoder_weights(weights), config)
    results = convert(source, tmp_path / "there", "model_garden")
    assert max(results["largest_differences"]["target"].values()) < 1e-5


def test_tf_models_saved_model_is_read(tmp_path):
    config = tiny.tiny_config()
    theirs = garden_encoder(config, np.random.default_rng(2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs.save(str(tmp_path / "theirs"))
    options = {"config": config, "run_source": True}
    results = convert(tmp_path / "theirs", tmp_path / "own", "own", **options)
    # Keras names the other output as the layers that give it.
    assert set(results["largest_differences"]["source"]) == {"pooled_output"}
    assert results["source_layout"] == "model_garden"
