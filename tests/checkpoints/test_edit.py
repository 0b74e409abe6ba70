"""Stored weights are completed, grow a vocabulary, and repeat their groups."""

import numpy as np
import pytest

from albert_tf.checkpoints import edit, formats, model_dir
from albert_tf.checkpoints.checkpoint_format import CheckpointFormat
from albert_tf.checkpoints.load import load_weights, released_name
from albert_tf.model.heads import (
    ClassificationModel,
    MultipleChoiceModel,
    PretrainingModel,
)
from albert_tf.model.span_heads import AnswerableSpanModel, SpanModel
from helpers import tiny
from helpers.tiny_weights import (
    assert_same_weights,
    convert,
    model_with_head,
    random_model,
    write_model,
)

CONFIG = tiny.tiny_config()
TABLE = "bert/embeddings/word_embeddings"


@pytest.fixture
def released(tmp_path):
    """A released folder; its weights."""
    config, weights = random_model()
    return write_model(tmp_path / "released", weights, config), weights


def test_every_head_of_our_models_is_known():
    config = tiny.tiny_config()
    models = [
        ClassificationModel(config, num_outputs=3),
        MultipleChoiceModel(config),
        SpanModel(config),
        AnswerableSpanModel(config),
        PretrainingModel(config),
    ]
    for model in models:
        weights = {released_name(v): v.numpy() for v in model.variables}
        stored = formats.StoredWeights(
            "here", CheckpointFormat.OWN, weights, config=config
        )
        complete, report = edit.complete(stored, True, 0)
        assert set(complete.weights) == set(weights)
        assert (report.missing, report.unused) == ((), ())


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("output_weights", (3, 11), r"\[3, 11\], its configuration says \[3, 12\]"),
        ("output_bias", (2,), r"output_weights .* says \[2, 12\]"),
    ],
)
def test_a_head_of_another_shape_is_refused(name, shape, words, tmp_path):
    source, _ = model_with_head(tmp_path / "source", "classifier")
    weights = dict(formats.read_weights(source).weights)
    write_model(source, {**weights, name: np.ones(shape, np.float32)}, CONFIG)
    with pytest.raises(ValueError, match=words):
        convert(source, tmp_path / "there", "own")


def test_missing_and_unknown_weights_stop_a_strict_conversion(released, tmp_path):
    folder, weights = released
    config = model_dir.read_config(folder)
    odd = {"bert/odd": np.float32(1), "cls/predictions/odd": np.float32(2)}
    weights = {**weights, **odd}
    lacking = ["bert/pooler/dense/bias", "cls/predictions/output_bias"]
    for name in lacking:
        del weights[name]
    source = write_model(tmp_path / "odd", weights, config)
    words = "2 missing .*pooler/dense/bias.*output_bias.*2 unused .*bert/odd"
    with pytest.raises(ValueError, match=words):
        convert(source, tmp_path / "there", "own")
    assert not (tmp_path / "there").exists()
    results = convert(source, tmp_path / "there", "own", strict=False)
    assert results["weights"]["fresh"] == ["bert/pooler/dense/bias"]
    # A head without its bias is none.
    transform = [n for n in weights if n.startswith("cls/predictions/")]
    assert results["weights"]["unused"] == sorted([*transform, "bert/odd"])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"vocab_size": 62}, r"\[61, 6\], its configuration says \[62, 6\]"),
        ({"hidden_size": 15}, r"configuration says \[15\]"),
        ({"num_hidden_groups": 2}, "16 missing"),
    ],
)
def test_weights_of_another_shape_are_refused(changes, words, released, tmp_path):
    config = tiny.tiny_config(**changes)
    with pytest.raises(ValueError, match=words) as caught:
        convert(released[0], tmp_path / "there", "own", config=config)
    assert "\n" not in str(caught.value) and not (tmp_path / "there").exists()


