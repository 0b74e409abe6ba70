"""Question answering: where in a row an answer starts and ends, and whether it does.

`SpanModel` is SQuAD v1.1's, with start and end apart. `AnswerableSpanModel` is v2.0's
(paper, appendix A.3, after XLNet): the end depends on the start, and a classifier says
whether there is an answer.

Rows stand at their own length, so padding, which the original's v1.1 softmax takes in,
is left out of every softmax here: a row's loss does not depend on its neighbours.

Letters in shapes: B batch, S sequence, H hidden, K spans that a row proposes.
"""

from collections.abc import Callable

import tensorflow as tf
import tf_keras

from albert_tf.config import AlbertConfig
from albert_tf.encoder import AlbertEncoder
from albert_tf.layers import Dropout, Initializer, LayerNorm, Projection
from albert_tf.models import HEAD_DROPOUT_SITE

# The original's scores of positions that may not be chosen.
_NO_SCORE = -1e30


class SpanModel(tf_keras.Model):
    """The encoder and two scores a piece, as start and as end of the answer."""

    def __init__(
        self,
        config: AlbertConfig,
        seed: int | None = None,
        rematerialize: str = "none",
        **kwargs,
    ):
        """Args: as `AlbertEncoder`."""
        super().__init__(**kwargs)
        initializer = Initializer(config.initializer_range, seed)
        self.encoder = _encoder_without_pooler(config, seed, rematerialize)
        # The released kernel lies with its outputs first.
        self.output_weights = initializer.weights(
            "cls/squad/output_weights", (2, config.hidden_size)
        )
        self.output_bias = initializer.constant("cls/squad/output_bias", (2,), 0.0)

    def call(self, inputs, training=False, dropout_seed=None):
        """Scores every position.

        Args:
          inputs: the encoder's.
          training: whether to drop.
          dropout_seed: as the encoder's.
        Returns:
          dict of `start_logits` and `end_logits`, float32 [B, S].
        """
        encoded = self.encoder(inputs, training=training, dropout_seed=dropout_seed)
        sequence = tf.cast(encoded["sequence_output"], tf.float32)
        logits = tf.einsum("bsh,kh->kbs", sequence, self.output_weights)
        logits += self.output_bias[:, tf.newaxis, tf.newaxis]
        return {"start_logits": logits[0], "end_logits": logits[1]}


def span_loss(outputs, batch):
    """Mean cross-entropy of start and end over the pieces of a row (v1.1).

    The question's pieces compete too, as in the original.

    Args:
      outputs: `start_logits`, `end_logits` float32 [B, S].
      batch: `input_mask` int32 [B, S]; `start_positions`, `end_positions` int32 [B].
    Returns:
      float32 [B].
    """
    losses = [
        tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=batch[f"{name}_positions"],
            logits=_only(batch["input_mask"], outputs[f"{name}_logits"]),
        )
        for name in ("start", "end")
    ]
    return (losses[0] + losses[1]) / 2


def best_spans(n_best_size: int, max_answer_length: int) -> Callable:
    """A function (outputs, batch) -> the K = `n_best_size` best spans of each row.

    All spans that may be an answer are compared, so that a row with a piece of the
    paragraph always has one; the original combines the best starts with the best ends,
    and has none where those do not fit together.

    The function takes `start_logits`, `end_logits`, and of the batch `input_mask`,
    `p_mask` and `token_is_max_context` int32 [B, S]. It returns `span_starts` and
    `span_ends` int32 [B, K], inclusive positions, and `span_scores` float32 [B, K],
    sums of two logits, best first; near -1e30 are those that may not be chosen.
    """

    def find(outputs, batch):
        starts = _only(batch["token_is_max_context"], outputs["start_logits"])
        ends = _only(_may_answer(batch), outputs["end_logits"])
        length = tf.shape(starts)[1]
        # The scores of the answers of 1, 2, ... pieces that start at each position.
        padded = tf.pad(
            ends, [[0, 0], [0, max_answer_length - 1]], constant_values=_NO_SCORE
        )
        sums = [starts + padded[:, i : i + length] for i in range(max_answer_length)]
        scores = tf.reshape(tf.stack(sums, axis=-1), [-1, length * max_answer_length])
        scores, places = _top(scores, n_best_size)
        first = places // max_answer_length
        return {
            "span_starts": first,
            "span_ends": first + places % max_answer_length,
            "span_scores": scores,
        }

    return find


