"""The transformer block: self-attention and a feed-forward part, each with a residual.

Letters in shapes: B batch, S sequence, H hidden, T tokens.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import tensorflow as tf
import tf_keras

from albert_tf.config import AlbertConfig
from albert_tf.model import local_attention, xla_attention
from albert_tf.model.compilation import compiled_by_xla
from albert_tf.model.dropout import Dropout, Site, block_sites
from albert_tf.model.inference import JoinedProjection, attend_rows
from albert_tf.model.layers import Initializer, LayerNorm, Projection
from albert_tf.model.recomputation import recompute
from albert_tf.model.shared_kernels import SharedKernel
from albert_tf.model.token_rows import Rows, TokenRows


class AttentionWeights(NamedTuple):
    """Weights of `SelfAttention` on their way through the layers that share them.

    Attributes:
      joined: kernels of query, key and value next to each other; that of the query is
        scaled as attention needs it.
      joined_bias: their biases, in the compute dtype.
      output: kernel of the output projection.
    """

    joined: SharedKernel
    joined_bias: tf.Tensor
    output: SharedKernel


class FeedForwardWeights(NamedTuple):
    """Kernels of `FeedForward` on their way through the layers that share them."""

    intermediate: SharedKernel
    output: SharedKernel


BlockWeights: TypeAlias = tuple[AttentionWeights, FeedForwardWeights]


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
        self._window = local_attention.Window.of(config)
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
          mask_logits: float32 [B, 1, 1, S] or [B, 1, S, S]: 0, or a large negative
            number for what is hidden; of `documents.mask_logits`.
          seed: int32 [2] of dropout, or None to drop nothing.
          index: number of this application of a block, from 0, for dropout.
        Returns:
          [B, S, H].
        """
        sites = block_sites(index)

        def drop(probabilities: tf.Tensor) -> tf.Tensor:
            return self.probability_dropout(probabilities, seed, sites.probabilities)

        if compiled_by_xla():
            output = self._attend_under_xla(hidden, mask_logits, drop)
        else:
            output = self._attend(hidden, mask_logits, drop)
        output = self.dropout(output, seed, sites.attention)
        return self.layer_norm(hidden + output)

    def _attend(
        self,
        hidden: tf.Tensor,
        mask_logits: tf.Tensor,
        drop: Callable[[tf.Tensor], tf.Tensor],
    ) -> tf.Tensor:
        """Attention and its output projection: [B, S, H] -> [B, S, H]."""
        shape = tf.shape(hidden)
        axes = [self._heads, hidden.shape[-1] // self._heads]
        heads = tf.concat([shape[:2], axes], axis=0)
        query, key, value = (
            tf.transpose(tf.reshape(part(hidden), heads), [0, 2, 1, 3])
            for part in (self.query, self.key, self.value)
        )
        query *= axes[1] ** -0.5
        parts = (query, key, value)
        context = local_attention.attend(parts, mask_logits, self._window, drop)
        context = tf.transpose(context, [0, 2, 1, 3])
        return self.output_projection(tf.reshape(context, shape))

    def shared_weights(self) -> AttentionWeights:
        """The weights as `train` of the first layer takes them."""
        parts = (self.query, self.key, self.value)
        width = self.query.kernel.shape[1] // self._heads
        scales = (width**-0.5, 1.0, 1.0)
        kernels, biases = (
            [values * scale for values, scale in zip(weights, scales, strict=True)]
            for weights in zip(*((p.kernel, p.bias) for p in parts), strict=True)
        )
        return AttentionWeights(
            SharedKernel.of(tf.concat(kernels, axis=1), self.compute_dtype),
            tf.cast(tf.concat(biases, axis=0), self.compute_dtype),
            self.output_projection.shared_kernel(),
        )

    def train(
        self,
        rows: tf.Tensor,
        tokens: Rows,
        weights: AttentionWeights,
        seed: tf.Tensor | None,
        index: Site,
    ) -> tuple[tf.Tensor, AttentionWeights]:
        """The training form of `call`, without XLA.

        Args:
          rows: [T, H].
          tokens: where they stand.
          weights: from `shared_weights` or from the layer before.
          seed: as of `call`.
          index: as of `call`.
        Returns:
          ([T, H], the weights for the next layer).
        """
        sites = block_sites(index)

        def drop(probabilities: tf.Tensor) -> tf.Tensor:
            return self.probability_dropout(probabilities, seed, sites.probabilities)

        product, joined = weights.joined.multiply(rows)
        product = tokens.spread(tf.nn.bias_add(product, weights.joined_bias))
        size = rows.shape[1]
        heads = [3, self._heads, size // self._heads]
        parts = tf.reshape(product, tf.concat([tokens.shape, heads], axis=0))
        parts = tf.unstack(tf.transpose(parts, [2, 0, 3, 1, 4]), num=3)
        context = local_attention.attend(
            parts,
            tokens.mask_logits,
            self._window,
            drop,
            self._recompute_probabilities,
        )
        context = tf.reshape(tf.transpose(context, [0, 2, 1, 3]), [-1, size])
        output, kernel = weights.output.multiply(tokens.collect(context))
        bias = self.output_projection.cast_bias()
        output, bias = _drop(self.dropout, tokens, output, bias, seed, sites.attention)
        weights = AttentionWeights(joined, weights.joined_bias, kernel)
        return self.layer_norm.add(output, bias, rows), weights

    def _attend_under_xla(
        self,
        hidden: tf.Tensor,
        mask_logits: tf.Tensor,
        drop: Callable[[tf.Tensor], tf.Tensor],
    ) -> tf.Tensor:
        """Attention and its output projection: [B, S, H] -> [B, S, H]."""
        parts = (self.query, self.key, self.value)
        dtype, width = self.compute_dtype, hidden.shape[-1]
        axes = [self._heads, width // self._heads]
        query_key, value = xla_attention.project_heads(
            hidden,
            [tf.reshape(tf.cast(p.kernel, dtype), [width, *axes]) for p in parts],
            [tf.reshape(tf.cast(p.bias, dtype), axes) for p in parts],
        )
        context = xla_attention.attend(
            query_key,
            value,
            mask_logits,
            drop,
            self._recompute_probabilities,
            self._window,
        )
        output = self.output_projection
        kernel, bias = (tf.cast(v, dtype) for v in (output.kernel, output.bias))
        return xla_attention.merge_heads(context, kernel, bias)

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
        context = attend_rows(joined(rows), tokens, self._heads, self._window)
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

    def shared_weights(self) -> FeedForwardWeights:
        """The weights as `train` of the first layer takes them."""
        return FeedForwardWeights(
            self.intermediate.shared_kernel(), self.output_projection.shared_kernel()
        )

    def train(
        self,
        rows: tf.Tensor,
        tokens: Rows,
        weights: FeedForwardWeights,
        seed: tf.Tensor | None,
        index: Site,
    ) -> tuple[tf.Tensor, FeedForwardWeights]:
        """The training form of `call`; as that of `SelfAttention`."""
        inner, intermediate = self.intermediate.train(rows, weights.intermediate)
        output, kernel = weights.output.multiply(inner)
        bias, site = self.output_projection.cast_bias(), block_sites(index).feed_forward
        output, bias = _drop(self.dropout, tokens, output, bias, seed, site)
        weights = FeedForwardWeights(intermediate, kernel)
        return self.layer_norm.add(output, bias, rows), weights

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

    def train(
        self,
        rows: tf.Tensor,
        tokens: Rows,
        weights: BlockWeights,
        seed: tf.Tensor | None,
        index: Site,
    ) -> tuple[tf.Tensor, BlockWeights]:
        """The training form of `call`, without XLA; as that of `SelfAttention`."""

        def apply(rows: tf.Tensor, *tensors: tf.Tensor) -> list[tf.Tensor]:
            attention, feed_forward = tf.nest.pack_sequence_as(weights, tensors)
            rows, attention = self.attention.train(rows, tokens, attention, seed, index)
            rows, feed_forward = self.feed_forward.train(
                rows, tokens, feed_forward, seed, index
            )
            return [rows, *tf.nest.flatten((attention, feed_forward))]

        tensors = (rows, *tf.nest.flatten(weights))
        outputs = recompute(apply, *tensors) if self._recompute_all else apply(*tensors)
        return outputs[0], tf.nest.pack_sequence_as(weights, outputs[1:])

    def infer(
        self, rows: tf.Tensor, tokens: TokenRows, joined: JoinedProjection
    ) -> tf.Tensor:
        """The inference form of `call`, as in `SelfAttention`."""
        return self.feed_forward.infer(self.attention.infer(rows, tokens, joined))


def _drop(
    dropout: Dropout,
    tokens: Rows,
    rows: tf.Tensor,
    bias: tf.Tensor,
    seed: tf.Tensor | None,
    site: Site,
) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Dropout of `rows + bias` as (rows, what is left to add to them).

    The mask is drawn for all positions, so that a token's does not depend on which
    others are padding.
    """
    if not dropout.drops(seed):
        return rows, bias
    dropped = dropout(tokens.pad(tf.nn.bias_add(rows, bias)), seed, site)
    return tokens.collect(tf.reshape(dropped, [-1, rows.shape[1]])), None
