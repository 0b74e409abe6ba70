"""Heads on the encoder, and the models that tasks train.

Letters in shapes: B batch, S sequence, P predictions, E embedding, H hidden,
V vocabulary.
"""

import tensorflow as tf
import tf_keras

from albert_tf.config import AlbertConfig
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.layers import Dropout, Initializer, LayerNorm, Projection

# Of a head's dropout; the encoder counts its own from 0.
HEAD_DROPOUT_SITE = 1 << 30
# The score of an option that a question lacks: its share of the softmax is exactly 0,
# and a row of nothing but such options gives no NaN.
_MISSING_LOGIT = -1e9


class MaskedLanguageModelHead(tf_keras.layers.Layer):
    """Scores over the vocabulary at masked positions, tied to the piece embeddings."""

    def __init__(self, config: AlbertConfig, initializer: Initializer, **kwargs):
        super().__init__(**kwargs)
        scope = "cls/predictions"
        self.transform = Projection(
            f"{scope}/transform/dense",
            (config.hidden_size, config.embedding_size),
            initializer,
            config.hidden_act,
        )
        self.layer_norm = LayerNorm(
            f"{scope}/transform/LayerNorm", config.embedding_size, initializer
        )
        self.output_bias = initializer.constant(
            f"{scope}/output_bias", (config.vocab_size,), 0.0
        )

    def call(self, sequence_output, positions, embedding_table):
        """Args:
          sequence_output: [B, S, H].
          positions: int32 [B, P]; only these are scored.
          embedding_table: float32 [V, E].
        Returns:
          logits, float32 [B, P, V].
        """
        masked = tf.gather(sequence_output, positions, batch_dims=1)
        transformed = self.layer_norm(self.transform(masked))
        table = tf.cast(embedding_table, self.compute_dtype)
        flat = tf.reshape(transformed, [-1, table.shape[1]])
        logits = tf.matmul(flat, table, transpose_b=True)
        logits = tf.cast(logits, tf.float32) + self.output_bias
        batch, predictions = tf.unstack(tf.shape(positions))
        return tf.reshape(logits, [batch, predictions, table.shape[0]])


class SentenceOrderHead(tf_keras.layers.Layer):
    """Two classes from the pooled output: 0 in order, 1 swapped (section 3.1)."""

    def __init__(self, config: AlbertConfig, initializer: Initializer, **kwargs):
        super().__init__(**kwargs)
        scope = "cls/seq_relationship"
        # The released kernel lies with its classes first.
        self.output_weights = initializer.weights(
            f"{scope}/output_weights", (2, config.hidden_size)
        )
        self.output_bias = initializer.constant(f"{scope}/output_bias", (2,), 0.0)

    def call(self, pooled_output):
        """[B, H] -> logits, float32 [B, 2]."""
        pooled = tf.cast(pooled_output, tf.float32)
        return tf.matmul(pooled, self.output_weights, transpose_b=True) + (
            self.output_bias
        )


class PretrainingModel(tf_keras.Model):
    """The encoder with the masked-language-model and sentence-order heads."""

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
        self.encoder = AlbertEncoder(config, seed, rematerialize)
        self.masked_lm = MaskedLanguageModelHead(config, initializer)
        self.sentence_order = SentenceOrderHead(config, initializer)

    def call(self, inputs, training=False, dropout_seed=None):
        """Scores one batch of pretraining rows.

        Args:
          inputs: the encoder's, and `masked_lm_positions`, int32 [B, P].
          training: whether to drop.
          dropout_seed: as the encoder's.
        Returns:
          dict of `masked_lm_logits` float32 [B, P, V] and `sentence_order_logits`
          float32 [B, 2].
        """
        encoded = self.encoder(inputs, training=training, dropout_seed=dropout_seed)
        return {
            "masked_lm_logits": self.masked_lm(
                encoded["sequence_output"],
                inputs["masked_lm_positions"],
                self.encoder.embedding_table,
            ),
            "sentence_order_logits": self.sentence_order(encoded["pooled_output"]),
        }