def test_a_vocabulary_grows_in_the_table_and_the_bias_together(released, tmp_path):
    folder, weights = released
    results = convert(folder, tmp_path / "grown", "tensorflow1", vocab_size=70)
    grown = formats.read_weights(tmp_path / "grown")
    assert grown.config == tiny.tiny_config(vocab_size=70)
    bias = "cls/predictions/output_bias"
    assert np.array_equal(grown.weights[TABLE][:61], weights[TABLE])
    assert np.array_equal(grown.weights[bias][:61], weights[bias])
    assert not grown.weights[bias][61:].any()
    new = grown.weights[TABLE][61:]
    assert len(np.unique(new)) == new.size == 9 * 6 and np.abs(new).max() <= 0.04
    rest = {n: v for n, v in weights.items() if n not in (TABLE, bias)}
    assert_same_weights(rest, {n: grown.weights[n] for n in rest})
    assert len(results["largest_differences"]["reload"]) == 4
    again = edit.grow_vocabulary(formats.read_weights(folder), 70, 12345)
    assert np.array_equal(again.weights[TABLE], grown.weights[TABLE])
    load_weights(PretrainingModel(grown.config, seed=1), tmp_path / "grown")


@pytest.mark.parametrize("size", [61, 60])
def test_a_vocabulary_does_not_shrink(size, released, tmp_path):
    with pytest.raises(ValueError, match=f"Received {size}, and the model has 61"):
        convert(released[0], tmp_path / "there", "own", vocab_size=size)


@pytest.mark.parametrize("method", ["tiled", "interpolated"])
def test_positions_grow(method, released, tmp_path):
    folder, weights = released
    name = "bert/embeddings/position_embeddings"
    old = weights[name]
    count = len(old)
    size = 2 * count + 3
    changes = {"positions": size, "position_method": method}
    convert(folder, tmp_path / "long", "own", **changes)
    long = formats.read_weights(tmp_path / "long")
    assert long.config == tiny.tiny_config(max_position_embeddings=size)
    new = long.weights[name]
    assert new.shape == (size, old.shape[1]) and new.dtype == old.dtype
    if method == "tiled":
        assert np.array_equal(new[:count], old) and np.array_equal(new[count], old[0])
        assert np.array_equal(new[2 * count :], old[:3])
    else:
        assert np.array_equal(new[[0, -1]], old[[0, -1]])
        # Twice as many steps and two more: place 2 is a little below the old place 1.
        step = (count - 1) / (size - 1)
        np.testing.assert_allclose(
            new[1], old[0] + step * (old[1] - old[0]), rtol=1e-4, atol=1e-6
        )
    rest = {n: v for n, v in weights.items() if n != name}
    assert_same_weights(rest, {n: long.weights[n] for n in rest})
    with pytest.raises(
        ValueError, match=f"Received {count}, and the model has {count}"
    ):
        convert(folder, tmp_path / "there", "own", positions=count)


@pytest.mark.parametrize("target", ["tensorflow1", "hugging_face", "model_garden"])
def test_formats_without_a_window_get_no_model_that_has_one(target, tmp_path):
    config, weights = random_model(attention_window=4)
    folder = write_model(tmp_path / "local", weights, config)
    with pytest.raises(ValueError, match=f"{target} has no attention_window.*of 4"):
        convert(folder, tmp_path / "there", target)
    convert(folder, tmp_path / "own", "own")
    assert formats.read_weights(tmp_path / "own").config == config


def test_groups_are_repeated_until_both_kinds_have_as_many():
    config, weights = random_model(
        num_hidden_layers=6, attention_groups=2, ffn_groups=3
    )
    stored = formats.StoredWeights("here", CheckpointFormat.OWN, weights, config=config)
    equal = edit.with_equal_groups(stored)
    assert set(equal.config.groups.values()) == {6}
    group = "bert/encoder/transformer/group_{}/inner_group_0/"
    for index in range(6):
        for name, count in (("LayerNorm/beta", 2), ("LayerNorm_1/beta", 3)):
            repeated = equal.weights[group.format(index) + name]
            start = weights[group.format(index * count // 6) + name]
            assert np.array_equal(repeated, start), (index, name)
