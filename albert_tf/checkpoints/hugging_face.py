"""Reads and writes folders of `transformers`: `config.json` and `model.safetensors`.

The names are those of the PyTorch classes, which store matrices as [outputs, inputs].
Projection kernels are transposed; head kernels are not, because the released heads are
[classes, hidden] as well. Neither `transformers` nor PyTorch is needed.
"""

import dataclasses
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors
import safetensors.numpy

from albert_tf.config import AlbertConfig
from albert_tf.files import json_bytes, read_json, write_whole
from albert_tf.storage import AnyPath, entries, local_copy

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
_INDEX_FILE = "model.safetensors.index.json"
# Bytes that the library allows a header.
_LARGEST_HEADER = 100_000_000
# In the header of the weights; transformers ignores it.
_STEP_KEY = "global_step"
# Files of weights that only PyTorch or other libraries read.
_OTHER_WEIGHTS = ("pytorch_model.bin", "tf_model.h5", "flax_model.msgpack")
# Names of files that tell that a path is in such a folder.
WEIGHTS_FILES = (WEIGHTS_FILE, _INDEX_FILE, *_OTHER_WEIGHTS)
# Activation there -> here. Its "gelu" is the exact form, the original's the tanh form.
_ACTIVATIONS = {
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "gelu": "gelu_erf",
    "relu": "relu",
    "tanh": "tanh",
    "linear": "linear",
}
# Keys of its configuration of which only one value is supported.
_FIXED = {"layer_norm_eps": 1e-12, "position_embedding_type": "absolute"}
# Modules there -> released scopes: projections, and LayerNorms.
_PROJECTIONS = {
    "albert.encoder.embedding_hidden_mapping_in": (
        "bert/encoder/embedding_hidden_mapping_in"
    ),
    "albert.pooler": "bert/pooler/dense",
    "predictions.dense": "cls/predictions/transform/dense",
}
_NORMS = {
    "albert.embeddings.LayerNorm": "bert/embeddings/LayerNorm",
    "predictions.LayerNorm": "cls/predictions/transform/LayerNorm",
}
_BLOCK_PROJECTIONS = {
    "attention.query": "attention_1/self/query",
    "attention.key": "attention_1/self/key",
    "attention.value": "attention_1/self/value",
    "attention.dense": "attention_1/output/dense",
    "ffn": "ffn_1/intermediate/dense",
    "ffn_output": "ffn_1/intermediate/output/dense",
}
_BLOCK_NORMS = {
    "attention.LayerNorm": "LayerNorm",
    "full_layer_layer_norm": "LayerNorm_1",
}
_NOT_TRANSPOSED = {
    "albert.embeddings.word_embeddings.weight": "bert/embeddings/word_embeddings",
    "albert.embeddings.token_type_embeddings.weight": (
        "bert/embeddings/token_type_embeddings"
    ),
    "albert.embeddings.position_embeddings.weight": (
        "bert/embeddings/position_embeddings"
    ),
    "predictions.bias": "cls/predictions/output_bias",
    "sop_classifier.classifier.weight": "cls/seq_relationship/output_weights",
    "sop_classifier.classifier.bias": "cls/seq_relationship/output_bias",
    "qa_outputs.weight": "cls/squad/output_weights",
    "qa_outputs.bias": "cls/squad/output_bias",
    "classifier.weight": "output_weights",
    "classifier.bias": "output_bias",
}
_TABLE = "albert.embeddings.word_embeddings.weight"
_MAPPING = "bert/encoder/embedding_hidden_mapping_in"
# Copies that some versions store -> the tensors that they are tied to.
_TIED = {
    "predictions.decoder.weight": _TABLE,
    "predictions.decoder.bias": "predictions.bias",
}


class Name(NamedTuple):
    """A weight's name in both formats, and whether its matrix is transposed."""

    transformers: str
    released: str
    transposed: bool


def names(config: AlbertConfig) -> Iterator[Name]:
    """Yields all weights that a model may have there, those of every head included."""
    projections, norms = dict(_PROJECTIONS), dict(_NORMS)
    for group in range(config.num_hidden_groups):
        for inner in range(config.inner_group_num):
            block = f"albert.encoder.albert_layer_groups.{group}.albert_layers.{inner}."
            scope = f"bert/encoder/transformer/group_{group}/inner_group_{inner}/"
            projections |= _prefixed(block, scope, _BLOCK_PROJECTIONS)
            norms |= _prefixed(block, scope, _BLOCK_NORMS)
    for module, scope in projections.items():
        yield Name(f"{module}.weight", f"{scope}/kernel", True)
        yield Name(f"{module}.bias", f"{scope}/bias", False)
    for module, scope in norms.items():
        yield Name(f"{module}.weight", f"{scope}/gamma", False)
        yield Name(f"{module}.bias", f"{scope}/beta", False)
    for name, released in _NOT_TRANSPOSED.items():
        yield Name(name, released, False)


