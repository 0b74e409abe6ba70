"""The tasks' outputs as ONNX graphs: what the task's `answer` gives, texts left out.

Letters in shapes: B rows or questions, C options, S tokens, H hidden, L labels.
"""

from typing import NamedTuple, TypeAlias

import numpy as np

from albert_tf.model.heads import MISSING_LOGIT, PooledHead, TokenHead
from albert_tf.serving import onnx_spans
from albert_tf.serving.base import IDS, ServedModel
from albert_tf.serving.classification import (
    ServedClassifier,
    ServedMultiLabel,
    ServedRegression,
)
from albert_tf.serving.embedding import ServedEmbedding
from albert_tf.serving.encoder import ServedEncoder
from albert_tf.serving.multiple_choice import ServedMultipleChoice
from albert_tf.serving.onnx_encoder import (
    checked_ids,
    checked_mask,
    encode,
    pool,
    project_rows,
    with_tokens,
)
from albert_tf.serving.onnx_graph import Graph
from albert_tf.serving.squad import ServedSquad
from albert_tf.serving.tagging import ServedTagger

Batch: TypeAlias = dict[str, str]
Answers: TypeAlias = dict[str, str]


class _Output(NamedTuple):
    """Type and sizes of an output; a size with a name is free."""

    dtype: type
    dims: tuple[int | str, ...]


def answer_graph(served: ServedModel) -> Graph:
    """Builds the graph of a model: its inputs, all that `answer` does, its outputs."""
    graph = Graph()
    options = ["options"] * (served.ids_rank - 2)
    dims = ["batch", *options, "length"]
    inputs = {name: graph.input(name, dims) for name in IDS}
    batch = checked_ids(graph, inputs)
    batch["input_mask"] = checked_mask(graph, batch["input_mask"])
    if served.ids_rank == 2:
        batch["input_mask"] = with_tokens(
            graph, batch["input_mask"], "rows_must_have_a_token_that_the_mask_shows"
        )
    answers = _answer(graph, served, batch)
    known = _outputs(served)
    for name, value in answers.items():
        graph.output(name, value, *known[name])
    return graph


def _answer(graph: Graph, served: ServedModel, batch: Batch) -> Answers:
    match served:
        case ServedClassifier():
            return _classify(graph, served, batch)
        case ServedMultiLabel():
            return _label(graph, served, batch)
        case ServedRegression():
            logits = _pooled_logits(graph, served, batch)
            return {"values": graph.add("Squeeze", logits, graph.constant([1]))}
        case ServedMultipleChoice():
            return _choose(graph, served, batch)
        case ServedSquad():
            return onnx_spans.find_spans(graph, served, batch)
        case ServedTagger():
            return _tag(graph, served, batch)
        case ServedEmbedding():
            return _vectors(graph, served, batch)
        case ServedEncoder():
            return _embed(graph, served, batch)
    raise TypeError(f"No ONNX graph is known for {type(served).__name__}.")


def _outputs(served: ServedModel) -> dict[str, _Output]:
    """The types of all outputs that a model may have."""
    spans = _Output(np.float32, ("batch", "spans"))
    places, number = spans._replace(dtype=np.int32), _Output(np.float32, ("batch",))
    vector = _Output(np.float32, ("batch", served.config.hidden_size))
    dims = {ServedSquad: "spans", ServedMultipleChoice: "options"}
    classes = dims.get(type(served), "labels")
    probabilities = _Output(np.float32, ("batch", classes))
    if isinstance(served, ServedTagger):
        probabilities = probabilities._replace(dims=("batch", "length", classes))
    return {
        "probabilities": probabilities,
        "threshold": number,
        "thresholds": probabilities,
        "is_label": probabilities._replace(dtype=np.bool_),
        "values": number,
        "choice": number._replace(dtype=np.int32),
        "span_starts": places,
        "span_ends": places,
        "span_scores": spans,
        "null_scores": number,
        "answered": number._replace(dtype=np.bool_),
        "vectors": vector,
        "pooled_output": vector,
        "mean_output": vector,
        "sequence_output": vector._replace(
            dims=("batch", "length", served.config.hidden_size)
        ),
    }


def _pooled_logits(
    graph: Graph, served: ServedModel, batch: Batch, rows: str = "batch"
) -> str:
    """Adds encoder, pooler and head: [B, S] -> [B, L]."""
    encoder = served.model.encoder
    pooled = pool(graph, encoder, encode(graph, encoder, batch, rows))
    head: PooledHead = served.model.head
    return project_rows(graph, pooled, head.output_weights, head.output_bias)


