"""Checkpoints of the AlbertEncoder of tf-models, TensorFlow's Model Garden.

It knows one block, all shared, and keeps attention's axes apart: kernels of query, key
and value lie [H, N, D], that of the output [N, D, H]. The masked-LM head of its
pretrainer is read; the encoder alone is written.
"""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf
import tf_keras
from official.modeling import activations
from official.nlp.modeling.networks import AlbertEncoder as GardenEncoder

from albert_tf.checkpoints import tensorflow_files
from albert_tf.config import AlbertConfig

_BLOCK = "bert/encoder/transformer/group_0/inner_group_0"
_SCOPES = {
    "embeddings/layer_norm": "bert/embeddings/LayerNorm",
    "embedding_projection": "bert/encoder/embedding_hidden_mapping_in",
    "transformer/self_attention/query": f"{_BLOCK}/attention_1/self/query",
    "transformer/self_attention/key": f"{_BLOCK}/attention_1/self/key",
    "transformer/self_attention/value": f"{_BLOCK}/attention_1/self/value",
    "transformer/self_attention/attention_output": (
        f"{_BLOCK}/attention_1/output/dense"
    ),
    "transformer/self_attention_layer_norm": f"{_BLOCK}/LayerNorm",
    "transformer/intermediate": f"{_BLOCK}/ffn_1/intermediate/dense",
    "transformer/output": f"{_BLOCK}/ffn_1/intermediate/output/dense",
    "transformer/output_layer_norm": f"{_BLOCK}/LayerNorm_1",
    "pooler_transform": "bert/pooler/dense",
    "bert/cls/predictions/transform/dense": "cls/predictions/transform/dense",
    "bert/cls/predictions/transform/LayerNorm": "cls/predictions/transform/LayerNorm",
}
# Its name of a weight -> ours.
NAMES = {
    "word_embeddings/embeddings": "bert/embeddings/word_embeddings",
    "position_embedding/embeddings": "bert/embeddings/position_embeddings",
    "type_embeddings/embeddings": "bert/embeddings/token_type_embeddings",
    "bert/cls/predictions/output_bias/bias": "cls/predictions/output_bias",
    **{
        f"{theirs}/{part}": f"{ours}/{part}"
        for theirs, ours in _SCOPES.items()
        for part in (
            ("gamma", "beta") if "norm" in theirs.lower() else ("kernel", "bias")
        )
    },
}
# Our name of an activation -> what it takes; others have the same name.
_ACTIVATIONS = {"gelu": activations.gelu, "gelu_erf": "gelu"}
_QUERY = "transformer/self_attention/query/kernel"


def is_layout(names) -> bool:
    """Whether a checkpoint's names are those of this encoder."""
    return _QUERY in names


def own_weights(
    stored: Mapping[str, np.ndarray], config: AlbertConfig | None = None
) -> dict[str, np.ndarray]:
    """Weights under released names; those without a counterpart under their own.

    Args:
      stored: weights by their names there.
      config: of the model, if it is known.
    Raises:
      ValueError: the configuration has another number of heads.
    """
    heads = stored[_QUERY].shape[1]
    if config and heads != config.num_attention_heads:
        raise ValueError(
            f"Its attention has {heads} heads, the configuration "
            f"{config.num_attention_heads}: use the configuration that belongs to it."
        )
    weights = {}
    for name, value in stored.items():
        if "/self_attention/" in name:
            width = value.shape[-1] if "/attention_output/" in name else value.shape[0]
            value = value.reshape(-1 if name.endswith("/bias") else (width, width))
        weights[NAMES.get(name, name)] = value
    return weights


def build_encoder(config: AlbertConfig) -> tf_keras.Model:
    """tf-models' encoder of a shape.

    Raises:
      ValueError: the shape is none that it has.
    """
    groups = {**config.groups, "inner_group_num": config.inner_group_num}
    for name, count in groups.items():
        if count != 1:
            raise ValueError(
                f"tf-models' AlbertEncoder has one block for all layers, the model "
                f"{name}={count}: convert it to another layout."
            )
    if config.has_embedding_projection != (config.embedding_size != config.hidden_size):
        raise ValueError(
            "tf-models' AlbertEncoder projects no embeddings where embedding_size is "
            f"hidden_size, {config.hidden_size}: convert the model to another layout."
        )
    return GardenEncoder(
        vocab_size=config.vocab_size,
        embedding_width=config.embedding_size,
        hidden_size=config.hidden_size,
        num_layers=config.num_hidden_layers,
        num_attention_heads=config.num_attention_heads,
        max_sequence_length=config.max_position_embeddings,
        type_vocab_size=config.type_vocab_size,
        intermediate_size=config.intermediate_size,
        activation=_ACTIVATIONS.get(config.hidden_act, config.hidden_act),
        dropout_rate=config.hidden_dropout_prob,
        attention_dropout_rate=config.attention_probs_dropout_prob,
        dict_outputs=True,
    )


def write(
    prefix: str, weights: Mapping[str, np.ndarray], config: AlbertConfig
) -> tuple[str, ...]:
    """Writes a checkpoint of tf-models' encoder.

    It restores as `tf.train.Checkpoint(encoder=...)` and as `model=`, both of which are
    in use there.

    Args:
      prefix: its path up to `.index`.
      weights: by released names; all that the encoder has.
      config: their shape.
    Returns:
      Names that have no place in it.
    Raises:
      ValueError: as `build_encoder`.
      OSError: the disk is full, for instance.
    """
    encoder = build_encoder(config)
    rest = dict(weights)
    for variable in encoder.variables:
        value = rest.pop(NAMES[variable.name.split(":")[0]])
        variable.assign(np.reshape(value, variable.shape))
    with tensorflow_files.explain_writing(prefix):
        tf.train.Checkpoint(encoder=encoder, model=encoder).write(prefix)
    return tuple(sorted(rest))


def run(prefix: str, config: AlbertConfig, batch: Mapping) -> dict[str, np.ndarray]:
    """What tf-models' encoder computes with a checkpoint.

    Args:
      prefix: of `write`.
      config: the model's shape.
      batch: `input_ids`, `input_mask` and `segment_ids`, int32 [B, S].
    Returns:
      `sequence_output` [B, S, H] and `pooled_output` [B, H].
    """
    encoder = build_encoder(config)
    status = tf.train.Checkpoint(encoder=encoder).read(prefix)
    status.assert_existing_objects_matched().expect_partial()
    outputs = encoder(
        {
            "input_word_ids": batch["input_ids"],
            "input_mask": batch["input_mask"],
            "input_type_ids": batch["segment_ids"],
        }
    )
    return {n: outputs[n].numpy() for n in ("sequence_output", "pooled_output")}
