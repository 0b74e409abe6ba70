"""Models of `transformers`: made, written, read and run without PyTorch.

Its TensorFlow classes read the tensors of its PyTorch classes.
"""

import json
import os

import numpy as np
import safetensors.numpy

from helpers.tiny_weights import convert

# Nothing is downloaded.
os.environ["HF_HUB_OFFLINE"] = "1"
import transformers
from transformers.modeling_tf_pytorch_utils import (
    load_pytorch_state_dict_in_tf2_model,
)

VOCABULARY, POSITIONS = 61, 24


def transformers_config(**changes):
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


def bert_config(**changes):
    """Of BERT by default, erf gelu included; sizes as `transformers_config`."""
    return transformers.BertConfig(
        **{
            "vocab_size": VOCABULARY,
            "hidden_size": 12,
            "num_hidden_layers": 3,
            "num_attention_heads": 3,
            "intermediate_size": 20,
            "max_position_embeddings": POSITIONS,
            **changes,
        }
    )


def random_bert_tensors(config, rng, heads, has_pooler=True):
    """As `random_tensors`, of BERT."""
    hidden, inner = config.hidden_size, config.intermediate_size
    linear = {"bert.pooler.dense": (hidden, hidden)} if has_pooler else {}
    norms = ["bert.embeddings.LayerNorm"]
    for layer in range(config.num_hidden_layers):
        scope = f"bert.encoder.layer.{layer}"
        for name in ("self.query", "self.key", "self.value", "output.dense"):
            linear[f"{scope}.attention.{name}"] = (hidden, hidden)
        linear[f"{scope}.intermediate.dense"] = (inner, hidden)
        linear[f"{scope}.output.dense"] = (hidden, inner)
        norms += [f"{scope}.attention.output.LayerNorm", f"{scope}.output.LayerNorm"]
    rows = {
        "word": config.vocab_size,
        "token_type": config.type_vocab_size,
        "position": config.max_position_embeddings,
    }
    shapes = {
        f"bert.embeddings.{name}_embeddings.weight": (count, hidden)
        for name, count in rows.items()
    }
    if "cls.predictions" in heads:
        linear["cls.predictions.transform.dense"] = (hidden, hidden)
        norms.append("cls.predictions.transform.LayerNorm")
        shapes["cls.predictions.bias"] = (config.vocab_size,)
    linear |= {name: (size, hidden) for name, size in heads.items() if size}
    for name, shape in linear.items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    for name in norms:
        shapes |= {f"{name}.weight": (hidden,), f"{name}.bias": (hidden,)}
    return {n: rng.normal(0, 0.4, s).astype(np.float32) for n, s in shapes.items()}


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


def load_transformers(name, folder):
    """A model of transformers from a folder, which must have all of its weights.

    As `from_pretrained` does it, whose own reading fails with new safetensors.
    """
    config = transformers.AutoConfig.from_pretrained(folder)
    model = getattr(transformers, f"TF{name}")(config)
    _, info = load_pytorch_state_dict_in_tf2_model(
        model,
        safetensors.numpy.load_file(folder / "model.safetensors"),
        allow_missing_keys=True,
        output_loading_info=True,
    )
    assert not info["missing_keys"] and not info["mismatched_keys"]
    return model


def convert_back(source, tmp_path, **changes):
    """Reads a folder of transformers and writes it again."""
    back = tmp_path / "back"
    convert(source, back, "hugging_face", **changes)
    return back


def saved_config(folder):
    return json.loads((folder / "config.json").read_text())


def run_transformers(model, batch):
    return model(
        input_ids=batch["input_ids"],
        attention_mask=batch["input_mask"],
        token_type_ids=batch["segment_ids"],
    )


def assert_close(some, others, atol=1e-4):
    np.testing.assert_allclose(some, others, rtol=0, atol=atol)


def assert_close_at_tokens(some, others, batch, atol=1e-4):
    """Compares [B, S, ...] where there is no padding."""
    tokens = batch["input_mask"].numpy() == 1
    assert_close(np.asarray(some)[tokens], np.asarray(others)[tokens], atol)


POOLER = "bert/pooler/dense/kernel"
PRETRAINING_HEADS = {"predictions": 0, "sop_classifier.classifier": 2}
