"""Multiple choice: a score for each option of a question (section 4.3, RACE).

Letters in shapes: B batch, C options of a question, L sequence, H hidden.
"""

import tensorflow as tf
import tf_keras

from albert_tf.config import AlbertConfig
from albert_tf.encoder import AlbertEncoder, TransformerBlock
from albert_tf.layers import Dropout, Initializer

# The score of an option that a question lacks: its share of the softmax is exactly 0,
# and a row of nothing but such options, which only fills a batch, gives no NaN.
_MISSING_LOGIT = -1e9


class MultipleChoiceModel(tf_keras.Model):
    """The encoder on every option apart, and one number from each pooled output."""

    def __init__(
        self,
        config: AlbertConfig,
        seed: int | None = None,
        rematerialize: str = "none",
        head_dropout: float = 0.1,
        **kwargs,
    ):
        """Args:
        config, seed, rematerialize: as `AlbertEncoder`.
        head_dropout: share of the pooled output that is dropped; the original's is
          fixed, whatever the configuration says.
        """
        super().__init__(**kwargs)
        initializer = Initializer(config.initializer_range, seed)
        self.encoder = AlbertEncoder(config, seed, rematerialize)
        self.dropout = Dropout(head_dropout)
        # The released kernel lies with its one output first.
        self.output_weights = initializer.weights(
            "output_weights", (1, config.hidden_size)
        )
        self.output_bias = initializer.constant("output_bias", (1,), 0.0)
        # The site behind those of the encoder.
        blocks = config.num_hidden_layers * config.inner_group_num
        self._dropout_site = 1 + blocks * TransformerBlock.DROPOUT_SITES

    def call(self, inputs, training=False, dropout_seed=None):
        """Scores the options of a batch of questions.

        Args:
          inputs: dict of int32 [B, C, L]: `input_ids`, `input_mask`, `segment_ids`. An
            option whose mask is 0 throughout is missing.
          training: whether to drop.
          dropout_seed: as the encoder's.
        Returns:
          dict of `choice_logits`, float32 [B, C]; softmax over C gives probabilities.
        """
        if training and dropout_seed is None:
            dropout_seed = tf.random.uniform([2], maxval=2**31 - 1, dtype=tf.int32)
        names = ("input_ids", "input_mask", "segment_ids")
        batch, options, length = tf.unstack(tf.shape(inputs["input_ids"]))
        flat = {name: tf.reshape(inputs[name], [-1, length]) for name in names}
        encoded = self.encoder(flat, training=training, dropout_seed=dropout_seed)
        pooled = tf.cast(encoded["pooled_output"], tf.float32)
        if training:
            pooled = self.dropout(pooled, dropout_seed, self._dropout_site)
        logits = tf.matmul(pooled, self.output_weights, transpose_b=True)
        logits = tf.reshape(logits + self.output_bias, [batch, options])
        present = tf.reduce_any(inputs["input_mask"] > 0, axis=-1)
        return {"choice_logits": tf.where(present, logits, _MISSING_LOGIT)}
