"""Models of question answering: the start and end of an answer, and if there is one.

`SpanModel` is for SQuAD v1.1; it scores start and end independently.
`AnswerableSpanModel` is for v2.0 (paper, appendix A.3, after XLNet): the end depends on
the start, and a classifier tells if there is an answer.

Padding is left out of every softmax, unlike in the original's v1.1: batches are padded
to their longest row, and a row's loss must not depend on the others.

Letters in shapes: B batch, S sequence, H hidden, K spans that a row proposes.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tf_keras

from albert_tf.config import AlbertConfig
from albert_tf.model.dropout import HEAD_SITE, Dropout, resolve_seed
from albert_tf.model.heads import EncoderWithHeads
from albert_tf.model.layers import Initializer, LayerNorm, Projection
from albert_tf.model.precision import policy_scope

# The original's score of positions that may not be chosen.
NO_SPAN_SCORE = -1e30


@tf_keras.utils.register_keras_serializable(package="albert_tf")
class SpanModel(EncoderWithHeads):
    """The encoder and two logits of each token, as start and as end of the answer."""

    def __init__(self, config: AlbertConfig | Mapping[str, Any], **kwargs):
        """Makes all variables; arguments as in `AlbertEncoder`."""
        super().__init__(config, **kwargs)
        self.encoder.freeze_pooler()
        initializer, hidden = self._initializer(), self.encoder.config.hidden_size
        # The released kernel has its outputs on the first axis.
        self.output_weights = initializer.weights(
            "cls/squad/output_weights", (2, hidden)
        )
        self.output_bias = initializer.constant("cls/squad/output_bias", (2,), 0.0)

    def call(
        self,
        inputs: Mapping[str, tf.Tensor],
        training: bool | None = False,
        dropout_seed: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """Scores every position.

        Args:
          inputs: those of the encoder.
          training: True to apply dropout.
          dropout_seed: as in the encoder.
        Returns:
          dict of `start_logits` and `end_logits`, float32 [B, S].
        """
        encoded = self.encoder(inputs, training=training, dropout_seed=dropout_seed)
        sequence = tf.cast(encoded["sequence_output"], tf.float32)
        logits = tf.einsum("bsh,kh->kbs", sequence, self.output_weights)
        logits += self.output_bias[:, tf.newaxis, tf.newaxis]
        return {"start_logits": logits[0], "end_logits": logits[1]}


@tf_keras.utils.register_keras_serializable(package="albert_tf")
class AnswerableSpanModel(EncoderWithHeads):
    """The encoder, starts, ends given a start, and a logit that there is no answer."""

    def __init__(
        self,
        config: AlbertConfig | Mapping[str, Any],
        *,
        start_n_top: int = 5,
        end_n_top: int = 5,
        head_dropout: float = 0.1,
        **kwargs,
    ):
        """Makes all variables.

        Args:
          config: as in `AlbertEncoder`.
          start_n_top: number of start positions kept in the beam.
          end_n_top: number of end positions kept for each start.
          head_dropout: probability of dropping a value before the classifier's output.
          **kwargs: `seed` and `rematerialize`, as in `AlbertEncoder`.
        """
        super().__init__(config, **kwargs)
        self.encoder.freeze_pooler()
        config, initializer = self.encoder.config, self._initializer()
        with policy_scope(self.dtype_policy):
            self.start = _Score("start_logits/dense", config.hidden_size, initializer)
            self.end = _EndHead(config, initializer)
            self.answerable = _AnswerableHead(config, initializer, head_dropout)
        self._start_n_top = start_n_top
        self._end_n_top = end_n_top
        self._head_dropout = head_dropout

    def call(
        self,
        inputs: Mapping[str, tf.Tensor],
        training: bool | None = False,
        dropout_seed: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """Scores every position and, unless `training`, finds the best spans.

        Args:
          inputs: those of the encoder; `p_mask` int32 [B, S], 1 where no answer may
            start or end; `start_positions` int32 [B], the true starts, if known.
          training: True to apply dropout.
          dropout_seed: as in the encoder.
        Returns:
          dict of `start_log_probs` float32 [B, S], `no_answer_logits` float32 [B],
          higher where an answer is less likely, and, with true starts, `end_log_probs`
          float32 [B, S] given these. Unless `training`, beams of K = start_n_top *
          end_n_top: `span_starts`, `span_ends` int32 [B, K], inclusive positions, and
          `span_scores` float32 [B, K], sums of log probabilities, those of one start
          next to each other.
        """
        seed = resolve_seed(training, dropout_seed)
        encoded = self.encoder(inputs, training=training, dropout_seed=seed)
        sequence = encoded["sequence_output"]
        allowed = may_answer(inputs)
        start_logits = mask_scores(allowed, self.start(sequence))
        start_log_probs = tf.nn.log_softmax(start_logits)
        outputs = {
            "start_log_probs": start_log_probs,
            "no_answer_logits": self.answerable(sequence, start_log_probs, seed),
        }
        if "start_positions" in inputs:
            true_starts = inputs["start_positions"][:, tf.newaxis]
            outputs["end_log_probs"] = self.end(sequence, true_starts, allowed)[:, 0]
        if training:
            return outputs
        return outputs | self._beams(sequence, start_log_probs, allowed)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments as JSON values."""
        return {
            **super().get_config(),
            "start_n_top": self._start_n_top,
            "end_n_top": self._end_n_top,
            "head_dropout": self._head_dropout,
        }

    def _beams(
        self, sequence: tf.Tensor, start_log_probs: tf.Tensor, allowed: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        start_scores, starts = top_k_padded(start_log_probs, self._start_n_top)
        # If there are fewer positions than beams, the last one fills the others.
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
    """One number for each vector, in float32 even if the vectors have 16 bits.

    The best scores of many may differ in their last digits only.
    """

    def __init__(self, scope: str, size: int, initializer: Initializer, **kwargs):
        # `call` casts the vectors, once.
        super().__init__(autocast=False, **kwargs)
        self.kernel = initializer.weights(f"{scope}/kernel", (size, 1))
        self.bias = initializer.constant(f"{scope}/bias", (1,), 0.0)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """[..., size] -> float32 [...]."""
        vectors = tf.cast(inputs, tf.float32)
        return tf.einsum("...h,h->...", vectors, self.kernel[:, 0]) + self.bias[0]


class _EndHead(tf_keras.layers.Layer):
    """Log probabilities of ends, given a start."""

    def __init__(self, config: AlbertConfig, initializer: Initializer, **kwargs):
        super().__init__(**kwargs)
        hidden = config.hidden_size
        scope = "end_logits/dense_0"
        self.kernel = initializer.weights(f"{scope}/kernel", (2 * hidden, hidden))
        self.bias = initializer.constant(f"{scope}/bias", (hidden,), 0.0)
        self.layer_norm = LayerNorm("end_logits/LayerNorm", hidden, initializer)
        self.score = _Score("end_logits/dense_1", hidden, initializer)

    def call(
        self, sequence: tf.Tensor, starts: tf.Tensor, allowed: tf.Tensor
    ) -> tf.Tensor:
        """Computes log probabilities of all ends for each start.

        Args:
          sequence: [B, S, H].
          starts: int32 [B, N], positions.
          allowed: int32 [B, S], 1 where an answer may end.
        Returns:
          float32 [B, N, S].
        """
        features = tf.gather(sequence, starts, batch_dims=1)
        # The projection of [token, start] is the sum of the projections of both halves,
        # and that of the tokens is the same for every start.
        kernel = tf.cast(self.kernel, self.compute_dtype)
        bias = tf.cast(self.bias, self.compute_dtype)
        token_kernel, start_kernel = tf.split(kernel, 2)
        tokens = tf.einsum("bsh,hk->bsk", sequence, token_kernel) + bias
        given = tf.einsum("bnh,hk->bnk", features, start_kernel)
        joint = tf.tanh(tokens[:, tf.newaxis] + given[:, :, tf.newaxis])
        logits = self.score(self.layer_norm(joint))
        logits = mask_scores(allowed[:, tf.newaxis], logits)
        return tf.nn.log_softmax(logits)


class _AnswerableHead(tf_keras.layers.Layer):
    """A logit that there is no answer, from [CLS] and the expected start."""

    def __init__(
        self, config: AlbertConfig, initializer: Initializer, dropout: float, **kwargs
    ):
        super().__init__(**kwargs)
        hidden = config.hidden_size
        self.dense = Projection(
            "answer_class/dense_0", (2 * hidden, hidden), initializer, "tanh"
        )
        self.dropout = Dropout(dropout)
        self.output_weights = initializer.weights(
            "answer_class/dense_1/kernel", (hidden, 1)
        )

    def call(
        self, sequence: tf.Tensor, start_log_probs: tf.Tensor, seed: tf.Tensor | None
    ) -> tf.Tensor:
        """[B, S, H], float32 [B, S], int32 [2] or None -> float32 [B]."""
        probabilities = tf.cast(tf.exp(start_log_probs), sequence.dtype)
        start = tf.einsum("bsh,bs->bh", sequence, probabilities)
        features = self.dense(tf.concat([start, sequence[:, 0]], axis=-1))
        features = tf.cast(self.dropout(features, seed, HEAD_SITE), tf.float32)
        return tf.matmul(features, self.output_weights)[:, 0]


def may_answer(batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """1 where an answer may start or end; the `p_mask` of padding is 0."""
    return batch["input_mask"] * (1 - batch["p_mask"])


def mask_scores(allowed: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
    """Scores where `allowed` is 1, otherwise -1e30; float32, as in the original."""
    return tf.where(allowed == 1, scores, NO_SPAN_SCORE)


def top_k_padded(scores: tf.Tensor, count: int) -> tuple[tf.Tensor, tf.Tensor]:
    """The best `count` of [B, N] and their indices; if N is less, -1e30 fills up."""
    missing = tf.maximum(count - tf.shape(scores)[1], 0)
    padded = tf.pad(scores, [[0, 0], [0, missing]], constant_values=NO_SPAN_SCORE)
    return tf.math.top_k(padded, count)
