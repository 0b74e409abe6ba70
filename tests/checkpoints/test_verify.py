"""Outputs of stored weights are computed and compared."""

import numpy as np
import pytest

from albert_tf.checkpoints import model_dir, tensorflow_files, verify
from albert_tf.checkpoints.checkpoint_format import CheckpointFormat
from albert_tf.checkpoints.formats import StoredWeights
from albert_tf.model.heads import PretrainingModel
from helpers import tiny
from helpers.tiny_weights import (
    convert,
    files_in,
    random_model,
    weights_of,
    write_model,
)

TABLE = "bert/embeddings/word_embeddings"


@pytest.fixture
def released(tmp_path):
    """A released folder; its weights."""
    config, weights = random_model()
    return write_model(tmp_path / "released", weights, config), weights


def test_outputs_that_differ_fail_and_leave_nothing(released, tmp_path, monkeypatch):
    def spoiled(prefix, weights, step):
        tensorflow_files.write_named(prefix, {**weights, TABLE: weights[TABLE] + 0.01})

    monkeypatch.setattr(tensorflow_files, "write_own", spoiled)
    with pytest.raises(ValueError, match=r"differs by .*, expected at most 0\.0001"):
        convert(released[0], tmp_path / "there", "own")
    assert files_in(tmp_path) == ["released"]


def test_weights_that_are_not_numbers_fail(released, tmp_path):
    weights = {**released[1], "bert/pooler/dense/bias": np.full(12, np.nan, np.float32)}
    write_model(released[0], weights, model_dir.read_config(released[0]))
    with pytest.raises(ValueError, match="pooled_output differs by nan"):
        convert(released[0], tmp_path / "there", "own")


def test_outputs_are_those_of_the_model():
    model = PretrainingModel(tiny.tiny_config(), seed=3)
    config = model.encoder.config
    stored = StoredWeights("here", CheckpointFormat.OWN, weights_of(model), (), config)
    batch = verify.random_batch(config, np.random.default_rng(4))
    outputs, expected = verify.outputs(stored, batch), model(batch)
    np.testing.assert_allclose(
        outputs["cls/predictions/logits"], expected["masked_lm_logits"], atol=1e-5
    )
    np.testing.assert_allclose(
        outputs["cls/seq_relationship/logits"],
        expected["sentence_order_logits"],
        atol=1e-5,
    )
    assert outputs["sequence_output"].shape == (2, 24, 12)


def test_a_random_batch_has_padding_and_two_segments():
    config = tiny.tiny_config()
    batch = verify.random_batch(config, np.random.default_rng(4))
    assert batch["input_ids"].shape == (2, 24)
    assert batch["input_mask"].numpy().sum(axis=1).tolist() == [24, 16]
    assert batch["segment_ids"].numpy().sum(axis=1).tolist() == [12, 16]
    one_segment = config.replace(type_vocab_size=1)
    batch = verify.random_batch(one_segment, np.random.default_rng(4))
    assert not batch["segment_ids"].numpy().any()


def test_the_largest_difference_may_be_nan():
    some = {"a": np.float32([1, 2]), "b": np.float32([np.nan]), "c": np.float32([0])}
    others = {"a": np.float32([1, 4]), "b": np.float32([1])}
    differences = verify.largest_difference(some, others)
    assert differences["a"] == 2 and np.isnan(differences["b"])
    assert "c" not in differences
    verify.require_close({"a": 1e-5}, "They")
    with pytest.raises(ValueError, match="They: a differs by 2, expected at most"):
        verify.require_close({"a": differences["a"]}, "They")
