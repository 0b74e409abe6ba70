"""The encoder as an ONNX graph, of the operations that runtimes have fast kernels for.

Layers that share a block share its weights, which are stored once. ONNX has no
assertions, so that ids are refused by operations that fail: their names say the reason,
and onnxruntime prints them.

Letters in shapes: B batch, S sequence, E embedding, H hidden, N heads, D width of a
head.
"""

import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.model.blocks import FeedForward, SelfAttention
from albert_tf.model.documents import MASKED_LOGIT
from albert_tf.model.encoder import AlbertEncoder, FactorizedEmbedding
from albert_tf.model.kernels import LAYER_NORM_EPSILON
from albert_tf.model.layers import LayerNorm, Projection
from albert_tf.serving.base import IDS
from albert_tf.serving.onnx_graph import Graph

# An index that is in no table.
_NO_INDEX = 2**31 - 1
# Value of `hidden_act` -> operation and attributes.
_ACTIVATIONS: dict[str, tuple[str, dict[str, str]]] = {
    "gelu": ("Gelu", {"approximate": "tanh"}),
    "gelu_erf": ("Gelu", {}),
    "relu": ("Relu", {}),
    "tanh": ("Tanh", {}),
}


def checked_ids(graph: Graph, batch: dict[str, str]) -> dict[str, str]:
    """Refuses inputs of different shapes, and marks negative values, which a table
    would otherwise take as places from its end.

    Args:
      graph: the graph.
      batch: `IDS`, int64 of any rank.
    """
    first = graph.constant([0])
    stacked = graph.add(
        "Concat",
        *(graph.add("Unsqueeze", batch[name], first) for name in IDS),
        axis=0,
        name="inputs_must_have_one_shape",
    )
    is_negative = graph.add("Less", stacked, graph.constant(0))
    marked = graph.add("Where", is_negative, graph.constant(_NO_INDEX), stacked)
    parts = graph.add_several(
        "Split", marked, outputs=len(IDS), axis=0, num_outputs=len(IDS)
    )
    squeezed = (graph.add("Squeeze", part, first) for part in parts)
    return dict(zip(IDS, squeezed, strict=True))


def checked_mask(graph: Graph, mask: str) -> str:
    """Refuses a mask of other values than 0 and 1."""
    return graph.add(
        "Gather", graph.constant([0, 1]), mask, name="input_mask_must_be_0_or_1"
    )


def with_tokens(graph: Graph, counts: str, reason: str) -> str:
    """Refuses counts of tokens, or masks, whose rows have no token at all.

    Args:
      graph: the graph.
      counts: int64 [B, ...], two axes, none negative.
      reason: name of the operation that fails.
    Returns:
      The counts as they are.
    """
    count = graph.add("ReduceSum", counts, graph.constant([1]), keepdims=1)
    is_empty = graph.cast(graph.add("Equal", count, graph.constant(0)), np.int64)
    # Adds 0, or fails.
    nothing = graph.add("Gather", graph.constant([0]), is_empty, name=reason)
    return graph.add("Add", counts, nothing)


def encode(
    graph: Graph, encoder: AlbertEncoder, batch: dict[str, str], rows: str = "batch"
) -> str:
    """Adds embeddings and all layers.

    Args:
      graph: the graph.
      encoder: the encoder, with its weights.
      batch: `checked_ids` of [B, S], the mask checked as well.
      rows: name of the size B.
    Returns:
      The sequence output, float32 [B, S, H].
    """
    config = encoder.config
    hidden = _embed(graph, encoder.embeddings, config, batch)
    # From these sizes onnxruntime infers that the summands of each residual have one
    # shape, and makes one operation of bias, residual and LayerNorm.
    graph.describe(hidden, [rows, "length", config.embedding_size])
    if encoder.embedding_projection is not None:
        hidden = project(graph, encoder.embedding_projection, hidden)
    logits = graph.constant([MASKED_LOGIT, 0], np.float32)
    mask_logits = graph.add("Gather", logits, batch["input_mask"])
    mask_logits = graph.add("Unsqueeze", mask_logits, graph.constant([1, 2]))
    graph.describe(mask_logits, [rows, 1, 1, "length"])
    for layer in encoder.blocks:
        for block in layer:
            hidden = _attend(graph, block.attention, config, hidden, mask_logits)
            hidden = _feed_forward(graph, block.feed_forward, config, hidden)
    return hidden


def pool(graph: Graph, encoder: AlbertEncoder, sequence: str) -> str:
    """Adds the pooler: float32 [B, S, H] -> [B, H]."""
    first = first_token(graph, sequence)
    return project(graph, encoder.pooler, first, "tanh")


