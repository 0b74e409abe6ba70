"""Chinese ALBERT checkpoints of brightmart's albert_zh, an early and other ALBERT.

Its layers are BERT's, shared (`layer_shared`). Its embedding table [V, E] is projected
to H by a matrix, `word_embeddings_2`, before positions and segments of width H are
added; so the product of the two is the table of a model with E = H, to which its
masked-LM head is tied as ours is. The numbers are the same, the table is larger.
"""

import re
from collections.abc import Iterable, Mapping

import numpy as np

from albert_tf.checkpoints import group_mapping
from albert_tf.config import AlbertConfig

_SHARED = "bert/encoder/layer_shared/"
_TABLE = "bert/embeddings/word_embeddings"
_PROJECTION = "bert/embeddings/word_embeddings_2"


def is_layout(names: Iterable[str]) -> bool:
    """Whether a checkpoint's names are those of albert_zh."""
    return any(name == _PROJECTION or name.startswith(_SHARED) for name in names)


def own_weights(stored: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Weights under released names, the embedding table multiplied out to [V, H].

    Raises:
      ValueError: a variant whose layers are shared in part, or without a projection.
    """
    partly = re.compile(_SHARED + r"\w+_\d+/")
    for name in stored:
        if partly.match(name):
            raise ValueError(
                f"It is an albert_zh model that shares its layers in part ({name}), "
                "expected layers that are shared whole: use another of its models."
            )
    if _TABLE not in stored or _PROJECTION not in stored:
        raise ValueError(
            f"It is an albert_zh model without {_TABLE} and {_PROJECTION}, expected "
            "both: copy the checkpoint again."
        )
    # BERT's names of a first layer, which sharing knows.
    weights = {
        group_mapping.own_name(name.replace(_SHARED, "bert/encoder/layer_0/")): value
        for name, value in stored.items()
        if name != _PROJECTION
    }
    weights[_TABLE] = stored[_TABLE] @ stored[_PROJECTION]
    return weights


def own_config(config: AlbertConfig, ln_type: str | None) -> AlbertConfig:
    """The shape of the converted model.

    Args:
      config: what the model's configuration file says.
      ln_type: its key of that name, which says where LayerNorm stands.
    Raises:
      ValueError: LayerNorm stands before each part, as in its xlarge models; names and
        shapes do not show that.
    """
    if ln_type not in (None, "postln"):
        raise ValueError(
            f"It is an albert_zh model of ln_type {ln_type!r}, expected 'postln': "
            "ALBERT has its LayerNorm after each part; use another of its models."
        )
    return config.replace(embedding_size=config.hidden_size)