def _prefixed(block: str, scope: str, names: Mapping[str, str]) -> dict[str, str]:
    return {block + module: scope + released for module, released in names.items()}


def from_transformers(
    stored: Mapping[str, np.ndarray], config: AlbertConfig, of_tokens: bool = False
) -> dict[str, np.ndarray]:
    """Renames tensors to float32 weights of released names; unknown names stay.

    So do those of a classifier of tokens, which has the names of one of texts.

    Args:
      stored: tensors of the folder.
      config: of its `config.json`.
      of_tokens: whether a classifier is one of tokens. One without a pooler always is.
    Raises:
      ValueError: the masked-LM head's matrix is not the embedding table.
    """
    rest = {_full_name(name): tensor for name, tensor in stored.items()}
    for copy, tied in _TIED.items():
        if copy in rest:
            value = rest.pop(copy)
            if not np.array_equal(rest.setdefault(tied, value), value):
                raise ValueError(
                    f"{copy} differs from {tied}: its masked-LM head is not tied to "
                    "the embeddings, as ALBERT's is; train it tied."
                )
    # A buffer of older versions: 0, 1, 2, ...
    rest.pop("albert.embeddings.position_ids", None)
    weights = {}
    has_pooler = any(name.startswith("albert.pooler.") for name in rest)
    of_tokens = of_tokens or not has_pooler
    for name in names(config):
        is_kept = of_tokens and name.transformers.startswith("classifier.")
        if name.transformers in rest and not is_kept:
            value = rest.pop(name.transformers)
            value = value.T if name.transposed else value
            weights[name.released] = np.ascontiguousarray(value, np.float32)
    return weights | rest


def to_transformers(
    weights: Mapping[str, np.ndarray], config: AlbertConfig
) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    """Renames weights to the tensors of `transformers`.

    Args:
      weights: by released names.
      config: the model's configuration, with as many attention groups as feed-forward
        groups (`edit.with_equal_groups`).
    Returns:
      The tensors, and the names of weights that have no place there.
    """
    rest = dict(weights)
    if not config.has_embedding_projection:
        # Every model there has a projection: this one does nothing.
        rest[f"{_MAPPING}/kernel"] = np.eye(config.hidden_size, dtype=np.float32)
        rest[f"{_MAPPING}/bias"] = np.zeros(config.hidden_size, np.float32)
    tensors = {}
    for name in names(config):
        if name.released in rest:
            value = rest.pop(name.released)
            value = value.T if name.transposed else value
            tensors[name.transformers] = np.ascontiguousarray(value)
    if "predictions.bias" in tensors:
        # Its TensorFlow classes read this copy, its PyTorch classes tie the two.
        tensors["predictions.decoder.bias"] = tensors["predictions.bias"].copy()
    return tensors, tuple(sorted(rest))


def _full_name(name: str) -> str:
    """The name in a model with heads; that of the encoder alone lacks `albert.`."""
    bare = name.startswith(("embeddings.", "encoder.", "pooler."))
    return f"albert.{name}" if bare else name


def is_folder(folder: AnyPath) -> bool:
    """True if a folder holds weights of `transformers`, in any of its formats."""
    return not entries(folder).files.isdisjoint(WEIGHTS_FILES)


def read_tensors(folder: AnyPath) -> dict[str, np.ndarray]:
    """Reads all tensors of a folder.

    Raises:
      ValueError: they are in a format that needs PyTorch or another library, or a file
        is cut off or missing.
    """
    files, there = [WEIGHTS_FILE], entries(folder).files
    if _INDEX_FILE in there:
        index = read_json(folder / _INDEX_FILE)
        files = sorted(set(index.get("weight_map", {}).values()))
    for name in files:
        if name not in there:
            others = [name for name in _OTHER_WEIGHTS if name in there]
            raise ValueError(
                f"{folder} holds {', '.join(others) or 'no ' + name}, but weights are "
                f"read from {WEIGHTS_FILE}. With transformers and PyTorch: "
                "AutoModelForPreTraining.from_pretrained(FOLDER)"
                ".save_pretrained(NEW, safe_serialization=True)."
            )
    tensors: dict[str, np.ndarray] = {}
    for name in files:
        try:
            with local_copy(folder / name) as local:
                with safetensors.safe_open(str(local), "numpy") as file:
                    tensor_format = (file.metadata() or {}).get("format", "pt")
                tensors |= safetensors.numpy.load_file(str(local))
        except (safetensors.SafetensorError, KeyError, TypeError) as error:
            raise ValueError(
                f"{folder / name} cannot be read ({error}): copy it again; its numbers "
                "must be float32 or float16."
            ) from error
        if tensor_format != "pt":
            raise ValueError(
                f"{folder / name} holds tensors of format {tensor_format!r}, "
                "expected 'pt': save it with the PyTorch class of the model."
            )
    return tensors


