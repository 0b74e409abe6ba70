"""Heads on the encoder, and the models that tasks train.

All models take a configuration and keyword arguments, and map a dict of tensors to a
dict of tensors.

Letters in shapes: B batch, S sequence, P predictions, K documents of a row, C options,
E embedding, H hidden, V vocabulary.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tf_keras

from albert_tf.config import AlbertConfig
from albert_tf.model.documents import DOCUMENT_IDS
from albert_tf.model.dropout import HEAD_SITE, Dropout, resolve_seed
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.layers import Initializer, LayerNorm, Projection
from albert_tf.model.precision import policy_scope

# The logit of an option that a question lacks: its probability is exactly 0, and a row
# of only such options gives no NaN.
MISSING_LOGIT = -1e9


def flatten_rows(inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Makes a row of each of the texts of an example.

    Args:
      inputs: `input_ids`, `input_mask` and `segment_ids`, int32 [B, C, S], and others.
    Returns:
      These three, int32 [B C, S].
    """
    length = tf.shape(inputs["input_ids"])[2]
    names = ("input_ids", "input_mask", "segment_ids")
    return {name: tf.reshape(inputs[name], [-1, length]) for name in names}


class EncoderWithHeads(tf_keras.Model):
    """Base of the models: an encoder, and the constructor arguments that all share."""

    def __init__(
        self,
        config: AlbertConfig | Mapping[str, Any],
        *,
        seed: int | None = None,
        rematerialize: str = "none",
        **kwargs,
    ):
        """Makes the encoder; arguments as in `AlbertEncoder`."""
        super().__init__(**kwargs)
        self.encoder = AlbertEncoder(
            config, seed=seed, rematerialize=rematerialize, dtype=self.dtype_policy
        )
        self._seed = seed

    def _initializer(self) -> Initializer:
        return Initializer(self.encoder.config.initializer_range, self._seed)

    def build(self, input_shape: Any) -> None:
        """Marks the model as built, since its variables exist from the start.

        The base class would call the model with float ids, when it is loaded from a
        file of Keras.
        """
        tf_keras.layers.Layer.build(self, input_shape)

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments as JSON values."""
        arguments = self.encoder.get_config()
        names = ("config", "seed", "rematerialize", "dtype")
        return {"name": self.name, **{name: arguments[name] for name in names}}


class MaskedLanguageModelHead(tf_keras.layers.Layer):
    """Logits over the vocabulary at masked positions, tied to the token embeddings."""

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

    def call(
        self,
        sequence_output: tf.Tensor,
        positions: tf.Tensor,
        embedding_table: tf.Variable,
    ) -> tf.Tensor:
        """Computes logits.

        Args:
          sequence_output: [B, S, H].
          positions: int32 [B, P]; logits are computed only there.
          embedding_table: float32 [V, E].
        Returns:
          float32 [B, P, V].
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
    """Two logits from the pooled output: 0 in order, 1 swapped (section 3.1)."""

    def __init__(self, config: AlbertConfig, initializer: Initializer, **kwargs):
        super().__init__(**kwargs)
        scope = "cls/seq_relationship"
        # The released kernel has its outputs on the first axis.
        self.output_weights = initializer.weights(
            f"{scope}/output_weights", (2, config.hidden_size)
        )
        self.output_bias = initializer.constant(f"{scope}/output_bias", (2,), 0.0)

    def call(self, pooled_output: tf.Tensor) -> tf.Tensor:
        """[..., H] -> logits, float32 [..., 2]."""
        pooled = tf.cast(pooled_output, tf.float32)
        return tf.matmul(pooled, self.output_weights, transpose_b=True) + (
            self.output_bias
        )


