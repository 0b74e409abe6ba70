"""What a model costs before anyone runs it: parameters, operations, activations.

Parameters and activations are read off the model's own graph, in which no weight is
ever allocated, so that they follow the code; operations are the products of matrices,
by formula.
"""

import tensorflow as tf
import tf_keras
from official.modeling import performance

from albert_tf.config import AlbertConfig
from albert_tf.model.heads import PretrainingModel

# A part of the model -> what the names of its weights start with, or hold.
_PARTS = {
    "embeddings": ("bert/embeddings/", "bert/encoder/embedding_hidden_mapping_in/"),
    "attention": ("/attention_1/", "/LayerNorm/"),
    "feed-forward": ("/ffn_1/", "/LayerNorm_1/"),
    "pooler": ("bert/pooler/",),
    "masked-LM head": ("cls/predictions/",),
    "sentence-order head": ("cls/seq_relationship/",),
}
# What the heads' parameters are; the paper counts none of them.
HEADS = ("masked-LM head", "sentence-order head")
# Operations whose outputs are their inputs, in the same memory.
_VIEWS = {"Reshape", "Identity", "IdentityN", "Squeeze", "ExpandDims", "StopGradient"}


def parameter_counts(config: AlbertConfig) -> dict[str, int]:
    """Trainable parameters of a pretraining model, a part each.

    The embeddings' part holds the projection to H as well; the masked-LM head is
    without the table that it shares with the embeddings.
    """
    with tf.Graph().as_default():
        variables = PretrainingModel(config, seed=0).trainable_variables
    counts = dict.fromkeys(_PARTS, 0)
    for variable in variables:
        counts[_part(variable.name)] += variable.shape.num_elements()
    return counts


def forward_operations(config: AlbertConfig, length: int, predictions: int) -> int:
    """Floating-point operations of one row's forward pass, a multiplication and an
    addition counted as two.

    Products of matrices alone: the rest is under one in a hundred in the paper's
    models. A training step needs three times as many.

    Args:
      config: the model's shape.
      length: S, pieces in a row.
      predictions: P, masked pieces that are scored.
    """
    embedding, hidden = config.embedding_size, config.hidden_size
    blocks = config.num_hidden_layers * config.inner_group_num
    projections = 4 * hidden**2 + 2 * hidden * config.intermediate_size
    # Logits and the weighted sum: each of S positions with S others, over H.
    attention = 2 * length * hidden
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
    """Bytes that the forward pass of one row leaves for the backward pass.

    An upper bound for XLA, which computes cheap values again. Neither weights and
    their gradients nor what lives inside one operation is counted.

    Args:
      config: the model's shape.
      length: S, pieces in a row.
      predictions: P, masked pieces that are scored.
      precision: as `TrainConfig.precision`.
      rematerialize: as `TrainConfig.rematerialize`.
    Raises:
      ValueError: rows longer than the model takes.
    """
    if length > config.max_position_embeddings:
        raise ValueError(
            f"Rows of {length} pieces exceed max_position_embeddings, "
            f"{config.max_position_embeddings}: lower --max_seq_length."
        )
    # All layers keep the same, shared or not, so that two depths tell the third. Not
    # shared they are traced into one graph.
    unset = {"attention_groups": None, "ffn_groups": None}
    one, two = (
        _kept_bytes(
            config.replace(num_hidden_layers=layers, num_hidden_groups=layers, **unset),
            (length, predictions),
            precision,
            rematerialize,
        )
        for layers in (1, 2)
    )
    return one + (config.num_hidden_layers - 1) * (two - one)


def _part(name: str) -> str:
    for part, marks in _PARTS.items():
        in_stack = "/transformer/" in name
        if any(m in name if in_stack else name.startswith(m) for m in marks):
            return part
    raise ValueError(f"The weight {name} belongs to no known part of a model.")


def _kept_bytes(config, sizes, precision, rematerialize) -> int:
    """Bytes of the forward pass' results that the backward pass reads, as traced."""
    length, predictions = sizes
    specs = {
        name: tf.TensorSpec([1, length], tf.int32)
        for name in ("input_ids", "input_mask", "segment_ids")
    }
    specs["masked_lm_positions"] = tf.TensorSpec([1, predictions], tf.int32)
    with tf.Graph().as_default():
        previous = tf_keras.mixed_precision.global_policy()
        performance.set_mixed_precision_policy(tf.as_dtype(precision))
        try:
            model = PretrainingModel(config, seed=0, rematerialize=rematerialize)
        finally:
            tf_keras.mixed_precision.set_global_policy(previous)
        boundary = []

        @tf.function(input_signature=[specs])
        def gradients(batch):
            with tf.GradientTape() as tape:
                outputs = model(batch, training=True, dropout_seed=tf.constant([0, 1]))
                loss = tf.add_n([tf.reduce_sum(o) for o in outputs.values()])
            boundary.append(len(tf.compat.v1.get_default_graph().get_operations()))
            return tape.gradient(loss, model.trainable_variables)

        graph = gradients.get_concrete_function().graph
    inputs = {tensor.ref() for tensor in graph.inputs if tensor.dtype == tf.int32}
    return _bytes_across(graph.get_operations(), boundary[0], inputs)


def _bytes_across(operations, boundary: int, inputs) -> int:
    """Bytes of tensors that depend on the inputs, made before the boundary and read
    after it; a tensor and its views count once."""
    depend, source = set(inputs), {}
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
