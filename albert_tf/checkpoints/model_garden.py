"""Reads and writes checkpoints of the AlbertEncoder of tf-models, the Model Garden.

That encoder has one block for all layers and separate axes for attention heads: kernels
of query, key and value are [H, N, D], that of the output is [N, D, H]. The masked-LM
head of its pretrainer is read; only the encoder is written.

Letters in shapes: B batch, S sequence, H hidden, N attention heads, D width of a head.
"""

from collections.abc import Container, Mapping

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
# tf-models' name of a weight -> the released name.
NAMES = {
    "word_embeddings/embeddings": "bert/embeddings/word_embeddings",
    "position_embedding/embeddings": "bert/embeddings/position_embeddings",
    "type_embeddings/embeddings": "bert/embeddings/token_type_embeddings",
    "bert/cls/predictions/output_bias/bias": "cls/predictions/output_bias",
    **{
        f"{scope}/{part}": f"{released}/{part}"
        for scope, released in _SCOPES.items()
        for part in (
            ("gamma", "beta") if "norm" in scope.lower() else ("kernel", "bias")
        )
    },
}
# Name of an activation in a configuration -> in tf-models; others have the same name.
_ACTIVATIONS = {"gelu": activations.gelu, "gelu_erf": "gelu"}
_QUERY = "transformer/self_attention/query/kernel"


def is_model_garden(names: Container[str]) -> bool:
    """True if the names of a checkpoint are those of tf-models' encoder."""
    return _QUERY in names


def from_model_garden(
    stored: Mapping[str, np.ndarray], config: AlbertConfig | None = None
) -> dict[str, np.ndarray]:
    """Renames and reshapes weights to the released ones; unknown names stay.

    Args:
      stored: weights by tf-models' names.
      config: the model's configuration, if it is known.
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
    """Builds tf-models' encoder.

    Raises:
      ValueError: the configuration is one that it cannot have.
    """
    groups = {**config.groups, "inner_group_num": config.inner_group_num}
    for name, count in groups.items():
        if count != 1:
            raise ValueError(
                f"tf-models' AlbertEncoder has one block for all layers, the model "
                f"{name}={count}: convert it to another format."
            )
    if config.has_embedding_projection != (config.embedding_size != config.hidden_size):
        raise ValueError(
            "tf-models' AlbertEncoder projects no embeddings where embedding_size is "
            f"hidden_size, {config.hidden_size}: convert the model to another format."
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

    It can be restored as `tf.train.Checkpoint(encoder=...)` and as `model=`; tf-models
    uses both.

    Args:
      prefix: its path up to `.index`.
      weights: by released names; all weights of the encoder.
      config: the model's configuration.
    Returns:
      Names of weights that the encoder lacks.
    Raises:
      ValueError: as `build_encoder`; or a weight of the encoder is missing.
      OSError: the disk is full, for instance.
    """
    encoder = build_encoder(config)
    rest = dict(weights)
    for variable in encoder.variables:
        name = NAMES[variable.name.split(":")[0]]
        if name not in rest:
            raise ValueError(
                f"tf-models' AlbertEncoder has {name}, which the weights lack: convert "
                "to another format, or with --nostrict, to start it fresh."
            )
        value = rest.pop(name)
        variable.assign(np.reshape(value, variable.shape))
    with tensorflow_files.explain_writing(prefix):
        tf.train.Checkpoint(encoder=encoder, model=encoder).write(prefix)
    return tuple(sorted(rest))


def run(prefix: str, config: AlbertConfig, batch: Mapping) -> dict[str, np.ndarray]:
    """Runs tf-models' encoder with a checkpoint.

    Args:
      prefix: as for `write`.
      config: the model's configuration.
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
