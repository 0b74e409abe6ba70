"""Spans of tokens -> text of the context, as operations of TensorFlow.

`albert_tf.tasks.answers` does the same on the host.

Letters in shapes: B rows, S tokens, K spans.
"""

import tensorflow as tf

from albert_tf.tasks.answers import NO_SCORE


def increasing_ranges(
    starts: tf.RaggedTensor, ends: tf.RaggedTensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Makes the character ranges of tokens increase, as `TokenizedParagraph` does.

    A span's text reaches from the start of its first token to the end of its last one,
    so no token may start or end before the token in front of it. A lone "▁" has no
    character of its own; it ends where the token in front of it does, so that an answer
    that ends with it takes in no white space.

    Args:
      starts: int32 ragged [B, (S)], first characters.
      ends: the same of ends, exclusive.
    Returns:
      Starts and ends, int32 [B, S + 1]. The last column is padding, so that there is a
      column for texts without a token.
    """
    # An end of 0 never raises a running maximum.
    ends = ends.with_values(tf.where(starts.values == ends.values, 0, ends.values))
    dense_starts, dense_ends = (
        running_maximum(tf.pad(values.to_tensor(), [[0, 0], [0, 1]]))
        for values in (starts, ends)
    )
    return dense_starts, dense_ends


def running_maximum(values: tf.Tensor) -> tf.Tensor:
    """Replaces each value by the largest one up to it in its row.

    After the pass with a given `step`, a column holds the maximum of the `2 * step`
    columns that end there: its own and that of the column `step` before. So the number
    of passes is the logarithm of the row's length:

        values    3 1 4 0 2
        step 1    3 3 4 4 2
        step 2    3 3 4 4 4

    Args:
      values: int32 [B, S], none negative, since zeros are shifted in from the left.
    Returns:
      int32 [B, S].
    """
    size = tf.shape(values)[1]

    def double(step: tf.Tensor, values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        shifted = tf.pad(values, [[0, 0], [step, 0]])[:, :size]
        return 2 * step, tf.ensure_shape(tf.maximum(values, shifted), values.shape)

    start = (tf.constant(1), values)
    return tf.while_loop(lambda step, _: step < size, double, start)[1]


def best_answer(
    contexts: tf.Tensor,
    starts: tf.Tensor,
    ends: tf.Tensor,
    scores: tf.Tensor,
    n_best_size: int,
) -> dict[str, tf.Tensor]:
    """Chooses the best text of spans, by the rules of `answers.propose`.

    Several spans may have the same text: only the best of them counts. Of texts with
    equal scores, the first in the context is chosen.

    Args:
      contexts: string [B].
      starts: int32 [B, K], first characters of the spans in the context.
      ends: int32 [B, K], their ends, exclusive.
      scores: float32 [B, K], best first.
      n_best_size: number of texts among which the probability is computed.
    Returns:
      `answer` string, `answer_start` int32, `score` and `probability` float32, all [B].
    """
    lengths = tf.maximum(ends - starts, 0)
    repeated = tf.broadcast_to(contexts[:, tf.newaxis], tf.shape(starts))
    texts = tf.strings.substr(repeated, starts, lengths, unit="UTF8_CHAR")
    valid = (scores > NO_SCORE) & (lengths > 0)
    valid &= ~_has_better_duplicate(texts, valid)
    valid &= tf.cumsum(tf.cast(valid, tf.int32), axis=1) <= n_best_size
    score = tf.reduce_max(tf.where(valid, scores, NO_SCORE), axis=1, keepdims=True)
    weights = tf.where(valid, tf.exp(scores - score), 0.0)
    has_answer = tf.reduce_any(valid, axis=1)
    best = _first_in_context(valid & (scores == score), starts, ends)
    return {
        "answer": tf.where(has_answer, tf.gather(texts, best, batch_dims=1), ""),
        "answer_start": tf.where(has_answer, tf.gather(starts, best, batch_dims=1), -1),
        "score": score[:, 0],
        # The best text's own weight is exp(0).
        "probability": tf.math.divide_no_nan(
            tf.cast(has_answer, tf.float32), tf.reduce_sum(weights, axis=1)
        ),
    }


def _has_better_duplicate(texts: tf.Tensor, valid: tf.Tensor) -> tf.Tensor:
    """True for spans, bool [B, K], whose text a valid span before them has."""
    same = (texts[:, :, tf.newaxis] == texts[:, tf.newaxis]) & valid[:, tf.newaxis]
    columns = tf.range(tf.shape(texts)[1])
    is_before = columns[:, tf.newaxis] > columns
    return tf.reduce_any(same & is_before, axis=-1)


def _first_in_context(
    chosen: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor
) -> tf.Tensor:
    """Index, int64 [B], of the chosen span with the lowest start, then lowest end."""
    order = tf.cast(starts, tf.int64) * (1 << 31) + tf.cast(ends, tf.int64)
    return tf.argmin(tf.where(chosen, order, tf.int64.max), axis=1)