@tf_keras.utils.register_keras_serializable(package="albert_tf")
class PretrainingModel(EncoderWithHeads):
    """The encoder with the masked-language-model and sentence-order heads."""

    def __init__(self, config: AlbertConfig | Mapping[str, Any], **kwargs):
        """Makes all variables; arguments as in `AlbertEncoder`."""
        super().__init__(config, **kwargs)
        config, initializer = self.encoder.config, self._initializer()
        with policy_scope(self.dtype_policy):
            self.masked_lm = MaskedLanguageModelHead(config, initializer)
            self.sentence_order = SentenceOrderHead(config, initializer)

    def call(
        self,
        inputs: Mapping[str, tf.Tensor],
        training: bool | None = False,
        dropout_seed: tf.Tensor | None = None,
        num_layers: int | None = None,
    ) -> dict[str, tf.Tensor]:
        """Computes the logits of a batch of pretraining rows.

        Args:
          inputs: those of the encoder, and `masked_lm_positions`, int32 [B, P]. Of
            packed rows also `sentence_order_positions`, int32 [B, K], the first tokens
            of their documents.
          training: True to apply dropout.
          dropout_seed: as in the encoder.
          num_layers: layers to apply; None: all.
        Returns:
          dict of `masked_lm_logits` float32 [B, P, V] and `sentence_order_logits`
          float32 [B, 2], of packed rows [B, K, 2].
        """
        encoded = self.encoder(
            inputs,
            training=training,
            dropout_seed=dropout_seed,
            num_layers=num_layers,
        )
        pooled = encoded["pooled_output"]
        if DOCUMENT_IDS in inputs:
            places = inputs["sentence_order_positions"]
            first = tf.gather(encoded["sequence_output"], places, batch_dims=1)
            pooled = self.encoder.pooler(first)
        return {
            "masked_lm_logits": self.masked_lm(
                encoded["sequence_output"],
                inputs["masked_lm_positions"],
                self.encoder.embedding_table,
            ),
            "sentence_order_logits": self.sentence_order(pooled),
        }


class PooledHead(tf_keras.layers.Layer):
    """Dropout and a linear layer on the pooled output: logits, or a number."""

    # Prefix of the names of the variables.
    _SCOPE = ""

    def __init__(
        self,
        config: AlbertConfig,
        initializer: Initializer,
        num_outputs: int,
        dropout: float,
        **kwargs,
    ):
        """Makes the variables.

        Args:
          config: the model's configuration.
          initializer: makes the variables.
          num_outputs: numbers for each row.
          dropout: probability of dropping a value of the pooled output; in the original
            it is 0.1 whatever the configuration says.
          **kwargs: of the base class.
        """
        super().__init__(**kwargs)
        self.output_weights = initializer.weights(
            f"{self._SCOPE}output_weights", (num_outputs, config.hidden_size)
        )
        self.output_bias = initializer.constant(
            f"{self._SCOPE}output_bias", (num_outputs,), 0.0
        )
        self.dropout = Dropout(dropout)

    def call(
        self, pooled_output: tf.Tensor, seed: tf.Tensor | None = None
    ) -> tf.Tensor:
        """[B, H] -> logits, float32 [B, num_outputs]; a seed of None drops nothing."""
        pooled = tf.cast(pooled_output, tf.float32)
        pooled = self.dropout(pooled, seed, HEAD_SITE)
        return tf.matmul(pooled, self.output_weights, transpose_b=True) + (
            self.output_bias
        )


