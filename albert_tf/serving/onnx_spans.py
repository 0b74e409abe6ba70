"""SQuAD as ONNX graphs: the heads, and the best spans first.

It does what `model.span_heads`, `tasks.span_losses` and `serving.squad` do.

Letters in shapes: B rows, S tokens, H hidden, K spans, N starts of a beam.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from albert_tf.model.span_heads import NO_SPAN_SCORE, AnswerableSpanModel, SpanModel
from albert_tf.serving.onnx_encoder import (
    encode,
    first_token,
    normalize,
    project,
    project_rows,
)
from albert_tf.serving.onnx_graph import Graph
from albert_tf.serving.squad import ServedSquad
from albert_tf.task_config import Squad
from albert_tf.tasks.answers import NO_SCORE

_Values: TypeAlias = dict[str, str]


class _Window(NamedTuple):
    """The places where answers may be.

    Attributes:
      columns: numbers of the tokens, int64 [S].
      last: the last of them.
      inside: int64 [B, S], 1 for the window's tokens, else 0.
      allowed: int64 [B, S], 1 where a span may start or end: in the window, or [CLS].
    """

    columns: str
    last: str
    inside: str
    allowed: str


class _Spans(NamedTuple):
    """Spans and their scores, each [B, K]."""

    starts: str
    ends: str
    scores: str


def find_spans(graph: Graph, served: ServedSquad, batch: _Values) -> _Values:
    """Adds the encoder, the head and the choice of spans.

    Args:
      graph: the graph.
      served: the model.
      batch: checked ids, int64 [B, S].
    Returns:
      The outputs that `ServedSquad` lists.
    """
    task_config, model = served.task_config, served.model
    sequence = encode(graph, model.encoder, batch)
    window = _find_window(graph, batch)
    if not task_config.version_2:
        spans = _all_spans(graph, model, task_config, sequence, window)
        return _valid_first(graph, task_config, window, spans)
    spans, null_scores = _beams(graph, model, task_config, sequence, window)
    threshold = graph.constant(task_config.threshold, np.float32)
    shape = graph.add("Shape", null_scores)
    return {
        **_valid_first(graph, task_config, window, spans),
        "null_scores": null_scores,
        "threshold": graph.add("Expand", threshold, shape),
        "answered": graph.add("Less", null_scores, threshold),
    }


def _find_window(graph: Graph, batch: _Values) -> _Window:
    """Finds the second segment without its [SEP]."""
    zero, one, mask = graph.constant(0), graph.constant(1), batch["input_mask"]
    length = graph.add("Squeeze", graph.add("Shape", mask, start=1, end=2))
    columns = graph.add("Range", zero, length, one)
    tokens = graph.add("ReduceSum", mask, graph.constant([1]), keepdims=1)
    is_before = graph.add("Less", columns, graph.add("Sub", tokens, one))
    inside = graph.add("Mul", batch["segment_ids"], mask)
    inside = graph.add("Mul", inside, graph.cast(is_before, np.int64))
    # As in training, [CLS] is allowed: it stands for no answer.
    is_first = graph.add("Equal", columns, zero)
    allowed = graph.add("Where", is_first, one, inside)
    allowed = graph.add("Mul", mask, allowed)
    return _Window(columns, graph.add("Sub", length, one), inside, allowed)


def _all_spans(
    graph: Graph,
    model: SpanModel,
    task_config: Squad,
    sequence: str,
    window: _Window,
) -> _Spans:
    """v1.1: the best of all spans, those of one token, of two and so on."""
    longest = graph.constant(task_config.max_answer_length)
    logits = project_rows(graph, sequence, model.output_weights, model.output_bias)
    start_logits, end_logits = graph.add_several(
        "Split", logits, outputs=2, axis=2, num_outputs=2
    )
    last_axis = graph.constant([2])
    inside = graph.add("Unsqueeze", window.inside, last_axis)
    starts = _masked(graph, inside, start_logits)
    ends = graph.add("Squeeze", end_logits, last_axis)
    ends = _masked(graph, window.allowed, ends)
    ends = _padded(graph, ends, 2, graph.constant([task_config.max_answer_length - 1]))
    lengths = graph.constant(np.arange(task_config.max_answer_length))
    columns = graph.add("Unsqueeze", window.columns, graph.constant([1]))
    ends = graph.add("Gather", ends, graph.add("Add", columns, lengths), axis=1)
    sums = graph.add("Flatten", graph.add("Add", starts, ends), axis=1)
    scores, indices = _top_k(graph, sums, 2, task_config.n_best_size)
    first = graph.add("Div", indices, longest)
    more = graph.add("Mod", indices, longest)
    return _Spans(first, graph.add("Add", first, more), scores)


def _beams(
    graph: Graph,
    model: AnswerableSpanModel,
    task_config: Squad,
    sequence: str,
    window: _Window,
) -> tuple[_Spans, str]:
    """v2.0: the best ends of the best starts, and the null scores [B]."""
    last_axis = graph.constant([2])
    logits = graph.add("Squeeze", _score(graph, model.start, sequence), last_axis)
    logits = _masked(graph, window.allowed, logits)
    start_log_probs = graph.add("LogSoftmax", logits, axis=-1)
    null_scores = _null_scores(graph, model, sequence, start_log_probs)
    start_scores, starts = _top_k(graph, start_log_probs, 2, task_config.start_n_top)
    # If there are fewer positions than beams, the last one fills the others.
    starts = graph.add("Min", starts, window.last)
    end_log_probs = _ends(graph, model, sequence, starts, window.allowed)
    end_scores, ends = _top_k(graph, end_log_probs, 3, task_config.end_n_top)
    start_scores = graph.add("Unsqueeze", start_scores, last_axis)
    starts = graph.add("Unsqueeze", starts, last_axis)
    repeats = graph.constant(np.zeros(task_config.end_n_top))
    beams = (
        graph.add("Add", starts, repeats),
        ends,
        graph.add("Add", start_scores, end_scores),
    )
    return _Spans(*(graph.add("Flatten", b, axis=1) for b in beams)), null_scores


def _ends(
    graph: Graph, model: AnswerableSpanModel, sequence: str, starts: str, allowed: str
) -> str:
    """Log probabilities of ends, [B, N, S], given starts, [B, N]."""
    head, axis = model.end, graph.constant([2])
    indices = graph.add("Unsqueeze", starts, axis)
    features = graph.add("GatherND", sequence, indices, batch_dims=1)
    of_token, of_start = graph.add_several(
        "Split", graph.weight(head.kernel), outputs=2, axis=0, num_outputs=2
    )
    tokens = graph.add("MatMul", sequence, of_token)
    tokens = graph.add("Add", tokens, graph.weight(head.bias))
    tokens = graph.add("Unsqueeze", tokens, graph.constant([1]))
    given = graph.add("Unsqueeze", graph.add("MatMul", features, of_start), axis)
    joint = graph.add("Tanh", graph.add("Add", tokens, given))
    joint = normalize(graph, head.layer_norm, joint)
    logits = graph.add("Squeeze", _score(graph, head.score, joint), graph.constant([3]))
    allowed = graph.add("Unsqueeze", allowed, graph.constant([1]))
    return graph.add("LogSoftmax", _masked(graph, allowed, logits), axis=-1)


def _null_scores(
    graph: Graph, model: AnswerableSpanModel, sequence: str, start_log_probs: str
) -> str:
    """Logits that there is no answer, [B], from [CLS] and the expected start."""
    middle = graph.constant([1])
    probabilities = graph.add("Exp", start_log_probs)
    probabilities = graph.add("Unsqueeze", probabilities, middle)
    start = graph.add("MatMul", probabilities, sequence)
    start = graph.add("Squeeze", start, middle)
    features = graph.add("Concat", start, first_token(graph, sequence), axis=1)
    features = project(graph, model.answerable.dense, features, "tanh")
    weights = graph.weight(model.answerable.output_weights)
    return graph.add("Squeeze", graph.add("MatMul", features, weights), middle)


def _score(graph: Graph, layer: Any, vectors: str) -> str:
    """One number for each vector: [..., H] -> [..., 1]."""
    product = graph.add("MatMul", vectors, graph.weight(layer.kernel))
    return graph.add("Add", product, graph.weight(layer.bias))


def _valid_first(
    graph: Graph, task_config: Squad, window: _Window, found: _Spans
) -> _Values:
    """Moves spans that cannot be answers behind all others."""
    one = graph.constant(1)
    starts = graph.add("Min", found.starts, window.last)
    ends = graph.add("Min", found.ends, window.last)
    length = graph.add("Add", graph.add("Sub", ends, starts), one)
    longest = graph.constant(task_config.max_answer_length)
    no_score = graph.constant(NO_SCORE, np.float32)
    checks = [
        graph.add("GreaterOrEqual", length, one),
        graph.add("LessOrEqual", length, longest),
        graph.add("Greater", found.scores, no_score),
    ]
    for places in (starts, ends):
        inside = graph.add("GatherElements", window.inside, places, axis=1)
        checks.append(graph.add("Equal", inside, one))
    valid = checks[0]
    for check in checks[1:]:
        valid = graph.add("And", valid, check)
    scores = graph.add("Where", valid, found.scores, no_score)
    count = task_config.n_best_size
    if task_config.version_2:
        count = task_config.start_n_top * task_config.end_n_top
    scores, order = graph.add_several(
        "TopK", scores, graph.constant([count]), outputs=2, axis=-1
    )

    def in_order(values: str, dtype: Any) -> str:
        return graph.cast(graph.add("GatherElements", values, order, axis=1), dtype)

    has_score = in_order(graph.cast(valid, np.float32), np.float32)
    probabilities = graph.add("Softmax", scores, axis=-1)
    return {
        "span_starts": in_order(starts, np.int32),
        "span_ends": in_order(ends, np.int32),
        "span_scores": scores,
        "probabilities": graph.add("Mul", probabilities, has_score),
    }


def _masked(graph: Graph, allowed: str, scores: str) -> str:
    """Scores where `allowed` is 1, otherwise -1e30."""
    no_score = graph.constant(NO_SPAN_SCORE, np.float32)
    is_allowed = graph.add("Equal", allowed, graph.constant(1))
    return graph.add("Where", is_allowed, scores, no_score)


def _padded(graph: Graph, scores: str, rank: int, count: str) -> str:
    """Adds `count` scores, int64 [1], of -1e30 at the end of the last axis."""
    others = graph.constant([0] * (2 * rank - 1))
    pads = graph.add("Concat", others, count, axis=0)
    return graph.add("Pad", scores, pads, graph.constant(NO_SPAN_SCORE, np.float32))


def _top_k(graph: Graph, scores: str, rank: int, count: int) -> list[str]:
    """The best `count` of the last axis, and their indices; -1e30 fills up."""
    wanted = graph.constant([count])
    missing = graph.add("Sub", wanted, graph.add("Shape", scores, start=-1))
    missing = graph.add("Max", missing, graph.constant([0]))
    padded = _padded(graph, scores, rank, missing)
    return graph.add_several("TopK", padded, wanted, outputs=2, axis=-1)
