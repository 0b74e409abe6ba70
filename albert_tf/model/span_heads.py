"""Question answering: where in a row an answer starts and ends, and whether it does.

`SpanModel` is SQuAD v1.1's, with start and end apart. `AnswerableSpanModel` is v2.0's
(paper, appendix A.3, after XLNet): the end depends on the start, and a classifier says
whether there is an answer.

Rows stand at their own length, so padding, which the original's v1.1 softmax takes in,
is left out of every softmax here: a row's loss does not depend on its neighbours.

Letters in shapes: B batch, S sequence, H hidden, K spans that a row proposes.
"""

import tensorflow as tf
import tf_keras

from albert_tf.config import AlbertConfig
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.heads import HEAD_DROPOUT_SITE
from albert_tf.model.layers import Dropout, Initializer, LayerNorm, Projection

# The original's scores of positions that may not be chosen.
NO_SPAN_SCORE = -1e30


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
        self.start = _Score("start_logits/dense", config.hidden_size, initializer)
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
        allowed = may_answer(inputs)
        start_logits = mask_scores(allowed, self.start(sequence))
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
        start_scores, starts = top_k_padded(start_log_probs, self._start_n_top)
        # Of fewer positions than beams the last one stands for those that are not.
        starts = tf.minimum(starts, tf.shape(sequence)[1] - 1)
        end_log_probs = self.end(sequence, starts, allowed)
        length = tf.shape(end_log_probs)[2]
        end_scores, ends = top_k_padded(
            tf.reshape(end_log_probs, [-1, length]), self._end_n_top
        )
        beams = [-1, self._start_n_top * self._end_n_top]
        return {
            "span_starts": tf.repeat(starts, self._end_n_top, axis=1),
            "span_ends": tf.reshape(ends, beams),
            "span_scores": tf.repeat(start_scores, self._end_n_top, axis=1)
            + tf.reshape(end_scores, beams),
        }


class _Score(tf_keras.layers.Layer):
    """One number for each vector, in float32 where the vectors are bfloat16, too: the
    best of many may differ in the last digits only."""

    def __init__(self, scope, size, initializer, **kwargs):
        # The vectors are cast here, once.
        super().__init__(autocast=False, **kwargs)
        self.kernel = initializer.weights(f"{scope}/kernel", (size, 1))
        self.bias = initializer.constant(f"{scope}/bias", (1,), 0.0)

    def call(self, inputs):
        """[..., size] -> float32 [...]."""
        vectors = tf.cast(inputs, tf.float32)
        return tf.einsum("...h,h->...", vectors, self.kernel[:, 0]) + self.bias[0]


class _EndHead(tf_keras.layers.Layer):
    """Log probabilities of ends, each set given one start."""

    def __init__(self, config, initializer, **kwargs):
        super().__init__(**kwargs)
        hidden = config.hidden_size
        scope = "end_logits/dense_0"
        self.kernel = initializer.weights(f"{scope}/kernel", (2 * hidden, hidden))
        self.bias = initializer.constant(f"{scope}/bias", (hidden,), 0.0)
        self.layer_norm = LayerNorm("end_logits/LayerNorm", hidden, initializer)
        self.score = _Score("end_logits/dense_1", hidden, initializer)

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
        kernel = tf.cast(self.kernel, self.compute_dtype)
        bias = tf.cast(self.bias, self.compute_dtype)
        piece_kernel, start_kernel = tf.split(kernel, 2)
        pieces = tf.einsum("bsh,hk->bsk", sequence, piece_kernel) + bias
        given = tf.einsum("bnh,hk->bnk", features, start_kernel)
        joint = tf.tanh(pieces[:, tf.newaxis] + given[:, :, tf.newaxis])
        logits = self.score(self.layer_norm(joint))
        logits = mask_scores(allowed[:, tf.newaxis], logits)
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


def _encoder_without_pooler(config, seed, rematerialize):
    encoder = AlbertEncoder(config, seed, rematerialize)
    # Nothing uses it; without a gradient weight decay would take it to nothing.
    encoder.pooler.trainable = False
    return encoder


def may_answer(batch):
    """1 where an answer may start or end; padding has a `p_mask` of 0."""
    return batch["input_mask"] * (1 - batch["p_mask"])


def mask_scores(allowed, scores):
    """Scores where 1 is, and else about -1e30; float32, as the original's."""
    return tf.where(allowed == 1, scores, NO_SPAN_SCORE)


def top_k_padded(scores, count: int):
    """The best `count` of [B, N] and their places; what N lacks scores -1e30."""
    missing = tf.maximum(count - tf.shape(scores)[1], 0)
    padded = tf.pad(scores, [[0, 0], [0, missing]], constant_values=NO_SPAN_SCORE)
    return tf.math.top_k(padded, count)
