"""Edits stored weights: completes them, adds rows of tokens and of positions, changes
the groups."""

import dataclasses
import math

import numpy as np

from albert_tf.checkpoints import group_mapping
from albert_tf.checkpoints.formats import POOLER_PREFIX, StoredWeights
from albert_tf.checkpoints.heads import (
    CLASSIFIER_BIAS,
    TAGGER_BIAS,
    Shapes,
    head_shapes,
)
from albert_tf.checkpoints.load import LoadReport, released_name
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.layers import Initializer

_TABLE, _BIAS = "bert/embeddings/word_embeddings", "cls/predictions/output_bias"
_POSITIONS = "bert/embeddings/position_embeddings"


def complete(
    stored: StoredWeights, strict: bool, seed: int
) -> tuple[StoredWeights, LoadReport]:
    """Makes weights exactly one encoder plus complete heads.

    Args:
      stored: with its configuration.
      strict: whether missing and unknown weights are an error. Otherwise missing
        weights of the encoder start fresh, and incomplete heads and unknown weights are
        left out.
      seed: seed of weights that start fresh.
    Returns:
      The weights, and what became of each.
    Raises:
      ValueError: a shape is not that of the configuration; if strict, a name is missing
        or unknown. (The pooler may be missing if no head that is stored reads it; it
        is left out then.)
    """
    config = stored.require_config()
    variables = {
        released_name(variable): variable
        for variable in AlbertEncoder(config, seed=seed).variables
    }
    expected = {name: tuple(variable.shape) for name, variable in variables.items()}
    expected |= _present_heads(stored, strict)
    names = set(stored.weights)
    report = LoadReport(
        loaded=tuple(sorted(names & set(expected))),
        missing=tuple(sorted(set(expected) - names)),
        unused=tuple(sorted(names - set(expected))),
        ignored=tuple(sorted(stored.ignored)),
    )
    if strict and stored.needs_no_pooler:
        kept = [n for n in report.missing if not n.startswith(POOLER_PREFIX)]
        report = dataclasses.replace(report, missing=tuple(kept))
    if strict and report.unused and not report.missing:
        raise ValueError(
            f"{stored.source} holds weights that have no place here: "
            f"{', '.join(report.unused)}. They are of a head that is not known, as one "
            "for tokens; --nostrict leaves them out."
        )
    if strict and report.missing:
        raise ValueError(
            f"{stored.source} does not hold what its configuration says: {report}. Use "
            "the configuration that belongs to it; or --nostrict, to start fresh what "
            "is missing and leave out what is unknown."
        )
    for name in report.loaded:
        shape = stored.weights[name].shape
        if shape != expected[name]:
            raise ValueError(
                f"{stored.source} holds {name} of shape {[*shape]}, its configuration "
                f"says {[*expected[name]]}: use the configuration that belongs to it."
            )
    weights = {name: stored.weights[name] for name in report.loaded}
    weights |= {name: variables[name].numpy() for name in report.missing}
    return dataclasses.replace(stored, weights=weights), report


def _present_heads(stored: StoredWeights, strict: bool) -> Shapes:
    """Shapes of the heads that are stored; if strict, of those stored in part too."""
    sizes = (
        max(1, np.size(stored.weights.get(bias, ())))
        for bias in (CLASSIFIER_BIAS, TAGGER_BIAS)
    )
    present: Shapes = {}
    for shapes in head_shapes(stored.require_config(), *sizes).values():
        count = sum(name in stored.weights for name in shapes)
        if count == len(shapes) or (strict and count):
            present |= shapes
    return present


def grow_vocabulary(stored: StoredWeights, size: int, seed: int) -> StoredWeights:
    """Adds rows to the embedding table and to the masked-LM head's bias.

    New rows have the initial values of a model before training, new biases are 0.

    Raises:
      ValueError: the size is not above the model's.
    """
    config, weights = stored.require_config(), dict(stored.weights)
    new_rows = size - config.vocab_size
    if new_rows <= 0:
        raise ValueError(
            f"The vocabulary can only grow. Received {size}, and the model has "
            f"{config.vocab_size}: name a larger size."
        )
    shape = (new_rows, config.embedding_size)
    # The values depend on the name, so it stays.
    rows = Initializer(config.initializer_range, seed).weights("new_pieces", shape)
    weights[_TABLE] = np.concatenate([weights[_TABLE], rows.numpy()])
    if _BIAS in weights:
        weights[_BIAS] = np.pad(weights[_BIAS], (0, new_rows))
    return dataclasses.replace(
        stored, weights=weights, config=config.replace(vocab_size=size)
    )


def grow_positions(stored: StoredWeights, size: int, method: str) -> StoredWeights:
    """Makes a model for longer rows, to be trained on.

    Args:
      stored: with its configuration.
      size: number of positions.
      method: "tiled": the table is repeated, so that rows of the old length give the
        same numbers as before and nearby positions differ as before (Beltagy et al.
        2020, section 5); "interpolated": it is stretched, the first and the last
        position stay and those between are mixed linearly.
    Raises:
      ValueError: the size is not above the model's.
    """
    config = stored.require_config()
    old = config.max_position_embeddings
    if size <= old:
        raise ValueError(
            f"The positions can only grow. Received {size}, and the model has {old}: "
            "name a larger number."
        )
    table = stored.weights[_POSITIONS]
    if method == "tiled":
        table = table[np.arange(size) % old]
    else:
        places = np.linspace(0, old - 1, size)
        columns = [np.interp(places, np.arange(old), column) for column in table.T]
        table = np.stack(columns, axis=1).astype(table.dtype)
    return dataclasses.replace(
        stored,
        weights={**stored.weights, _POSITIONS: table},
        config=config.replace(max_position_embeddings=size),
    )


def with_equal_groups(stored: StoredWeights) -> StoredWeights:
    """Returns the same model with as many attention groups as feed-forward groups.

    Other formats know `num_hidden_groups` alone. Groups are repeated if they differ.
    """
    config = stored.require_config()
    held = {kind: config.groups[key] for kind, key in group_mapping.KINDS.items()}
    count = math.lcm(*held.values())
    groups = {
        kind: [index * number // count for index in range(count)]
        for kind, number in held.items()
    }
    weights = {
        target: value
        for name, value in stored.weights.items()
        for target in group_mapping.target_names(name, groups)
    }
    config = config.replace(
        num_hidden_groups=count, attention_groups=None, ffn_groups=None
    )
    return dataclasses.replace(stored, weights=weights, config=config)