class PooledHead(tf_keras.layers.Layer):
    """Dropout and a linear layer on the pooled output: labels, a score, an option."""

    def __init__(
        self,
        config: AlbertConfig,
        initializer: Initializer,
        outputs: int,
        dropout: float = 0.1,
        **kwargs,
    ):
        """Args:
        config: the model's shape.
        initializer: of the weights.
        outputs: numbers that it gives.
        dropout: probability of dropping a value of the pooled output; the original's
          is 0.1 whatever the configuration says.
        """
        super().__init__(**kwargs)
        self.output_weights = initializer.weights(
            "output_weights", (outputs, config.hidden_size)
        )
        self.output_bias = initializer.constant("output_bias", (outputs,), 0.0)
        self.dropout = Dropout(dropout)

    def call(self, pooled_output, dropout_seed=None):
        """[B, H] -> logits, float32 [B, outputs]; a seed of None drops nothing."""
        pooled = tf.cast(pooled_output, tf.float32)
        pooled = self.dropout(pooled, dropout_seed, HEAD_DROPOUT_SITE)
        return tf.matmul(pooled, self.output_weights, transpose_b=True) + (
            self.output_bias
        )


class ClassificationModel(tf_keras.Model):
    """The encoder with a score for each label, or with one for a regression."""

    def __init__(
        self,
        config: AlbertConfig,
        outputs: int,
        dropout: float = 0.1,
        seed: int | None = None,
        rematerialize: str = "none",
        **kwargs,
    ):
        """Args:
        config: the model's shape.
        outputs: labels; 1 for a regression.
        dropout: as `PooledHead`.
        seed, rematerialize: as `AlbertEncoder`.
        """
        super().__init__(**kwargs)
        self.encoder = AlbertEncoder(config, seed, rematerialize)
        initializer = Initializer(config.initializer_range, seed)
        self.head = PooledHead(config, initializer, outputs, dropout)

    def call(self, inputs, training=False, dropout_seed=None):
        """Args: as `AlbertEncoder`'s; returns dict of `logits` float32 [B, outputs]."""
        if training and dropout_seed is None:
            dropout_seed = tf.random.uniform([2], maxval=2**31 - 1, dtype=tf.int32)
        encoded = self.encoder(inputs, training=training, dropout_seed=dropout_seed)
        seed = dropout_seed if training else None
        return {"logits": self.head(encoded["pooled_output"], seed)}


class MultipleChoiceModel(tf_keras.Model):
    """The encoder on every option apart, and a score from each one's pooled output."""

    def __init__(
        self,
        config: AlbertConfig,
        dropout: float = 0.1,
        seed: int | None = None,
        rematerialize: str = "none",
        **kwargs,
    ):
        """Args:
        config: the model's shape.
        dropout: as `PooledHead`.
        seed, rematerialize: as `AlbertEncoder`.
        """
        super().__init__(**kwargs)
        self.encoder = AlbertEncoder(config, seed, rematerialize)
        initializer = Initializer(config.initializer_range, seed)
        self.head = PooledHead(config, initializer, 1, dropout)

    def call(self, inputs, training=False, dropout_seed=None):
        """Scores the options of a batch of questions.

        Args:
          inputs: dict of int32 [B, C, S], C being options: `input_ids`, `input_mask`,
            `segment_ids`. An option whose mask is 0 throughout is missing.
          training: whether to drop.
          dropout_seed: as the encoder's.
        Returns:
          dict of `logits` float32 [B, C]; their softmax over C gives probabilities.
        """
        if training and dropout_seed is None:
            dropout_seed = tf.random.uniform([2], maxval=2**31 - 1, dtype=tf.int32)
        names = ("input_ids", "input_mask", "segment_ids")
        shape = tf.shape(inputs["input_ids"])
        flat = {name: tf.reshape(inputs[name], [-1, shape[2]]) for name in names}
        encoded = self.encoder(flat, training=training, dropout_seed=dropout_seed)
        seed = dropout_seed if training else None
        logits = self.head(encoded["pooled_output"], seed)
        present = tf.reduce_any(inputs["input_mask"] > 0, axis=-1)
        logits = tf.where(present, tf.reshape(logits, shape[:2]), _MISSING_LOGIT)
        return {"logits": tf.ensure_shape(logits, inputs["input_ids"].shape[:2])}
