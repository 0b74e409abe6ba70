"""Configurations of `transformers`, the `config.json` of ALBERT and of BERT."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from albert_tf.config import AlbertConfig

ALBERT, BERT = "albert", "bert"
# Activation there -> here. Its "gelu" is the exact form, the original's the tanh form.
_ACTIVATIONS = {
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "gelu_fast": "gelu",
    "gelu_accurate": "gelu",
    "gelu": "gelu_erf",
    "gelu_python": "gelu_erf",
    "relu": "relu",
    "tanh": "tanh",
    "linear": "linear",
}
# Keys of which only one value is supported.
_FIXED = {"layer_norm_eps": 1e-12, "position_embedding_type": "absolute"}
# The same, of keys that are not written.
_FIXED_IF_PRESENT = {
    "is_decoder": False,
    "add_cross_attention": False,
    "pruned_heads": {},
}
# Model type -> defaults of the values that every model here states.
_DEFAULTS: dict[str, dict[str, Any]] = {
    ALBERT: {"embedding_size": 128, "vocab_size": 30_000, "hidden_act": "gelu_new"},
    BERT: {
        "vocab_size": 30_522,
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3_072,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
    },
}
# Keys of sharing, which BERT has none of.
_OF_ALBERT = frozenset({"embedding_size", "num_hidden_groups", "inner_group_num"})


def is_config(values: Mapping[str, Any]) -> bool:
    """True if values are those of a `config.json`, by keys that own files lack."""
    return not {"architectures", "model_type"}.isdisjoint(values)


def model_type(values: Mapping[str, Any]) -> str:
    """The kind of model that a `config.json` describes, "albert" if it is not said.

    Early files have no `model_type`; their class or their keys tell.
    """
    if "model_type" in values:
        return str(values["model_type"])
    classes = values.get("architectures")
    if isinstance(classes, list) and classes and str(classes[0]).startswith("Bert"):
        return BERT
    has_layers = "num_hidden_layers" in values and "hidden_size" in values
    is_known = bool(classes) or not _OF_ALBERT.isdisjoint(values) or not has_layers
    return ALBERT if is_known else BERT


def is_bert(config: AlbertConfig) -> bool:
    """True if a model is a BERT: its layers share nothing, and it has no projection."""
    groups = {*config.groups.values(), config.num_hidden_layers}
    one_each = len(groups) == 1 and config.inner_group_num == 1
    return one_each and not config.has_embedding_projection


def config_from_dict(values: Mapping[str, Any]) -> AlbertConfig:
    """Reads the values of a `config.json`.

    Raises:
      ValueError: another kind of model, or one whose formulas differ from ours.
    """
    kind = model_type(values)
    if kind not in _DEFAULTS:
        raise ValueError(
            f"model_type is {kind!r}, but only models of type 'albert' and 'bert' are "
            "read: give one of those."
        )
    for key, only in {**_FIXED, **_FIXED_IF_PRESENT}.items():
        if values.get(key) not in (None, only):
            raise ValueError(
                f"{key} is {values[key]!r}, but only {only!r} is computed here: such a "
                "model would give other numbers."
            )
    fields = {field.name for field in dataclasses.fields(AlbertConfig)}
    if kind == BERT:
        fields -= _OF_ALBERT
    known = {key: value for key, value in values.items() if key in fields}
    known = _DEFAULTS[kind] | known
    activation = known["hidden_act"]
    if not isinstance(activation, str) or activation not in _ACTIVATIONS:
        raise ValueError(
            f"hidden_act is {activation!r}, expected one of {', '.join(_ACTIVATIONS)}."
        )
    config = AlbertConfig.from_dict(known | {"hidden_act": _ACTIVATIONS[activation]})
    if kind == ALBERT and config.embedding_size == config.hidden_size:
        # Every ALBERT there has a projection.
        return config.replace(project_embeddings=True)
    return config


def config_to_dict(config: AlbertConfig, model_class: str) -> dict[str, Any]:
    """Makes the values of a `config.json`, that of a BERT if the model is one.

    Args:
      config: the model's configuration, with as many attention groups as feed-forward
        groups.
      model_class: class there without its model's name, as "ForPreTraining".
    """
    values = config.to_dict()
    for key in ("attention_groups", "ffn_groups", "project_embeddings"):
        values.pop(key, None)
    kind, prefix = (BERT, "Bert") if is_bert(config) else (ALBERT, "Albert")
    dropout = {"classifier_dropout_prob": 0.1}
    if kind == BERT:
        values = {key: v for key, v in values.items() if key not in _OF_ALBERT}
        dropout = {}
    activations = {here: there for there, here in reversed(_ACTIVATIONS.items())}
    return {
        "architectures": [prefix + model_class],
        "model_type": kind,
        **values,
        **_FIXED,
        "hidden_act": activations[config.hidden_act],
        **dropout,
        "torch_dtype": "float32",
    }