class AnswerableSpanModel(tf_keras.Model):
    """The encoder, starts, ends given a start, and whether there is an answer."""

    def __init__(
        self,
        config: AlbertConfig,
        seed: int | None = None,
        rematerialize: str = "none",
        *,
        start_n_top: int = 5,
        end_n_top: int = 5,
        head_dropout: float = 0.1,
        **kwargs,
    ):
        """Args:
        config, seed, rematerialize: as `AlbertEncoder`.
        start_n_top: starts that prediction goes on with.
        end_n_top: ends that it finds for each.
        head_dropout: share dropped before the classifier's output.
        """
        super().__init__(**kwargs)
        initializer = Initializer(config.initializer_range, seed)
        self.encoder = _encoder_without_pooler(config, seed, rematerialize)
        self.start = Projection(
            "start_logits/dense", (config.hidden_size, 1), initializer
        )
        self.end = _EndHead(config, initializer)
        self.answerable = _AnswerableHead(config, initializer, head_dropout)
        self._start_n_top = start_n_top
        self._end_n_top = end_n_top

    def call(self, inputs, training=False, dropout_seed=None):
        """Scores every position; unless it trains, finds spans, too.

        Args:
          inputs: the encoder's; `p_mask` int32 [B, S], 1 where no answer may start or
            end; `start_positions` int32 [B], the true starts, if they are known.
          training: whether to drop.
          dropout_seed: as the encoder's.
        Returns:
          dict of `start_log_probs` float32 [B, S], `no_answer_logits` float32 [B],
          higher where an answer is less likely, and, with true starts, `end_log_probs`
          float32 [B, S] given these. Unless training, beams of K = start_n_top *
          end_n_top: `span_starts`, `span_ends` int32 [B, K], inclusive positions, and
          `span_scores` float32 [B, K], sums of log probabilities, those of one start
          together.
        """
        if training and dropout_seed is None:
            dropout_seed = tf.random.uniform([2], maxval=2**31 - 1, dtype=tf.int32)
        encoded = self.encoder(inputs, training=training, dropout_seed=dropout_seed)
        sequence = encoded["sequence_output"]
        allowed = _may_answer(inputs)
        start_logits = _only(allowed, _scores(self.start, sequence))
        start_log_probs = tf.nn.log_softmax(start_logits)
        outputs = {
            "start_log_probs": start_log_probs,
            "no_answer_logits": self.answerable(
                sequence, start_log_probs, dropout_seed if training else None
            ),
        }
        if "start_positions" in inputs:
            true_starts = inputs["start_positions"][:, tf.newaxis]
            outputs["end_log_probs"] = self.end(sequence, true_starts, allowed)[:, 0]
        if training:
            return outputs
        return outputs | self._beams(sequence, start_log_probs, allowed)

    def _beams(self, sequence, start_log_probs, allowed):
        start_scores, starts = _top(start_log_probs, self._start_n_top)
        # Of fewer positions than beams the last one stands for those that are not.
        starts = tf.minimum(starts, tf.shape(sequence)[1] - 1)
        end_log_probs = self.end(sequence, starts, allowed)
        length = tf.shape(end_log_probs)[2]
        end_scores, ends = _top(
            tf.reshape(end_log_probs, [-1, length]), self._end_n_top
        )
        beams = [-1, self._start_n_top * self._end_n_top]
        return {
            "span_starts": tf.repeat(starts, self._end_n_top, axis=1),
            "span_ends": tf.reshape(ends, beams),
            "span_scores": tf.repeat(start_scores, self._end_n_top, axis=1)
            + tf.reshape(end_scores, beams),
        }


