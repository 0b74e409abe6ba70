"""Models of `transformers` compute the same here and there, both ways.

The oracle is transformers' TensorFlow classes, which read the tensors of its PyTorch
classes without PyTorch.
"""

import os

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from albert_tf import beside_weights, checkpoints, conversion
from albert_tf.models import PretrainingModel

# Nothing is downloaded.
os.environ["HF_HUB_OFFLINE"] = "1"
import transformers
from transformers.modeling_tf_pytorch_utils import (
    load_pytorch_state_dict_in_tf2_model,
)

VOCABULARY, POSITIONS = 61, 24
SHAPES = {
    "all shared": {},
    "groups": {"num_hidden_groups": 2},
    "inner groups": {"inner_group_num": 3},
    "groups and inner groups": {"num_hidden_groups": 2, "inner_group_num": 2},
    "unfactorised": {"embedding_size": 12},
    "exact gelu": {"hidden_act": "gelu"},
    "relu, more segments": {"hidden_act": "relu", "type_vocab_size": 3},
}


def their_config(**changes):
    return transformers.AlbertConfig(
        **{
            "vocab_size": VOCABULARY,
            "embedding_size": 6,
            "hidden_size": 12,
            "num_hidden_layers": 4,
            "num_attention_heads": 3,
            "intermediate_size": 20,
            "max_position_embeddings": POSITIONS,
            **changes,
        }
    )


def random_tensors(config, rng, heads):
    """Random weights under the names of transformers' PyTorch classes."""
    embedding, hidden = config.embedding_size, config.hidden_size
    inner = config.intermediate_size
    linear = {
        "albert.encoder.embedding_hidden_mapping_in": (hidden, embedding),
        "albert.pooler": (hidden, hidden),
    }
    norms = {"albert.embeddings.LayerNorm": embedding}
    for group in range(config.num_hidden_groups):
        for layer in range(config.inner_group_num):
            scope = f"albert.encoder.albert_layer_groups.{group}.albert_layers.{layer}"
            for name in ("query", "key", "value", "dense"):
                linear[f"{scope}.attention.{name}"] = (hidden, hidden)
            linear[f"{scope}.ffn"] = (inner, hidden)
            linear[f"{scope}.ffn_output"] = (hidden, inner)
            norms[f"{scope}.attention.LayerNorm"] = hidden
            norms[f"{scope}.full_layer_layer_norm"] = hidden
    shapes = {
        "albert.embeddings.word_embeddings.weight": (config.vocab_size, embedding),
        "albert.embeddings.token_type_embeddings.weight": (
            config.type_vocab_size,
            embedding,
        ),
        "albert.embeddings.position_embeddings.weight": (POSITIONS, embedding),
    }
    if "predictions" in heads:
        linear["predictions.dense"] = (embedding, hidden)
        norms["predictions.LayerNorm"] = embedding
        shapes["predictions.bias"] = (config.vocab_size,)
    linear |= {name: (size, hidden) for name, size in heads.items() if size}
    for name, shape in linear.items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    for name, size in norms.items():
        shapes |= {f"{name}.weight": (size,), f"{name}.bias": (size,)}
    tensors = {n: rng.normal(0, 0.4, s).astype(np.float32) for n, s in shapes.items()}
    if "predictions" in heads:
        tensors["predictions.decoder.bias"] = tensors["predictions.bias"].copy()
    return tensors


def write_folder(folder, config, tensors):
    folder.mkdir(parents=True, exist_ok=True)
    config.save_pretrained(folder)
    safetensors.numpy.save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    return folder


def load_theirs(name, folder):
    """A model of transformers from a folder, which must have all of its weights.

    As `from_pretrained` does it, whose own reading fails with new safetensors.
    """
    config = transformers.AlbertConfig.from_pretrained(folder)
    model = getattr(transformers, f"TF{name}")(config)
    _, info = load_pytorch_state_dict_in_tf2_model(
        model,
        safetensors.numpy.load_file(folder / "model.safetensors"),
        allow_missing_keys=True,
        output_loading_info=True,
    )
    assert not info["missing_keys"] and not info["mismatched_keys"]
    return model


@pytest.fixture
def batch():
    rng = np.random.default_rng(4)
    length = 9
    values = {
        "input_ids": rng.integers(0, VOCABULARY, (2, length)),
        "input_mask": np.arange(length) < [[length], [7]],
        "segment_ids": np.arange(length) >= [[3], [5]],
        "masked_lm_positions": np.arange(length)[np.newaxis].repeat(2, 0),
    }
    return {name: tf.constant(value, tf.int32) for name, value in values.items()}


def run_theirs(model, batch):
    return model(
        input_ids=batch["input_ids"],
        attention_mask=batch["input_mask"],
        token_type_ids=batch["segment_ids"],
    )


def assert_close(some, others):
    np.testing.assert_allclose(some, others, rtol=0, atol=1e-4)


PRETRAINING_HEADS = {"predictions": 0, "sop_classifier.classifier": 2}


@pytest.mark.parametrize("shape", SHAPES)
def test_pretraining_models_agree_both_ways(shape, batch, tmp_path):
    config = their_config(**SHAPES[shape])
    tensors = random_tensors(config, np.random.default_rng(1), PRETRAINING_HEADS)
    source = write_folder(tmp_path / "theirs", config, tensors)
    own = PretrainingModel(beside_weights.read_config(source), seed=2)
    report = checkpoints.load_weights(own, source)
    assert (report.missing, report.unused) == ((), ())
    results, encoded = own(batch), own.encoder(batch)

    back = tmp_path / "back"
    conversion.convert(conversion.Conversion(str(source), str(back), "hugging_face"))
    for folder in (source, back):
        model = load_theirs("AlbertForPreTraining", folder)
        theirs = run_theirs(model, batch)
        assert_close(results["masked_lm_logits"], theirs.prediction_logits)
        assert_close(results["sentence_order_logits"], theirs.sop_logits)
        inner = run_theirs(model.albert, batch)
        assert_close(encoded["sequence_output"], inner.last_hidden_state)
        assert_close(encoded["pooled_output"], inner.pooler_output)
