"""The costs of a model, without running it: parameters, operations, activations.

Parameters and activations are counted on the model's own graph, in which no weight is
allocated, so they follow the code. Operations are the products of matrices, by formula.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from albert_tf.config import AlbertConfig
from albert_tf.model.heads import PretrainingModel
from albert_tf.model.precision import precision_policy

# The parts of `parameter_counts` that are heads; the paper counts none of them.
HEADS = ("masked-LM head", "sentence-order head")
# Operations whose outputs are their inputs, in the same memory.
_VIEWS = {"Reshape", "Identity", "IdentityN", "Squeeze", "ExpandDims", "StopGradient"}


def parameter_counts(config: AlbertConfig) -> dict[str, int]:
    """Part of a pretraining model -> number of its trainable parameters.

    The part "embeddings" includes the projection to H; the masked-LM head does not
    include the table that it shares with the embeddings.
    """
    with tf.Graph().as_default():
        model = PretrainingModel(config, seed=0)
    encoder = model.encoder
    blocks = [block for layer in encoder.blocks for block in layer]
    parts: dict[str, list[tf_keras.layers.Layer | None]] = {
        "embeddings": [encoder.embeddings, encoder.embedding_projection],
        "attention": [block.attention for block in blocks],
        "feed-forward": [block.feed_forward for block in blocks],
        "pooler": [encoder.pooler],
        "masked-LM head": [model.masked_lm],
        "sentence-order head": [model.sentence_order],
    }
    return {part: _count_parameters(layers) for part, layers in parts.items()}


def _count_parameters(layers: Iterable[tf_keras.layers.Layer | None]) -> int:
    """Number of trainable parameters; layers that occur several times count once."""
    variables = {
        variable.ref(): variable
        for layer in layers
        if layer is not None
        for variable in layer.trainable_variables
    }
    return sum(variable.shape.num_elements() for variable in variables.values())


def forward_operations(config: AlbertConfig, length: int, predictions: int) -> int:
    """Floating-point operations of one row's forward pass.

    A multiplication and an addition count as two. Only products of matrices are
    counted: the rest is below one percent in the paper's models. A training step needs
    three times as many.

    Args:
      config: the model's configuration.
      length: S, tokens in a row.
      predictions: P, masked tokens that are predicted.
    """
    embedding, hidden = config.embedding_size, config.hidden_size
    blocks = config.num_hidden_layers * config.inner_group_num
    projections = 4 * hidden**2 + 2 * hidden * config.intermediate_size
    # Logits and the weighted sum: each of S positions with S others, over H; or with
    # the three blocks of its window, and the global tokens.
    seen = length
    if config.attention_window and length > config.attention_window + 1:
        first = config.global_attention_tokens or 0
        seen = 3 * config.attention_window + 2 * first
    attention = 2 * seen * hidden
    products = length * blocks * (projections + attention)
    products += length * config.type_vocab_size * embedding
    if config.has_embedding_projection:
        products += length * embedding * hidden
    products += hidden**2 + 2 * hidden
    products += predictions * embedding * (hidden + config.vocab_size)
    return 2 * products


def activation_bytes(
    config: AlbertConfig,
    length: int,
    predictions: int,
    precision: str = "float32",
    rematerialize: str = "none",
) -> int:
    """Bytes that the forward pass of one row keeps for the backward pass.

    An upper bound for XLA, which computes cheap values again. Weights, their gradients
    and memory that is used inside one operation are not counted. All layers keep the
    same, shared or not, so the bytes of any depth follow from those of two.

    Args:
      config: the model's configuration.
      length: S, tokens in a row.
      predictions: P, masked tokens that are predicted.
      precision: as `TrainConfig.precision`.
      rematerialize: as `TrainConfig.rematerialize`.
    Raises:
      ValueError: rows longer than the model takes.
    """
    if length > config.max_position_embeddings:
        raise ValueError(
            f"Rows of {length} tokens exceed max_position_embeddings, "
            f"{config.max_position_embeddings}: lower --max_seq_length."
        )
    # Layers that are not shared are traced into one graph.
    unset = {"attention_groups": None, "ffn_groups": None}
    one, two = (
        traced_activation_bytes(
            config.replace(num_hidden_layers=layers, num_hidden_groups=layers, **unset),
            length,
            predictions,
            precision,
            rematerialize,
        )
        for layers in (1, 2)
    )
    return one + (config.num_hidden_layers - 1) * (two - one)


def traced_activation_bytes(
    config: AlbertConfig,
    length: int,
    predictions: int,
    precision: str = "float32",
    rematerialize: str = "none",
) -> int:
    """As `activation_bytes`, but traced at the model's own depth, which takes longer.

    Args:
      config: a configuration whose layers share nothing.
      length: S, tokens in a row.
      predictions: P, masked tokens that are predicted.
      precision: as `TrainConfig.precision`.
      rematerialize: as `TrainConfig.rematerialize`.
    """
    specs = {
        name: tf.TensorSpec([1, length], tf.int32)
        for name in ("input_ids", "input_mask", "segment_ids")
    }
    specs["masked_lm_positions"] = tf.TensorSpec([1, predictions], tf.int32)
    with tf.Graph().as_default():
        with precision_policy(precision):
            model = PretrainingModel(config, seed=0, rematerialize=rematerialize)
        boundary = []

        @tf.function(input_signature=[specs], autograph=False)
        def gradients(batch):
            with tf.GradientTape() as tape:
                outputs = model(batch, training=True, dropout_seed=tf.constant([0, 1]))
                loss = tf.add_n([tf.reduce_sum(o) for o in outputs.values()])
            boundary.append(len(tf.compat.v1.get_default_graph().get_operations()))
            return tape.gradient(loss, model.trainable_variables)

        graph = gradients.get_concrete_function().graph
    inputs = [tensor for tensor in graph.inputs if tensor.dtype == tf.int32]
    return bytes_across(graph.get_operations(), boundary[0], inputs)


def bytes_across(
    operations: Sequence[Any], boundary: int, inputs: Iterable[tf.Tensor]
) -> int:
    """Bytes of tensors that one part of a graph makes and the rest reads.

    Only tensors that depend on the inputs count; a tensor and its views count once.

    Args:
      operations: of a graph, in the order of their creation.
      boundary: number of operations in the first part.
      inputs: the graph's inputs.
    """
    depend = {tensor.ref() for tensor in inputs}
    source: dict[Any, Any] = {}
    for operation in operations[:boundary]:
        if not any(tensor.ref() in depend for tensor in operation.inputs):
            continue
        depend.update(tensor.ref() for tensor in operation.outputs)
        if operation.type in _VIEWS:
            views = zip(operation.outputs, operation.inputs, strict=False)
            for view, viewed in views:
                source[view.ref()] = source.get(viewed.ref(), viewed.ref())
    before = {id(operation) for operation in operations[:boundary]}
    kept = {
        source.get(tensor.ref(), tensor.ref())
        for operation in operations[boundary:]
        for tensor in operation.inputs
        if id(tensor.op) in before and tensor.ref() in depend
    }
    tensors = [reference.deref() for reference in kept]
    return sum(t.shape.num_elements() * t.dtype.size for t in tensors)
