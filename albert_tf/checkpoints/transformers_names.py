"""Names of weights in the PyTorch classes of `transformers`, of ALBERT and of BERT.

These store matrices as [outputs, inputs]. Projection kernels are transposed; head
kernels are not, because the released heads are [classes, hidden] as well.
"""

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from albert_tf.checkpoints.transformers_config import is_bert
from albert_tf.config import AlbertConfig

_SCOPE = "bert/encoder/transformer/group_{group}/inner_group_{inner}/"
_MAPPING = "bert/encoder/embedding_hidden_mapping_in"
# Weights that are not transposed: heads that the classes of both models have.
_TASK_HEADS = {
    "qa_outputs.weight": "cls/squad/output_weights",
    "qa_outputs.bias": "cls/squad/output_bias",
    "classifier.weight": "output_weights",
    "classifier.bias": "output_bias",
}
# Names of a LayerNorm in checkpoints that were converted from TensorFlow 1.
_OLD_NAMES = {
    ".LayerNorm.gamma": ".LayerNorm.weight",
    ".LayerNorm.beta": ".LayerNorm.bias",
}


@dataclasses.dataclass(frozen=True)
class _Scheme:
    """The names of one model's classes: modules there -> released scopes.

    Attributes:
      prefix: of all modules of the encoder; a class of the encoder alone lacks it.
      layer: prefix of the modules of a group of layers, and an inner layer.
      projections: modules with a matrix that is transposed.
      norms: LayerNorms.
      layer_projections: projections of each layer.
      layer_norms: LayerNorms of each layer.
      heads: weights of heads that are not transposed.
      masked_lm: prefix of the masked-LM head.
    """

    prefix: str
    layer: str
    projections: Mapping[str, str]
    norms: Mapping[str, str]
    layer_projections: Mapping[str, str]
    layer_norms: Mapping[str, str]
    heads: Mapping[str, str]
    masked_lm: str

    @property
    def table(self) -> str:
        """The embedding table, to which the masked-LM head is tied."""
        return f"{self.prefix}embeddings.word_embeddings.weight"

    @property
    def tied(self) -> dict[str, str]:
        """Copies that some versions store -> the tensors that they are tied to."""
        return {
            f"{self.masked_lm}decoder.weight": self.table,
            f"{self.masked_lm}decoder.bias": f"{self.masked_lm}bias",
        }

    @property
    def buffers(self) -> tuple[str, ...]:
        """Tensors of older versions that are no weights: 0, 1, 2, ...; zeros."""
        scope = f"{self.prefix}embeddings."
        return f"{scope}position_ids", f"{scope}token_type_ids"


_ALBERT = _Scheme(
    prefix="albert.",
    layer="albert.encoder.albert_layer_groups.{group}.albert_layers.{inner}.",
    projections={
        "albert.encoder.embedding_hidden_mapping_in": _MAPPING,
        "albert.pooler": "bert/pooler/dense",
        "predictions.dense": "cls/predictions/transform/dense",
    },
    norms={
        "albert.embeddings.LayerNorm": "bert/embeddings/LayerNorm",
        "predictions.LayerNorm": "cls/predictions/transform/LayerNorm",
    },
    layer_projections={
        "attention.query": "attention_1/self/query",
        "attention.key": "attention_1/self/key",
        "attention.value": "attention_1/self/value",
        "attention.dense": "attention_1/output/dense",
        "ffn": "ffn_1/intermediate/dense",
        "ffn_output": "ffn_1/intermediate/output/dense",
    },
    layer_norms={
        "attention.LayerNorm": "LayerNorm",
        "full_layer_layer_norm": "LayerNorm_1",
    },
    heads={
        "predictions.bias": "cls/predictions/output_bias",
        "sop_classifier.classifier.weight": "cls/seq_relationship/output_weights",
        "sop_classifier.classifier.bias": "cls/seq_relationship/output_bias",
    },
    masked_lm="predictions.",
)
# Layer i of BERT is group i: its layers share nothing.
_BERT = _Scheme(
    prefix="bert.",
    layer="bert.encoder.layer.{group}.",
    projections={
        "bert.pooler.dense": "bert/pooler/dense",
        "cls.predictions.transform.dense": "cls/predictions/transform/dense",
    },
    norms={
        "bert.embeddings.LayerNorm": "bert/embeddings/LayerNorm",
        "cls.predictions.transform.LayerNorm": "cls/predictions/transform/LayerNorm",
    },
    layer_projections={
        "attention.self.query": "attention_1/self/query",
        "attention.self.key": "attention_1/self/key",
        "attention.self.value": "attention_1/self/value",
        "attention.output.dense": "attention_1/output/dense",
        "intermediate.dense": "ffn_1/intermediate/dense",
        "output.dense": "ffn_1/intermediate/output/dense",
    },
    layer_norms={
        "attention.output.LayerNorm": "LayerNorm",
        "output.LayerNorm": "LayerNorm_1",
    },
    heads={
        "cls.predictions.bias": "cls/predictions/output_bias",
        "cls.seq_relationship.weight": "cls/seq_relationship/output_weights",
        "cls.seq_relationship.bias": "cls/seq_relationship/output_bias",
    },
    masked_lm="cls.predictions.",
)
_BERT_LAYER = re.compile(r"(bert\.)?encoder\.layer\.\d+\.")


class Name(NamedTuple):
    """A weight's name in both formats, and whether its matrix is transposed."""

    transformers: str
    released: str
    transposed: bool


