"""Losses and predictions of question answering.

Letters in shapes: B batch, S sequence, K spans of a row.
"""

from collections.abc import Callable

import tensorflow as tf

from albert_tf.model.span_heads import (
    NO_SPAN_SCORE,
    mask_scores,
    may_answer,
    top_k_padded,
)
from albert_tf.tasks.base import Tensors


def span_loss(outputs: Tensors, batch: Tensors) -> tf.Tensor:
    """Mean cross-entropy of start and end over the tokens of a row (v1.1).

    The question's tokens take part in the softmax, as in the original.

    Args:
      outputs: `start_logits`, `end_logits` float32 [B, S].
      batch: `input_mask` int32 [B, S]; `start_positions`, `end_positions` int32 [B].
    Returns:
      float32 [B].
    """
    losses = [
        tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=batch[f"{name}_positions"],
            logits=mask_scores(batch["input_mask"], outputs[f"{name}_logits"]),
        )
        for name in ("start", "end")
    ]
    return (losses[0] + losses[1]) / 2


def best_spans(
    n_best_size: int, max_answer_length: int
) -> Callable[[Tensors, Tensors], dict[str, tf.Tensor]]:
    """Makes a function that finds the K = `n_best_size` best spans of each row.

    It compares all spans that may be an answer, so that a row with a token of the
    paragraph always has one. The original combines only the best starts with the best
    ends, and has no span where none of these pairs is valid.

    The function takes outputs, `start_logits` and `end_logits` float32 [B, S], and a
    batch, `input_mask`, `p_mask` and `token_is_max_context` int32 [B, S]. It returns
    `span_starts` and `span_ends` int32 [B, K], inclusive positions, and `span_scores`
    float32 [B, K], sums of two logits, best first; scores near -1e30 mark spans that
    may not be chosen.
    """

    def find_spans(outputs: Tensors, batch: Tensors) -> dict[str, tf.Tensor]:
        starts = mask_scores(batch["token_is_max_context"], outputs["start_logits"])
        ends = mask_scores(may_answer(batch), outputs["end_logits"])
        length = tf.shape(starts)[1]
        # The scores of the answers of 1, 2, ... tokens that start at each position.
        padded = tf.pad(
            ends, [[0, 0], [0, max_answer_length - 1]], constant_values=NO_SPAN_SCORE
        )
        sums = [starts + padded[:, i : i + length] for i in range(max_answer_length)]
        scores = tf.reshape(tf.stack(sums, axis=-1), [-1, length * max_answer_length])
        scores, indices = top_k_padded(scores, n_best_size)
        span_starts = indices // max_answer_length
        return {
            "span_starts": span_starts,
            "span_ends": span_starts + indices % max_answer_length,
            "span_scores": scores,
        }

    return find_spans


def conditional_span_loss(outputs: Tensors, batch: Tensors) -> tf.Tensor:
    """Mean of minus log probability of the start, and of the end given it (v2.0).

    Windows without an answer train on position 0, as in the original.

    Args:
      outputs: `start_log_probs`, `end_log_probs` float32 [B, S].
      batch: `start_positions`, `end_positions` int32 [B].
    Returns:
      float32 [B].
    """
    log_probs = [
        tf.gather(outputs[f"{n}_log_probs"], batch[f"{n}_positions"], batch_dims=1)
        for n in ("start", "end")
    ]
    return -(log_probs[0] + log_probs[1]) / 2


def half_answerability_loss(outputs: Tensors, batch: Tensors) -> tf.Tensor:
    """Half the cross-entropy of `is_impossible`, its part in v2.0's loss; float32 [B].

    Args:
      outputs: `no_answer_logits` float32 [B].
      batch: `is_impossible` int32 [B].
    """
    labels = tf.cast(batch["is_impossible"], tf.float32)
    return 0.5 * tf.nn.sigmoid_cross_entropy_with_logits(
        labels=labels, logits=outputs["no_answer_logits"]
    )