class _EndHead(tf_keras.layers.Layer):
    """Log probabilities of ends, each set given one start."""

    def __init__(self, config, initializer, **kwargs):
        super().__init__(**kwargs)
        hidden = config.hidden_size
        self.dense = Projection("end_logits/dense_0", (2 * hidden, hidden), initializer)
        self.layer_norm = LayerNorm("end_logits/LayerNorm", hidden, initializer)
        self.output_projection = Projection(
            "end_logits/dense_1", (hidden, 1), initializer
        )

    def call(self, sequence, starts, allowed):
        """Args:
          sequence: [B, S, H].
          starts: int32 [B, N], positions.
          allowed: int32 [B, S], 1 where an answer may end.
        Returns:
          float32 [B, N, S].
        """
        features = tf.gather(sequence, starts, batch_dims=1)
        # The projection of [piece, start] is that of either half added, and the pieces'
        # half is the same for every start.
        kernel = tf.cast(self.dense.kernel, self.compute_dtype)
        bias = tf.cast(self.dense.bias, self.compute_dtype)
        piece_kernel, start_kernel = tf.split(kernel, 2)
        pieces = tf.einsum("bsh,hk->bsk", sequence, piece_kernel) + bias
        given = tf.einsum("bnh,hk->bnk", features, start_kernel)
        joint = tf.tanh(pieces[:, tf.newaxis] + given[:, :, tf.newaxis])
        logits = _scores(self.output_projection, self.layer_norm(joint))
        logits = _only(allowed[:, tf.newaxis], logits)
        return tf.nn.log_softmax(logits)


class _AnswerableHead(tf_keras.layers.Layer):
    """A logit that there is no answer, from [CLS] and the expected start."""

    def __init__(self, config, initializer, dropout, **kwargs):
        super().__init__(**kwargs)
        hidden = config.hidden_size
        self.dense = Projection(
            "answer_class/dense_0", (2 * hidden, hidden), initializer, "tanh"
        )
        self.dropout = Dropout(dropout)
        self.output_weights = initializer.weights(
            "answer_class/dense_1/kernel", (hidden, 1)
        )

    def call(self, sequence, start_log_probs, seed):
        """[B, S, H], float32 [B, S], int32 [2] or None -> float32 [B]."""
        probabilities = tf.cast(tf.exp(start_log_probs), sequence.dtype)
        start = tf.einsum("bsh,bs->bh", sequence, probabilities)
        features = self.dense(tf.concat([start, sequence[:, 0]], axis=-1))
        features = tf.cast(self.dropout(features, seed, HEAD_DROPOUT_SITE), tf.float32)
        return tf.matmul(features, self.output_weights)[:, 0]


def conditional_span_loss(outputs, batch):
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


def half_answerability_loss(outputs, batch):
    """Half the cross-entropy of `is_impossible`, its part in v2.0's loss; float32 [B].

    Args:
      outputs: `no_answer_logits` float32 [B].
      batch: `is_impossible` int32 [B].
    """
    labels = tf.cast(batch["is_impossible"], tf.float32)
    return 0.5 * tf.nn.sigmoid_cross_entropy_with_logits(
        labels=labels, logits=outputs["no_answer_logits"]
    )


def _encoder_without_pooler(config, seed, rematerialize):
    encoder = AlbertEncoder(config, seed, rematerialize)
    # Nothing uses it; without a gradient weight decay would take it to nothing.
    encoder.pooler.trainable = False
    return encoder


def _scores(projection, features):
    """[..., H] -> [...], one score each, float32 where features are bfloat16, too: the
    best of many may differ in the last digits only."""
    kernel, bias = projection.kernel[:, 0], projection.bias[0]
    return tf.einsum("...h,h->...", tf.cast(features, tf.float32), kernel) + bias


def _may_answer(batch):
    """1 where an answer may start or end; padding has a `p_mask` of 0."""
    return batch["input_mask"] * (1 - batch["p_mask"])


def _only(allowed, scores):
    """Scores where 1 is, and else about -1e30; float32, as the original's."""
    return tf.where(allowed == 1, scores, _NO_SCORE)


def _top(scores, count: int):
    """The best `count` of [B, N] and their places; what N lacks scores -1e30."""
    missing = tf.maximum(count - tf.shape(scores)[1], 0)
    padded = tf.pad(scores, [[0, 0], [0, missing]], constant_values=_NO_SCORE)
    return tf.math.top_k(padded, count)