def _names(scheme: _Scheme, config: AlbertConfig) -> Iterator[Name]:
    """Yields all weights that a model may have there, those of every head included."""
    projections, norms = dict(scheme.projections), dict(scheme.norms)
    for group in range(config.num_hidden_groups):
        for inner in range(config.inner_group_num):
            layer, scope = (
                text.format(group=group, inner=inner) for text in (scheme.layer, _SCOPE)
            )
            projections |= _prefixed(layer, scope, scheme.layer_projections)
            norms |= _prefixed(layer, scope, scheme.layer_norms)
    for module, scope in projections.items():
        yield Name(f"{module}.weight", f"{scope}/kernel", True)
        yield Name(f"{module}.bias", f"{scope}/bias", False)
    for module, scope in norms.items():
        yield Name(f"{module}.weight", f"{scope}/gamma", False)
        yield Name(f"{module}.bias", f"{scope}/beta", False)
    for table in ("word", "token_type", "position"):
        name = f"{table}_embeddings"
        yield Name(
            f"{scheme.prefix}embeddings.{name}.weight", f"bert/embeddings/{name}", False
        )
    for name, released in {**scheme.heads, **_TASK_HEADS}.items():
        yield Name(name, released, False)


def _prefixed(layer: str, scope: str, names: Mapping[str, str]) -> dict[str, str]:
    return {layer + module: scope + released for module, released in names.items()}


def from_transformers(
    stored: Mapping[str, np.ndarray], config: AlbertConfig, of_tokens: bool = False
) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    """Renames tensors to float32 weights of released names; unknown names stay.

    So do those of a classifier of tokens, which has the names of one of texts.

    Args:
      stored: tensors of the folder, of ALBERT or of BERT.
      config: of its `config.json`.
      of_tokens: whether a classifier is one of tokens. One without a pooler always is.
    Returns:
      The weights; and the names of tensors that are none: buffers, and copies of
      tensors that they are tied to.
    Raises:
      ValueError: the masked-LM head's matrix is not the embedding table, or a weight
        is there under two names.
    """
    scheme = _scheme_of(stored)
    rest = _full_names(stored, scheme)
    ignored = []
    for copy, tied in scheme.tied.items():
        if copy in rest:
            value = rest.pop(copy)
            is_only = tied not in rest
            if not np.array_equal(rest.setdefault(tied, value), value):
                raise ValueError(
                    f"{copy} differs from {tied}: its masked-LM head is not tied to "
                    "the embeddings, as ALBERT's is; train it tied."
                )
            ignored += [] if is_only else [copy]
    for buffer in scheme.buffers:
        if buffer in rest:
            del rest[buffer]
            ignored.append(buffer)
    weights = {}
    has_pooler = any(name.startswith(f"{scheme.prefix}pooler.") for name in rest)
    of_tokens = of_tokens or not has_pooler
    for name in _names(scheme, config):
        is_kept = of_tokens and name.transformers.startswith("classifier.")
        if name.transformers in rest and not is_kept:
            value = rest.pop(name.transformers)
            value = value.T if name.transposed else value
            weights[name.released] = np.ascontiguousarray(value, np.float32)
    return weights | rest, tuple(sorted(ignored))


def _scheme_of(names: Iterable[str]) -> _Scheme:
    return _BERT if any(_BERT_LAYER.match(name) for name in names) else _ALBERT


def _full_names(
    stored: Mapping[str, np.ndarray], scheme: _Scheme
) -> dict[str, np.ndarray]:
    """The tensors under their names in a model with heads, of present versions."""
    tensors: dict[str, np.ndarray] = {}
    for given, tensor in stored.items():
        name = given
        if given.startswith(("embeddings.", "encoder.", "pooler.")):
            # The encoder alone lacks the prefix.
            name = scheme.prefix + given
        for old, new in _OLD_NAMES.items():
            if name.endswith(old):
                name = name.removesuffix(old) + new
        if name in tensors:
            raise ValueError(f"{name} is there twice, also as {given}: keep one.")
        tensors[name] = tensor
    return tensors


def to_transformers(
    weights: Mapping[str, np.ndarray], config: AlbertConfig
) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    """Renames weights to the tensors of `transformers`, of BERT if the model is one.

    Args:
      weights: by released names.
      config: the model's configuration, with as many attention groups as feed-forward
        groups (`edit.with_equal_groups`).
    Returns:
      The tensors, and the names of weights that have no place there.
    """
    rest = dict(weights)
    scheme = _BERT if is_bert(config) else _ALBERT
    if scheme is _ALBERT and not config.has_embedding_projection:
        # Every ALBERT there has a projection: this one does nothing.
        rest[f"{_MAPPING}/kernel"] = np.eye(config.hidden_size, dtype=np.float32)
        rest[f"{_MAPPING}/bias"] = np.zeros(config.hidden_size, np.float32)
    tensors = {}
    for name in _names(scheme, config):
        if name.released in rest:
            value = rest.pop(name.released)
            value = value.T if name.transposed else value
            tensors[name.transformers] = np.ascontiguousarray(value)
    if scheme is _ALBERT and "predictions.bias" in tensors:
        # Its TensorFlow classes read this copy, its PyTorch classes tie the two.
        tensors["predictions.decoder.bias"] = tensors["predictions.bias"].copy()
    return tensors, tuple(sorted(rest))