@tf_keras.utils.register_keras_serializable(package="albert_tf")
class ClassificationModel(EncoderWithHeads):
    """The encoder with a logit for each label, or with one number for a regression."""

    # The head, and the output of the encoder that it takes.
    _HEAD: type[PooledHead] = PooledHead
    _HEAD_INPUT = "pooled_output"

    def __init__(
        self,
        config: AlbertConfig | Mapping[str, Any],
        *,
        num_outputs: int,
        head_dropout: float = 0.1,
        **kwargs,
    ):
        """Makes all variables.

        Args:
          config: as in `AlbertEncoder`.
          num_outputs: number of labels; 1 for a regression.
          head_dropout: probability of dropping a value of the head's input.
          **kwargs: `seed` and `rematerialize`, as in `AlbertEncoder`.
        """
        super().__init__(config, **kwargs)
        self._num_outputs, self._head_dropout = num_outputs, head_dropout
        with policy_scope(self.dtype_policy):
            self.head = self._HEAD(
                self.encoder.config, self._initializer(), num_outputs, head_dropout
            )

    def call(
        self,
        inputs: Mapping[str, tf.Tensor],
        training: bool | None = False,
        dropout_seed: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """Computes `logits` float32 [B, num_outputs]; arguments as in the encoder."""
        seed = resolve_seed(training, dropout_seed)
        encoded = self.encoder(inputs, training=training, dropout_seed=seed)
        return {"logits": self.head(encoded[self._HEAD_INPUT], seed)}

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments as JSON values."""
        return {
            **super().get_config(),
            "num_outputs": self._num_outputs,
            "head_dropout": self._head_dropout,
        }


@tf_keras.utils.register_keras_serializable(package="albert_tf")
class MultipleChoiceModel(EncoderWithHeads):
    """The encoder on every option of a question, and a logit for each option."""

    def __init__(
        self,
        config: AlbertConfig | Mapping[str, Any],
        *,
        head_dropout: float = 0.1,
        **kwargs,
    ):
        """Makes all variables; arguments as in `ClassificationModel`."""
        super().__init__(config, **kwargs)
        self._head_dropout = head_dropout
        with policy_scope(self.dtype_policy):
            self.head = PooledHead(
                self.encoder.config, self._initializer(), 1, head_dropout
            )

    def call(
        self,
        inputs: Mapping[str, tf.Tensor],
        training: bool | None = False,
        dropout_seed: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """Computes the logits of the options of a batch of questions.

        Args:
          inputs: dict of int32 [B, C, S]: `input_ids`, `input_mask`, `segment_ids`. An
            option whose mask is 0 throughout is missing.
          training: True to apply dropout.
          dropout_seed: as in the encoder.
        Returns:
          dict of `logits` float32 [B, C]; their softmax over C gives probabilities.
        """
        seed = resolve_seed(training, dropout_seed)
        shape = tf.shape(inputs["input_ids"])
        flat = flatten_rows(inputs)
        encoded = self.encoder(flat, training=training, dropout_seed=seed)
        logits = self.head(encoded["pooled_output"], seed)
        present = tf.reduce_any(inputs["input_mask"] > 0, axis=-1)
        logits = tf.where(present, tf.reshape(logits, shape[:2]), MISSING_LOGIT)
        return {"logits": tf.ensure_shape(logits, inputs["input_ids"].shape[:2])}

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments as JSON values."""
        return {**super().get_config(), "head_dropout": self._head_dropout}


class TokenHead(PooledHead):
    """Dropout and a linear layer on each token's output: logits of its tags."""

    _SCOPE = "cls/tagging/"

    def call(
        self, sequence_output: tf.Tensor, seed: tf.Tensor | None = None
    ) -> tf.Tensor:
        """[B, S, H] -> logits, float32 [B, S, num_outputs]; a seed of None drops
        nothing."""
        tokens = tf.cast(sequence_output, tf.float32)
        tokens = self.dropout(tokens, seed, HEAD_SITE)
        logits = tf.einsum("bsh,kh->bsk", tokens, self.output_weights)
        return logits + self.output_bias


@tf_keras.utils.register_keras_serializable(package="albert_tf")
class TokenClassificationModel(ClassificationModel):
    """The encoder with logits of a tag for each token, float32 [B, S, num_outputs]."""

    _HEAD, _HEAD_INPUT = TokenHead, "sequence_output"

    def __init__(self, config: AlbertConfig | Mapping[str, Any], **kwargs):
        """Makes all variables; arguments as in `ClassificationModel`."""
        super().__init__(config, **kwargs)
        self.encoder.freeze_pooler()
