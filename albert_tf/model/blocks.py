"""The transformer block: self-attention and a feed-forward part, each with a residual.

Letters in shapes: B batch, S sequence, H hidden, T tokens.
"""

import tensorflow as tf
import tf_keras

from albert_tf.config import AlbertConfig
from albert_tf.model.dropout import Dropout, Site, block_sites
from albert_tf.model.inference import JoinedProjection, TokenRows, attend_rows
from albert_tf.model.kernels import attend
from albert_tf.model.layers import Initializer, LayerNorm, Projection
from albert_tf.model.recomputation import recompute


class SelfAttention(tf_keras.layers.Layer):
    """Multi-head self-attention, its output projection, residual and LayerNorm."""

    def __init__(
        self,
        config: AlbertConfig,
        initializer: Initializer,
        scope: str,
        *,
        recompute_probabilities: bool = False,
        **kwargs,
    ):
        """Makes the variables.

        Args:
          config: the model's configuration.
          initializer: makes the variables.
          scope: released name of the block, `.../group_G/inner_group_I`.
          recompute_probabilities: True if the backward pass computes the probabilities
            again instead of keeping them.
          **kwargs: of the base class.
        """
        super().__init__(**kwargs)
        hidden = config.hidden_size
        self._heads = config.num_attention_heads
        self._recompute_probabilities = recompute_probabilities

        def project(name: str) -> Projection:
            return Projection(
                f"{scope}/attention_1/{name}", (hidden, hidden), initializer
            )

        self.query = project("self/query")
        self.key = project("self/key")
        self.value = project("self/value")
        self.output_projection = project("output/dense")
        self.layer_norm = LayerNorm(f"{scope}/LayerNorm", hidden, initializer)
        self.dropout = Dropout(config.hidden_dropout_prob)
        self.probability_dropout = Dropout(config.attention_probs_dropout_prob)

    def call(
        self,
        hidden: tf.Tensor,
        mask_logits: tf.Tensor,
        seed: tf.Tensor | None,
        index: Site,
    ) -> tf.Tensor:
        """Applies attention.

        Args:
          hidden: [B, S, H].
          mask_logits: float32 [B, 1, 1, S]: 0, or a large negative number for padding.
          seed: int32 [2] of dropout, or None to drop nothing.
          index: number of this application of a block, from 0, for dropout.
        Returns:
          [B, S, H].
        """
        sites = block_sites(index)

        def drop(probabilities: tf.Tensor) -> tf.Tensor:
            return self.probability_dropout(probabilities, seed, sites.probabilities)

        context = attend(
            self.query(hidden, self._heads),
            self.key(hidden, self._heads),
            self.value(hidden, self._heads),
            mask_logits,
            drop,
            self._recompute_probabilities,
        )
        context = tf.reshape(context, tf.shape(hidden))
        output = self.dropout(self.output_projection(context), seed, sites.attention)
        return self.layer_norm(hidden + output)

    def join(self) -> JoinedProjection:
        """Joins query, key and value, for `infer`.

        It copies weights: once is enough for all layers that share them.
        """
        parts = (self.query, self.key, self.value)
        kernels = [tf.cast(part.kernel, self.compute_dtype) for part in parts]
        biases = [tf.cast(part.bias, self.compute_dtype) for part in parts]
        return JoinedProjection(tf.concat(kernels, axis=1), tf.concat(biases, axis=0))

    def infer(
        self, rows: tf.Tensor, tokens: TokenRows, joined: JoinedProjection
    ) -> tf.Tensor:
        """The inference form of `call`: [T, H] -> [T, H]; `joined` is `join()`."""
        context = attend_rows(joined(rows), tokens, self._heads)
        return self.layer_norm(self.output_projection.infer(context) + rows)


class FeedForward(tf_keras.layers.Layer):
    """Two projections with an activation between, residual and LayerNorm."""

    def __init__(
        self, config: AlbertConfig, initializer: Initializer, scope: str, **kwargs
    ):
        """Makes the variables; arguments as in `SelfAttention`."""
        super().__init__(**kwargs)
        hidden, inner = config.hidden_size, config.intermediate_size
        self.intermediate = Projection(
            f"{scope}/ffn_1/intermediate/dense",
            (hidden, inner),
            initializer,
            config.hidden_act,
        )
        self.output_projection = Projection(
            f"{scope}/ffn_1/intermediate/output/dense", (inner, hidden), initializer
        )
        self.layer_norm = LayerNorm(f"{scope}/LayerNorm_1", hidden, initializer)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def call(self, hidden: tf.Tensor, seed: tf.Tensor | None, index: Site) -> tf.Tensor:
        """[B, S, H] -> [B, S, H]; `seed` and `index` as in `SelfAttention`."""
        output = self.output_projection(self.intermediate(hidden))
        output = self.dropout(output, seed, block_sites(index).feed_forward)
        return self.layer_norm(hidden + output)

    def infer(self, rows: tf.Tensor) -> tf.Tensor:
        """The inference form of `call`: [T, H] -> [T, H]."""
        output = self.output_projection.infer(self.intermediate.infer(rows))
        return self.layer_norm(output + rows)


class TransformerBlock(tf_keras.layers.Layer):
    """Attention, then feed-forward; blocks may share either of them."""

    def __init__(
        self,
        attention: SelfAttention,
        feed_forward: FeedForward,
        *,
        recompute_all: bool = False,
        **kwargs,
    ):
        """Joins two layers.

        Args:
          attention: first layer; may be part of other blocks, too.
          feed_forward: second layer; may be part of other blocks, too.
          recompute_all: True if the backward pass computes the block again.
          **kwargs: of the base class.
        """
        super().__init__(**kwargs)
        self.attention = attention
        self.feed_forward = feed_forward
        self._recompute_all = recompute_all

    def call(
        self,
        hidden: tf.Tensor,
        mask_logits: tf.Tensor,
        seed: tf.Tensor | None,
        index: Site,
    ) -> tf.Tensor:
        """[B, S, H] -> [B, S, H]; arguments as in `SelfAttention`."""

        def apply(hidden: tf.Tensor) -> tf.Tensor:
            hidden = self.attention(hidden, mask_logits, seed, index)
            return self.feed_forward(hidden, seed, index)

        return recompute(apply, hidden) if self._recompute_all else apply(hidden)

    def infer(
        self, rows: tf.Tensor, tokens: TokenRows, joined: JoinedProjection
    ) -> tf.Tensor:
        """The inference form of `call`, as in `SelfAttention`."""
        return self.feed_forward.infer(self.attention.infer(rows, tokens, joined))
