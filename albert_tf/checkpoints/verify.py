"""Computes outputs of stored weights for random input, and compares them.

Letters in shapes: B batch, S sequence, P predictions, H hidden, V vocabulary,
C classes.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from albert_tf.checkpoints import heads
from albert_tf.checkpoints.formats import POOLER_PREFIX, StoredWeights
from albert_tf.checkpoints.load import HEADS, assign_weights, released_name
from albert_tf.checkpoints.location import SAVED_MODEL_FILE
from albert_tf.config import AlbertConfig
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.heads import MaskedLanguageModelHead
from albert_tf.model.layers import Initializer

TOLERANCE = 1e-4
_LENGTH, _PREDICTIONS = 32, 5
_MASKED_LM = heads.PREFIXES[heads.MASKED_LM]
# Scopes of the heads of one matrix [C, H] and a bias -> the encoder's output that the
# head reads.
_SIMPLE_HEADS = {
    heads.PREFIXES[heads.SENTENCE_ORDER]: "pooled_output",
    heads.PREFIXES[heads.SPAN]: "sequence_output",
    heads.PREFIXES[heads.TAGGER]: "sequence_output",
    "": "pooled_output",
}
# Input of a signature -> input of the encoder.
_INPUTS = {
    "input_ids": "input_ids",
    "input_word_ids": "input_ids",
    "input_mask": "input_mask",
    "segment_ids": "segment_ids",
    "input_type_ids": "segment_ids",
}
_OUTPUTS = ("sequence_output", "pooled_output")
# Output of a signature -> output of the encoder: Keras names some after layers.
_OTHER_OUTPUTS = {"pooler_transform": "pooled_output"}


def random_batch(
    config: AlbertConfig, rng: np.random.Generator
) -> dict[str, tf.Tensor]:
    """Makes two rows of random tokens in two segments, the second row padded.

    Returns:
      `input_ids`, `input_mask`, `segment_ids`, int32 [2, S], and
      `masked_lm_positions`, int32 [2, P].
    """
    length = min(_LENGTH, config.max_position_embeddings)
    ends = np.array([[length], [length - length // 3]])
    positions = np.arange(length)
    batch = {
        "input_ids": rng.integers(0, config.vocab_size, (2, length)),
        "input_mask": positions < ends,
        "segment_ids": (positions >= ends // 2) & (config.type_vocab_size > 1),
        "masked_lm_positions": rng.integers(0, ends, (2, _PREDICTIONS)),
    }
    return {name: tf.constant(value, tf.int32) for name, value in batch.items()}


def outputs(
    stored: StoredWeights, batch: Mapping[str, tf.Tensor]
) -> dict[str, np.ndarray]:
    """Computes the outputs of the encoder, of the masked-LM head and of simple heads.

    Args:
      stored: complete weights of an encoder, and of any heads, with configuration. The
        pooler may be missing if no head needs it.
      batch: from `random_batch`.
    Returns:
      `sequence_output` [B, S, H], `pooled_output` [B, H] if there is a pooler, and
      logits under the scopes of the heads: [B, P, V] of the masked-LM head, else
      [B, C] or [B, S, C].
    """
    config, weights = stored.require_config(), stored.weights
    encoder = AlbertEncoder(config, seed=0)
    missing_ok = f"^{POOLER_PREFIX}" if stored.needs_no_pooler else None
    assign_weights(encoder, stored, missing_ok, unused_ok=HEADS)
    encoded = encoder(batch)
    results = {name: encoded[name].numpy() for name in _OUTPUTS}
    if stored.needs_no_pooler:
        del results["pooled_output"]
    for scope, source in _SIMPLE_HEADS.items():
        if f"{scope}output_weights" in weights:
            logits = results[source] @ weights[f"{scope}output_weights"].T
            results[f"{scope}logits"] = logits + weights[f"{scope}output_bias"]
    if f"{_MASKED_LM}output_bias" in weights:
        head = MaskedLanguageModelHead(config, Initializer(config.initializer_range, 0))
        for variable in head.variables:
            variable.assign(weights[released_name(variable)])
        results[f"{_MASKED_LM}logits"] = head(
            encoded["sequence_output"],
            batch["masked_lm_positions"],
            encoder.embedding_table,
        ).numpy()
    return results


def saved_model_outputs(
    folder: Path, batch: Mapping[str, tf.Tensor]
) -> dict[str, np.ndarray]:
    """Runs a SavedModel or hub module itself.

    Its graph may read and write files with the rights of this process. Its signature
    must take the three inputs of an encoder, under any known names.

    Returns:
      The outputs that have the encoder's names; empty if it cannot be run.
    """
    content = saved_model_pb2.SavedModel.FromString(
        (folder / SAVED_MODEL_FILE).read_bytes()
    )
    all_tags = [list(graph.meta_info_def.tags) for graph in content.meta_graphs]
    tags = next((tags for tags in all_tags if "train" not in tags), [])
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
        # This TensorFlow lacks operations of old hub modules, for instance.
        return {}
    return {}


def without_padding(
    outputs: Mapping[str, np.ndarray], batch: Mapping[str, tf.Tensor]
) -> dict[str, np.ndarray]:
    """Sets `sequence_output` to 0 at padding, where it has no meaning.

    Args:
      outputs: of any encoder; it may lack `sequence_output`.
      batch: the rows.
    """
    mask = batch["input_mask"].numpy()[..., np.newaxis]
    return {
        name: values * mask if name == "sequence_output" else values
        for name, values in outputs.items()
    }


def largest_difference(
    some: Mapping[str, np.ndarray], others: Mapping[str, np.ndarray]
) -> dict[str, float]:
    """The largest absolute difference of each output that both have; may be NaN."""
    return {
        name: float(np.max(np.abs(some[name] - others[name])))
        for name in some
        if name in others
    }


def require_close(differences: Mapping[str, float], compared: str) -> None:
    """Checks the result of `largest_difference`.

    Args:
      differences: name of an output -> largest difference.
      compared: name of what was compared, for the message.
    Raises:
      ValueError: a difference is above `TOLERANCE`, or not a number.
    """
    too_large = {name: d for name, d in differences.items() if not d <= TOLERANCE}
    if too_large:
        name, difference = max(too_large.items(), key=lambda pair: (pair[1], pair[0]))
        raise ValueError(
            f"{compared}: {name} differs by {difference:.3g}, expected at most "
            f"{TOLERANCE:g}. Nothing was written: is the configuration that of the "
            "weights, hidden_act and num_attention_heads included?"
        )