def first_token(graph: Graph, sequence: str) -> str:
    """The vectors of [CLS]: [B, S, H] -> [B, H]."""
    return graph.add("Gather", sequence, graph.constant(0), axis=1)


def project(
    graph: Graph, projection: Projection, inputs: str, activation: str = "linear"
) -> str:
    """Adds a projection of the last axis, and an activation."""
    kernel, bias = graph.weight(projection.kernel), graph.weight(projection.bias)
    outputs = graph.add("Add", graph.add("MatMul", inputs, kernel), bias)
    if activation == "linear":
        return outputs
    operation, attributes = _ACTIVATIONS[activation]
    return graph.add(operation, outputs, **attributes)


def project_rows(
    graph: Graph, inputs: str, weights: tf.Variable, bias: tf.Variable
) -> str:
    """Adds a projection of vectors by released weights of a head, [out, in]."""
    kernel = graph.add("Transpose", graph.weight(weights), perm=[1, 0])
    return graph.add("Add", graph.add("MatMul", inputs, kernel), graph.weight(bias))


def normalize(graph: Graph, layer_norm: LayerNorm, inputs: str) -> str:
    """Adds a layer normalization of the last axis."""
    gamma, beta = graph.weight(layer_norm.gamma), graph.weight(layer_norm.beta)
    return graph.add(
        "LayerNormalization", inputs, gamma, beta, axis=-1, epsilon=LAYER_NORM_EPSILON
    )


def _embed(
    graph: Graph,
    embeddings: FactorizedEmbedding,
    config: AlbertConfig,
    batch: dict[str, str],
) -> str:
    """Looks up and adds token, segment and position embeddings, [B, S, E]."""

    def look_up(table: tf.Variable, index: str, reason: str) -> str:
        return graph.add("Gather", graph.weight(table), index, name=reason)

    zero, one = graph.constant(0), graph.constant(1)
    length = graph.add("Shape", batch["input_ids"], start=1, end=2)
    length = graph.add("Squeeze", length)
    positions = graph.add("Range", zero, length, one)
    # Adds 0, unless there is no position.
    start = graph.add("Gather", positions, zero, name="rows_must_have_a_token")
    positions = graph.add("Add", positions, start)
    tokens = look_up(
        embeddings.word_embeddings,
        batch["input_ids"],
        f"input_ids_must_be_in_0_to_{config.vocab_size - 1}",
    )
    segments = look_up(
        embeddings.token_type_embeddings,
        batch["segment_ids"],
        f"segment_ids_must_be_in_0_to_{config.type_vocab_size - 1}",
    )
    places = look_up(
        embeddings.position_embeddings,
        positions,
        f"rows_must_have_at_most_{config.max_position_embeddings}_tokens",
    )
    embedded = graph.add("Add", graph.add("Add", tokens, segments), places)
    return normalize(graph, embeddings.layer_norm, embedded)


def _attend(
    graph: Graph,
    attention: SelfAttention,
    config: AlbertConfig,
    hidden: str,
    mask_logits: str,
) -> str:
    """Adds self-attention with residual and LayerNorm: [B, S, H] -> [B, S, H]."""
    heads = config.num_attention_heads
    width = config.hidden_size // heads
    # A 0 keeps the size of the input.
    split = graph.constant([0, 0, heads, width])

    def heads_of(projection: Projection, order: list[int]) -> str:
        parts = graph.add("Reshape", project(graph, projection, hidden), split)
        return graph.add("Transpose", parts, perm=order)

    query = heads_of(attention.query, [0, 2, 1, 3])
    key = heads_of(attention.key, [0, 2, 3, 1])
    value = heads_of(attention.value, [0, 2, 1, 3])
    logits = graph.add("MatMul", query, key)
    logits = graph.add("Mul", logits, graph.constant(width**-0.5, np.float32))
    logits = graph.add("Add", logits, mask_logits)
    probabilities = graph.add("Softmax", logits, axis=-1)
    context = graph.add("MatMul", probabilities, value)
    context = graph.add("Transpose", context, perm=[0, 2, 1, 3])
    joined = graph.constant([0, 0, config.hidden_size])
    context = graph.add("Reshape", context, joined)
    output = project(graph, attention.output_projection, context)
    return normalize(graph, attention.layer_norm, graph.add("Add", output, hidden))


def _feed_forward(
    graph: Graph, feed_forward: FeedForward, config: AlbertConfig, hidden: str
) -> str:
    """Adds two projections with residual and LayerNorm: [B, S, H] -> [B, S, H]."""
    inner = project(graph, feed_forward.intermediate, hidden, config.hidden_act)
    output = project(graph, feed_forward.output_projection, inner)
    return normalize(graph, feed_forward.layer_norm, graph.add("Add", output, hidden))
