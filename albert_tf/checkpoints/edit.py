"""Weights that are whole models: nothing missing, a larger vocabulary, other groups."""

import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from albert_tf.checkpoints import group_mapping
from albert_tf.checkpoints.formats import StoredWeights
from albert_tf.checkpoints.load import LoadReport, released_name
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.layers import Initializer

_TABLE, _BIAS = "bert/embeddings/word_embeddings", "cls/predictions/output_bias"
_MATRIX = {"output_weights": "CH", "output_bias": "C"}
# Heads that weights may have besides the encoder -> the scope of their names, and the
# shape of each: V vocabulary, E embedding, H hidden, D = 2 H, C classes of that head.
HEADS = {
    "masked-LM": (
        "cls/predictions/",
        {
            "transform/dense/kernel": "HE",
            "transform/dense/bias": "E",
            "transform/LayerNorm/gamma": "E",
            "transform/LayerNorm/beta": "E",
            "output_bias": "V",
        },
    ),
    "sentence-order": ("cls/seq_relationship/", _MATRIX),
    "span": ("cls/squad/", _MATRIX),
    "classifier": ("", _MATRIX),
    "span start": ("start_logits/", {"dense/kernel": "H1", "dense/bias": "1"}),
    "span end": (
        "end_logits/",
        {
            "dense_0/kernel": "DH",
            "dense_0/bias": "H",
            "LayerNorm/gamma": "H",
            "LayerNorm/beta": "H",
            "dense_1/kernel": "H1",
            "dense_1/bias": "1",
        },
    ),
    "answerable": (
        "answer_class/",
        {"dense_0/kernel": "DH", "dense_0/bias": "H", "dense_1/kernel": "H1"},
    ),
}


def complete(
    stored: StoredWeights, strict: bool, seed: int
) -> tuple[StoredWeights, LoadReport]:
    """Weights that are an encoder and whole heads, no more and no less.

    Args:
      stored: with its configuration.
      strict: whether missing and unknown weights are an error; else those start fresh
        (whole heads stay away) and these are left out.
      seed: of weights that start fresh.
    Returns:
      The weights, and what became of each.
    Raises:
      ValueError: a shape is not that of the configuration; when strict, a name that is
        missing or unknown. (The pooler may be, of classes that have none.)
    """
    encoder = AlbertEncoder(stored.config, seed=seed)
    variables = {released_name(v): v for v in encoder.variables}
    known, heads = set(variables), set()
    for scope, names in HEADS.values():
        names = {scope + name for name in names}
        known |= names
        if names <= set(stored.weights) or (strict and names & set(stored.weights)):
            heads |= names
    wanted = set(variables) | heads
    report = LoadReport(
        loaded=tuple(sorted(wanted & set(stored.weights))),
        missing=tuple(sorted(wanted - set(stored.weights))),
        unused=tuple(sorted(set(stored.weights) - wanted)),
        ignored=tuple(sorted(stored.ignored)),
    )
    missing = set(report.missing)
    if stored.pooler_left_out:
        missing -= {name for name in missing if name.startswith("bert/pooler/")}
    if strict and (missing or report.unused):
        raise ValueError(
            f"{stored.source} does not hold what its configuration says: {report}. Use "
            "the configuration that belongs to it; or --nostrict, to start fresh what "
            "is missing and leave out what is unknown."
        )
    shapes = {name: tuple(variable.shape) for name, variable in variables.items()}
    shapes |= _head_shapes(stored)
    for name in report.loaded:
        held = stored.weights[name].shape
        if held != shapes[name]:
            raise ValueError(
                f"{stored.source} holds {name} of shape {[*held]}, its configuration "
                f"says {[*shapes[name]]}: use the configuration that belongs to it."
            )
    weights = {name: stored.weights[name] for name in report.loaded}
    weights |= {name: variables[name].numpy() for name in report.missing}
    return dataclasses.replace(stored, weights=weights), report


def _head_shapes(stored: StoredWeights) -> dict[str, tuple[int, ...]]:
    """What a configuration says of every head's weights."""
    config = stored.config
    sizes = {
        "V": config.vocab_size,
        "E": config.embedding_size,
        "H": config.hidden_size,
        "D": 2 * config.hidden_size,
        "1": 1,
    }
    shapes = {}
    for scope, letters in HEADS.values():
        sizes["C"] = np.size(stored.weights.get(f"{scope}output_bias", ()))
        for name, axes in letters.items():
            shapes[scope + name] = tuple(sizes[axis] for axis in axes)
    return shapes


def grow_vocabulary(stored: StoredWeights, size: int, seed: int) -> StoredWeights:
    """Adds rows to the embedding table and, with it, to the masked-LM head's bias.

    New rows are initial values, new biases 0, as a model has them before training.

    Raises:
      ValueError: the size is not above the model's.
    """
    config, weights = stored.config, dict(stored.weights)
    more = size - config.vocab_size
    if more <= 0:
        raise ValueError(
            f"The vocabulary can only grow. Received {size}, and the model has "
            f"{config.vocab_size}: name a larger size."
        )
    shape = (more, config.embedding_size)
    rows = Initializer(config.initializer_range, seed).weights("new_pieces", shape)
    weights[_TABLE] = np.concatenate([weights[_TABLE], rows.numpy()])
    if _BIAS in weights:
        weights[_BIAS] = np.pad(weights[_BIAS], (0, more))
    return dataclasses.replace(
        stored, weights=weights, config=config.replace(vocab_size=size)
    )


def with_equal_groups(stored: StoredWeights) -> StoredWeights:
    """The same model with as many sets of attention as of feed-forward parameters.

    Other layouts know `num_hidden_groups` alone. Sets are repeated where need be.
    """
    config, groups = stored.config, stored.config.groups
    own = [groups[key] for key in group_mapping.KINDS.values()]
    count = math.lcm(*own)
    config = config.replace(
        num_hidden_groups=count, attention_groups=None, ffn_groups=None
    )
    sets = {
        kind: [index * held // count for index in range(count)]
        for kind, held in zip(group_mapping.KINDS, own, strict=True)
    }
    weights = {
        copy: value
        for name, value in stored.weights.items()
        for copy in group_mapping.copies(name, sets)
    }
    return dataclasses.replace(stored, weights=weights, config=config)


def heads_of(weights: Mapping[str, np.ndarray]) -> frozenset[str]:
    """Which whole heads weights have: keys of `HEADS`."""
    return frozenset(
        head
        for head, (scope, names) in HEADS.items()
        if all(scope + name in weights for name in names)
    )