def _classify(graph: Graph, served: ServedClassifier, batch: Batch) -> Answers:
    logits = _pooled_logits(graph, served, batch)
    answers = {"probabilities": graph.add("Softmax", logits, axis=-1)}
    threshold = served.task_config.threshold
    if threshold is not None:
        rows = graph.add("Shape", batch["input_ids"], start=0, end=1)
        value = graph.constant([threshold], np.float32)
        answers["threshold"] = graph.add("Expand", value, rows)
    return answers


def _label(graph: Graph, served: ServedMultiLabel, batch: Batch) -> Answers:
    logits = _pooled_logits(graph, served, batch)
    probabilities = graph.add("Sigmoid", logits)
    values = graph.constant([served.task_config.all_thresholds], np.float32)
    shape = graph.add("Shape", logits)
    thresholds = graph.add("Expand", values, shape)
    return {
        "probabilities": probabilities,
        "thresholds": thresholds,
        "is_label": graph.add("GreaterOrEqual", probabilities, thresholds),
    }


def _choose(graph: Graph, served: ServedMultipleChoice, batch: Batch) -> Answers:
    """Every option becomes a row, [B C, S]."""
    shape = graph.add("Shape", batch["input_ids"], start=0, end=2)
    length = graph.add("Shape", batch["input_ids"], start=2, end=3)
    rows = graph.add("ReduceProd", shape, keepdims=1)
    flat = graph.add("Concat", rows, length, axis=0)
    options = {
        name: graph.add("Reshape", values, flat, allowzero=1)
        for name, values in batch.items()
    }
    logits = _pooled_logits(graph, served, options, rows="rows")
    logits = graph.add("Reshape", logits, shape, allowzero=1)

    tokens = graph.add(
        "ReduceSum", batch["input_mask"], graph.constant([2]), keepdims=0
    )
    tokens = with_tokens(
        graph, tokens, "questions_must_have_an_option_that_the_mask_shows"
    )
    present = graph.add("Greater", tokens, graph.constant(0))
    logits = graph.add(
        "Where", present, logits, graph.constant(MISSING_LOGIT, np.float32)
    )
    choice = graph.add("ArgMax", logits, axis=1, keepdims=0)
    return {
        "probabilities": graph.add("Softmax", logits, axis=-1),
        "choice": graph.cast(choice, np.int32),
    }


def _tag(graph: Graph, served: ServedTagger, batch: Batch) -> Answers:
    sequence = encode(graph, served.model.encoder, batch)
    head: TokenHead = served.model.head
    logits = project_rows(graph, sequence, head.output_weights, head.output_bias)
    probabilities = graph.add("Softmax", logits, axis=-1)
    mask = graph.cast(batch["input_mask"], np.float32)
    mask = graph.add("Unsqueeze", mask, graph.constant([2]))
    return {"probabilities": graph.add("Mul", probabilities, mask)}


def _vectors(graph: Graph, served: ServedEmbedding, batch: Batch) -> Answers:
    embedded = _embed(graph, served, batch)
    pooling = served.task_config.pooling
    if pooling == "first":
        first = graph.constant(0)
        vectors = graph.add("Gather", embedded["sequence_output"], first, axis=1)
    else:
        vectors = embedded[f"{pooling}_output"]
    if served.task_config.normalize:
        vectors = graph.add("LpNormalization", vectors, axis=-1, p=2)
    return {"vectors": vectors}


def _embed(
    graph: Graph, served: ServedEncoder | ServedEmbedding, batch: Batch
) -> Answers:
    encoder = served.model.encoder
    sequence = encode(graph, encoder, batch)
    mask = graph.cast(batch["input_mask"], np.float32)
    mask = graph.add("Unsqueeze", mask, graph.constant([2]))
    tokens = graph.constant([1])
    visible = graph.add("Mul", sequence, mask)
    total = graph.add("ReduceSum", visible, tokens, keepdims=0)
    count = graph.add("ReduceSum", mask, tokens, keepdims=0)
    count = graph.add("Max", count, graph.constant(1, np.float32))
    return {
        "pooled_output": pool(graph, encoder, sequence),
        # 0 at padding, as the model has it.
        "sequence_output": visible,
        "mean_output": graph.add("Div", total, count),
    }
