"""Reads Chinese ALBERT checkpoints of brightmart's albert_zh.

Its layers are BERT's, shared (`layer_shared`). Its embedding table [V, E] is multiplied
by a matrix [E, H], `word_embeddings_2`, before position and segment embeddings of width
H are added. The product of both is the table of a model with E = H, which computes the
same numbers, the tied masked-LM head included; the table is larger.

Letters in shapes: V vocabulary, E embedding, H hidden.
"""

import re
from collections.abc import Iterable, Mapping

import numpy as np

from albert_tf.checkpoints import group_mapping
from albert_tf.config import AlbertConfig

_SHARED = "bert/encoder/layer_shared/"
_SHARED_IN_PART = re.compile(_SHARED + r"\w+_\d+/")
_TABLE = "bert/embeddings/word_embeddings"
_PROJECTION = "bert/embeddings/word_embeddings_2"


def is_albert_zh(names: Iterable[str]) -> bool:
    """True if the names of a checkpoint are those of albert_zh."""
    return any(name == _PROJECTION or name.startswith(_SHARED) for name in names)


def from_albert_zh(stored: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Renames weights to the released names and multiplies the table out to [V, H].

    Raises:
      ValueError: a variant whose layers are shared in part, or without a projection.
    """
    for name in stored:
        if _SHARED_IN_PART.match(name):
            raise ValueError(
                f"It is an albert_zh model that shares its layers in part ({name}), "
                "expected layers that are shared whole: use another of its models."
            )
    if _TABLE not in stored or _PROJECTION not in stored:
        raise ValueError(
            f"It is an albert_zh model without {_TABLE} and {_PROJECTION}, expected "
            "both: copy the checkpoint again."
        )
    # BERT's names of a first layer are those of a shared layer.
    weights = {
        group_mapping.from_bert_name(
            name.replace(_SHARED, "bert/encoder/layer_0/")
        ): value
        for name, value in stored.items()
        if name != _PROJECTION
    }
    weights[_TABLE] = stored[_TABLE] @ stored[_PROJECTION]
    return weights


def convert_config(config: AlbertConfig, ln_type: str | None) -> AlbertConfig:
    """Returns the configuration of the converted model.

    Args:
      config: the content of the model's configuration file.
      ln_type: the file's key of that name, which tells where LayerNorm is.
    Raises:
      ValueError: LayerNorm comes before each part, as in its xlarge models; names and
        shapes of weights do not show that.
    """
    if ln_type not in (None, "postln"):
        raise ValueError(
            f"It is an albert_zh model of ln_type {ln_type!r}, expected 'postln': "
            "ALBERT has its LayerNorm after each part; use another of its models."
        )
    return config.replace(embedding_size=config.hidden_size)