def read_step(folder: AnyPath) -> int:
    """Reads how many optimizer steps made the weights; 0: unknown."""
    file = folder / WEIGHTS_FILE
    if not file.is_file():
        return 0
    # The header alone: the library takes only local files.
    with file.open("rb") as opened:
        size = int.from_bytes(opened.read(8), "little")
        content = opened.read(min(size, _LARGEST_HEADER))
    try:
        step = json.loads(content).get("__metadata__", {}).get(_STEP_KEY, "")
    except (ValueError, AttributeError) as error:
        raise ValueError(f"{file} cannot be read ({error}): copy it again.") from error
    return int(step) if step.isdecimal() else 0


def write(
    folder: Path,
    tensors: Mapping[str, np.ndarray],
    config_values: Mapping[str, Any],
    global_step: int = 0,
) -> None:
    """Writes `model.safetensors` and `config.json`.

    Args:
      folder: gets the files.
      tensors: name -> weights.
      config_values: content of `config.json`.
      global_step: optimizer steps that made the weights, which the header of the
        weights holds; 0: unknown.
    Raises:
      OSError: the disk is full, for instance.
    """
    file = str(folder / WEIGHTS_FILE)
    metadata = {"format": "pt"}
    if global_step:
        metadata[_STEP_KEY] = str(global_step)
    try:
        safetensors.numpy.save_file(dict(tensors), file, metadata)
    except safetensors.SafetensorError as error:
        raise OSError(f"{file} cannot be written: {error}.") from error
    write_whole(folder / CONFIG_FILE, json_bytes(config_values, indent=2))
    # The library makes files that only their owner can read.
    shutil.copymode(folder / CONFIG_FILE, file)


def is_config(values: Mapping[str, Any]) -> bool:
    """True if values are those of a `config.json`, by keys that own files lack."""
    return not {"architectures", "model_type"}.isdisjoint(values)


def config_from_dict(values: Mapping[str, Any]) -> AlbertConfig:
    """Reads the values of a `config.json`.

    Raises:
      ValueError: another kind of model, or one whose formulas differ from ours.
    """
    if values.get("model_type", "albert") != "albert":
        raise ValueError(
            f"model_type is {values['model_type']!r}, expected 'albert': convert its "
            "TensorFlow 1 checkpoint, if it is a BERT."
        )
    for key, only in _FIXED.items():
        if values.get(key, only) != only:
            raise ValueError(
                f"{key} is {values[key]!r}, but ALBERT's is {only!r}: such a model "
                "would give other numbers here."
            )
    fields = {field.name for field in dataclasses.fields(AlbertConfig)}
    known = {key: value for key, value in values.items() if key in fields}
    activation = known.get("hidden_act", "gelu_new")
    if activation not in _ACTIVATIONS:
        raise ValueError(
            f"hidden_act is {activation!r}, expected one of {', '.join(_ACTIVATIONS)}."
        )
    # Defaults of its class, which are the original's.
    config = AlbertConfig.from_dict(
        {"embedding_size": 128, "vocab_size": 30_000}
        | known
        | {"hidden_act": _ACTIVATIONS[activation]}
    )
    if config.embedding_size == config.hidden_size:
        # Every model there has a projection.
        return config.replace(project_embeddings=True)
    return config


def config_to_dict(config: AlbertConfig, architecture: str) -> dict[str, Any]:
    """Makes the values of a `config.json`.

    Args:
      config: the model's configuration, with equal groups as in `to_transformers`.
      architecture: class there, as "AlbertForPreTraining".
    """
    values = config.to_dict()
    for key in ("attention_groups", "ffn_groups", "project_embeddings"):
        values.pop(key, None)
    activations = {here: there for there, here in reversed(_ACTIVATIONS.items())}
    return {
        "architectures": [architecture],
        "model_type": "albert",
        **values,
        **_FIXED,
        "hidden_act": activations[config.hidden_act],
        "classifier_dropout_prob": 0.1,
        "torch_dtype": "float32",
    }
