"""Whether a converted model still computes what it did: outputs of random input.

Letters in shapes: B batch, S sequence, P predictions, H hidden, V vocabulary,
C classes.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from albert_tf.checkpoints.formats import StoredWeights
from albert_tf.checkpoints.load import HEADS, assign_weights, released_name
from albert_tf.config import AlbertConfig
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.heads import MaskedLanguageModelHead
from albert_tf.model.layers import Initializer

TOLERANCE = 1e-4
_LENGTH, _PREDICTIONS = 32, 5
_MASKED_LM = "cls/predictions/"
# Heads of one matrix [C, H] and a bias -> the output of the encoder that they read.
_SIMPLE_HEADS = {
    "cls/seq_relationship/": "pooled_output",
    "cls/squad/": "sequence_output",
    "": "pooled_output",
}
# A signature's names of the encoder's inputs.
_INPUTS = {
    "input_ids": "input_ids",
    "input_word_ids": "input_ids",
    "input_mask": "input_mask",
    "segment_ids": "segment_ids",
    "input_type_ids": "segment_ids",
}
_OUTPUTS = ("sequence_output", "pooled_output")
# And of its outputs, where they have other names: Keras takes those of layers.
_OTHER_OUTPUTS = {"pooler_transform": "pooled_output"}


def random_batch(
    config: AlbertConfig, rng: np.random.Generator
) -> dict[str, tf.Tensor]:
    """Two rows of random pieces in two segments, the second one padded; int32 [2, S],
    and `masked_lm_positions` [2, P]."""
    length = min(_LENGTH, config.max_position_embeddings)
    ends = np.array([[length], [length - length // 3]])
    places = np.arange(length)
    batch = {
        "input_ids": rng.integers(0, config.vocab_size, (2, length)),
        "input_mask": places < ends,
        "segment_ids": (places >= ends // 2) & (config.type_vocab_size > 1),
        "masked_lm_positions": rng.integers(0, ends, (2, _PREDICTIONS)),
    }
    return {name: tf.constant(value, tf.int32) for name, value in batch.items()}


def outputs(stored: StoredWeights, batch: Mapping) -> dict[str, np.ndarray]:
    """What a model of these weights computes, its heads of one matrix included.

    Args:
      stored: complete weights of an encoder, and of any heads, with their shape.
      batch: of `random_batch`.
    Returns:
      `sequence_output` [B, S, H], `pooled_output` [B, H], and logits under the scopes
      of the heads: [B, P, V] of the masked-LM head, else [B, C] or [B, S, C].
    """
    config, weights = stored.config, stored.weights
    encoder = AlbertEncoder(config, seed=0)
    assign_weights(encoder, stored, unused_ok=HEADS)
    encoded = encoder(batch)
    found = {name: encoded[name].numpy() for name in _OUTPUTS}
    for scope, source in _SIMPLE_HEADS.items():
        if f"{scope}output_weights" in weights:
            logits = found[source] @ weights[f"{scope}output_weights"].T
            found[f"{scope}logits"] = logits + weights[f"{scope}output_bias"]
    if f"{_MASKED_LM}output_bias" in weights:
        head = MaskedLanguageModelHead(config, Initializer(config.initializer_range, 0))
        for variable in head.variables:
            variable.assign(weights[released_name(variable)])
        found[f"{_MASKED_LM}logits"] = head(
            encoded["sequence_output"],
            batch["masked_lm_positions"],
            encoder.embedding_table,
        ).numpy()
    return found


def saved_model_outputs(folder: Path, batch: Mapping) -> dict[str, np.ndarray]:
    """What a SavedModel or hub module itself computes; empty if it cannot run here.

    Its signature must take the three inputs of an encoder, under any of their names;
    of the outputs, those with the encoder's names are returned.
    """
    content = saved_model_pb2.SavedModel.FromString(
        (folder / "saved_model.pb").read_bytes()
    )
    tags = [list(graph.meta_info_def.tags) for graph in content.meta_graphs]
    tags = next((each for each in tags if "train" not in each), [])
    try:
        signatures = tf.saved_model.load(str(folder), tags=tags).signatures
        for function in signatures.values():
            names = function.structured_input_signature[1]
            dtypes = {spec.dtype for spec in names.values()}
            inputs = {_INPUTS.get(name) for name in names}
            if inputs == set(_INPUTS.values()) and dtypes == {tf.int32}:
                results = function(**{name: batch[_INPUTS[name]] for name in names})
                known = {_OTHER_OUTPUTS.get(n, n): v for n, v in results.items()}
                return {n: known[n].numpy() for n in _OUTPUTS if n in known}
    except (tf.errors.OpError, ValueError, KeyError):
        # Of operations that this TensorFlow has not, as those of old hub modules.
        return {}
    return {}


def largest_difference(
    some: Mapping[str, np.ndarray], others: Mapping[str, np.ndarray]
) -> dict[str, float]:
    """The largest absolute difference of each output that both have; NaN counts."""
    return {
        name: float(np.max(np.abs(some[name] - others[name])))
        for name in some
        if name in others
    }


def require_close(differences: Mapping[str, float], what: str) -> None:
    """Checks what `largest_difference` found.

    Raises:
      ValueError: one is above `TOLERANCE`, or not a number.
    """
    bad = {name: d for name, d in differences.items() if not d <= TOLERANCE}
    if bad:
        name, difference = max(bad.items(), key=lambda pair: (pair[1], pair[0]))
        raise ValueError(
            f"{what}: {name} differs by {difference:.3g}, expected at most "
            f"{TOLERANCE:g}. Nothing was written: is the configuration that of the "
            "weights, hidden_act and num_attention_heads included?"
        )
