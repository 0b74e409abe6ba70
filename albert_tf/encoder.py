"""The ALBERT encoder: factorised embeddings and one block shared by all layers.

Every variable carries the name it has in the released TensorFlow 1 checkpoints, so
that name is written once, here. Layers make their variables when they are constructed:
all sizes are in the configuration, and a variable's initial value depends on
(seed, name) alone, not on what was built before it.

Letters in shapes: B batch, S sequence, E embedding, H hidden, N heads, D = H / N,
V vocabulary.
"""

import zlib

import numpy as np
import tensorflow as tf
import tf_keras

from albert_tf.config import AlbertConfig

_LAYER_NORM_EPSILON = 1e-12
# sqrt(2 / pi), and that times 0.044715: the constants of gelu's tanh form.
_GELU_LINEAR = float(np.sqrt(2.0 / np.pi))
_GELU_CUBIC = 0.044715 * _GELU_LINEAR


@tf.custom_gradient
def gelu(x):
    """The original's gelu, the tanh form; it differs from erf's by up to 4e-4.

    The gradient keeps `x` alone and is written out: a third of the element-wise passes
    that TensorFlow derives.
    """

    def tanh_part(square):
        return tf.tanh(x * (_GELU_LINEAR + _GELU_CUBIC * square))

    def gradient(upstream):
        square = tf.square(x)
        tanh = tanh_part(square)
        slope = _GELU_LINEAR + 3.0 * _GELU_CUBIC * square
        return upstream * (0.5 * (1.0 + tanh) * (1.0 + x * slope * (1.0 - tanh)))

    return 0.5 * x * (1.0 + tanh_part(tf.square(x))), gradient


@tf.custom_gradient
def layer_norm(x, gamma, beta):
    """Layer normalisation over the last axis, in float32.

    Args:
      x: float32 [..., size].
      gamma: float32 [size].
      beta: float32 [size].
    Returns:
      float32 [..., size]. The gradient keeps `x` and two numbers a row.
    """
    mean, variance = tf.nn.moments(x, axes=[-1], keepdims=True)
    scale = tf.math.rsqrt(variance + _LAYER_NORM_EPSILON)

    def gradient(upstream):
        normal = (x - mean) * scale
        leading = list(range(x.shape.rank - 1))
        inner = upstream * gamma
        along = tf.reduce_mean(inner * normal, axis=-1, keepdims=True)
        shift = tf.reduce_mean(inner, axis=-1, keepdims=True)
        x_gradient = scale * (inner - shift - normal * along)
        gamma_gradient = tf.reduce_sum(upstream * normal, axis=leading)
        return x_gradient, gamma_gradient, tf.reduce_sum(upstream, axis=leading)

    return (x - mean) * scale * gamma + beta, gradient


_ACTIVATIONS = {
    "gelu": gelu,
    "relu": tf.nn.relu,
    "tanh": tf.nn.tanh,
    "linear": tf.identity,
}
# Added to the logit of a padded position, as in the original: large enough to vanish in
# the softmax, small enough that a row of padding alone gives no NaN.
_MASKED_LOGIT = -10_000.0


class Initializer:
    """Truncated normal values that depend on the seed and the variable's name."""

    def __init__(self, initializer_range: float, seed: int | None = None):
        """Args:
        initializer_range: standard deviation; values beyond two of them are redrawn.
        seed: same seed, same weights; None takes fresh entropy.
        """
        fresh = np.random.SeedSequence(seed).generate_state(1)[0]
        self._seed = int(fresh) & 0x7FFFFFFF
        self._range = initializer_range

    def weights(self, name: str, shape: tuple[int, ...]) -> tf.Variable:
        """A float32 variable of random values."""
        seed = (self._seed, zlib.crc32(name.encode()) & 0x7FFFFFFF)
        value = tf.random.stateless_truncated_normal(shape, seed, 0.0, self._range)
        return tf.Variable(value, name=name)

    def constant(self, name: str, shape: tuple[int, ...], value: float) -> tf.Variable:
        """A float32 variable that starts at one value."""
        return tf.Variable(tf.fill(shape, value), name=name)


def activation(name: str):
    """The function that a configuration's `hidden_act` names."""
    return _ACTIVATIONS[name]


class Projection(tf_keras.layers.Layer):
    """`activation(inputs @ kernel + bias)` over the last axis."""

    def __init__(self, scope, sizes, initializer, activation_name="linear", **kwargs):
        """Args:
        scope: released name of the variables, less `/kernel` and `/bias`.
        sizes: (input width, output width).
        initializer: an `Initializer`.
        activation_name: as `hidden_act`.
        """
        super().__init__(**kwargs)
        self.kernel = initializer.weights(f"{scope}/kernel", sizes)
        self.bias = initializer.constant(f"{scope}/bias", sizes[1:], 0.0)
        self._activation = activation(activation_name)

    def call(self, inputs):
        """[..., in] -> [..., out], in the compute dtype."""
        kernel = tf.cast(self.kernel, self.compute_dtype)
        bias = tf.cast(self.bias, self.compute_dtype)
        # Two axes and no more: a product of matrices, not a batch of them.
        flat = tf.reshape(inputs, [-1, kernel.shape[0]])
        outputs = self._activation(tf.nn.bias_add(tf.matmul(flat, kernel), bias))
        shape = tf.concat([tf.shape(inputs)[:-1], kernel.shape[1:]], axis=0)
        outputs = tf.reshape(outputs, shape)
        outputs.set_shape([*inputs.shape[:-1], kernel.shape[1]])
        return outputs


class LayerNorm(tf_keras.layers.Layer):
    """Layer normalisation in float32 with the original's epsilon, 1e-12."""

    def __init__(self, scope, size, initializer, **kwargs):
        """Args:
        scope: released name of the variables, less `/gamma` and `/beta`.
        size: width of the last axis.
        initializer: an `Initializer`.
        """
        super().__init__(**kwargs)
        self.gamma = initializer.constant(f"{scope}/gamma", (size,), 1.0)
        self.beta = initializer.constant(f"{scope}/beta", (size,), 0.0)

    def call(self, inputs):
        """[..., size] -> the same shape and dtype."""
        values = tf.cast(inputs, tf.float32)
        normal = layer_norm(values, tf.identity(self.gamma), tf.identity(self.beta))
        return tf.cast(normal, self.compute_dtype)


class Dropout(tf_keras.layers.Layer):
    """Dropout whose mask is a function of (seed, site) and nothing else.

    So a resumed or recomputed step drops what the first one dropped.
    """

    def __init__(self, rate: float, **kwargs):
        super().__init__(**kwargs)
        self._rate = rate

    def call(self, inputs, seed, site: int):
        """Args:
        inputs: float tensor of any shape.
        seed: int32 [2], or None to drop nothing.
        site: number that tells this application from the others under the seed.
        """
        if self._rate == 0 or seed is None:
            return inputs
        own_seed = tf.random.experimental.stateless_fold_in(seed, site)
        return tf.nn.experimental.stateless_dropout(inputs, self._rate, own_seed)


class FactorizedEmbedding(tf_keras.layers.Layer):
    """Sum of piece, segment and position embeddings of width E (section 3.1)."""

    def __init__(self, config: AlbertConfig, initializer: Initializer, **kwargs):
        super().__init__(**kwargs)
        width, scope = config.embedding_size, "bert/embeddings"
        self.word_embeddings = initializer.weights(
            f"{scope}/word_embeddings", (config.vocab_size, width)
        )
        self.token_type_embeddings = initializer.weights(
            f"{scope}/token_type_embeddings", (config.type_vocab_size, width)
        )
        self.position_embeddings = initializer.weights(
            f"{scope}/position_embeddings", (config.max_position_embeddings, width)
        )
        self.layer_norm = LayerNorm(f"{scope}/LayerNorm", width, initializer)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def call(self, input_ids, segment_ids, seed=None):
        """int32 [B, S] and [B, S] -> [B, S, E]."""
        length = tf.shape(input_ids)[1]
        tf.debugging.assert_less_equal(
            length,
            self.position_embeddings.shape[0],
            "The input is longer than max_position_embeddings: shorten it.",
        )
        # A product with one-hot rows: the table is two rows high, and its gradient is
        # then a product as well instead of a scatter from every position.
        segments = tf.one_hot(segment_ids, self.token_type_embeddings.shape[0])
        embedded = tf.gather(self.word_embeddings, input_ids)
        embedded += tf.einsum("BST,TE->BSE", segments, self.token_type_embeddings)
        embedded += self.position_embeddings[:length]
        return self.dropout(self.layer_norm(embedded), seed, 0)


class SelfAttention(tf_keras.layers.Layer):
    """Multi-head self-attention, its output projection, residual and LayerNorm."""

    def __init__(self, config: AlbertConfig, initializer, scope: str, **kwargs):
        """Args:
        config: the model's shape.
        initializer: an `Initializer`.
        scope: released name of the block, `.../group_G/inner_group_I`.
        """
        super().__init__(**kwargs)
        hidden = config.hidden_size
        self._heads = config.num_attention_heads

        def project(name):
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

    def call(self, hidden, mask_logits, seed, site):
        """Args:
          hidden: [B, S, H].
          mask_logits: float32 [B, 1, 1, S], 0 or a large negative number, a position.
          seed: int32 [2] of dropout, or None.
          site: first of the block's dropout sites.
        Returns:
          [B, S, H].
        """
        query = self._split_heads(self.query(hidden))
        key = self._split_heads(self.key(hidden))
        value = self._split_heads(self.value(hidden))
        scale = 1.0 / np.sqrt(query.shape[-1])
        logits = tf.cast(tf.matmul(query, key, transpose_b=True), tf.float32)
        probabilities = tf.nn.softmax(logits * scale + mask_logits)
        probabilities = tf.cast(probabilities, self.compute_dtype)
        probabilities = self.probability_dropout(probabilities, seed, site)
        context = tf.transpose(tf.matmul(probabilities, value), [0, 2, 1, 3])
        context = tf.reshape(context, tf.shape(hidden))
        output = self.dropout(self.output_projection(context), seed, site + 1)
        return self.layer_norm(hidden + output)

    def _split_heads(self, values):
        """[B, S, H] -> [B, N, S, D]."""
        batch, length = tf.unstack(tf.shape(values)[:2])
        width = values.shape[-1] // self._heads
        values = tf.reshape(values, [batch, length, self._heads, width])
        return tf.transpose(values, [0, 2, 1, 3])


class FeedForward(tf_keras.layers.Layer):
    """Two projections with an activation between, residual and LayerNorm."""

    def __init__(self, config: AlbertConfig, initializer, scope: str, **kwargs):
        """Args: as `SelfAttention`."""
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

    def call(self, hidden, seed, site):
        """[B, S, H] -> [B, S, H]; `seed` and `site` as in `SelfAttention`."""
        output = self.output_projection(self.intermediate(hidden))
        return self.layer_norm(hidden + self.dropout(output, seed, site))


class TransformerBlock(tf_keras.layers.Layer):
    """Attention, then feed-forward. Blocks that share a part are given the same one."""

    DROPOUT_SITES = 3

    def __init__(self, attention: SelfAttention, feed_forward: FeedForward, **kwargs):
        super().__init__(**kwargs)
        self.attention = attention
        self.feed_forward = feed_forward

    def call(self, hidden, mask_logits, seed, site):
        """[B, S, H] -> [B, S, H]; arguments as in `SelfAttention`."""
        hidden = self.attention(hidden, mask_logits, seed, site)
        return self.feed_forward(hidden, seed, site + 2)


class AlbertEncoder(tf_keras.layers.Layer):
    """Embeddings, projection to H, L layers that share blocks, and the tanh pooler.

    Parameters do not grow with `num_hidden_layers`: layer i applies the blocks of group
    i * groups // L (integer arithmetic; the original's float division is wrong for some
    pairs), all of the group's inner blocks in turn.
    """

    def __init__(self, config: AlbertConfig, seed: int | None = None, **kwargs):
        """Args:
        config: the model's shape.
        seed: of the initial weights; None takes fresh entropy.
        """
        super().__init__(**kwargs)
        self.config = config
        self._seed = seed
        initializer = Initializer(config.initializer_range, seed)
        self.embeddings = FactorizedEmbedding(config, initializer)
        # BERT's case, E = H, has no projection (as the original).
        self.embedding_projection = None
        if config.embedding_size != config.hidden_size:
            self.embedding_projection = Projection(
                "bert/encoder/embedding_hidden_mapping_in",
                (config.embedding_size, config.hidden_size),
                initializer,
            )
        self.blocks = _shared_blocks(config, initializer)
        self.pooler = Projection(
            "bert/pooler/dense", (config.hidden_size,) * 2, initializer, "tanh"
        )

    @property
    def embedding_table(self) -> tf.Variable:
        """The piece embeddings [V, E], to which the masked-LM head is tied."""
        return self.embeddings.word_embeddings

    def call(self, inputs, training=False, dropout_seed=None):
        """Encodes one batch.

        Args:
          inputs: dict of int32 [B, S]: `input_ids`; `input_mask`, 1 for a piece and 0
            for padding; `segment_ids`, 0 or 1.
          training: whether to drop.
          dropout_seed: int32 [2]; same seed, same masks. None under `training` takes
            one from TensorFlow's global generator.
        Returns:
          dict of `sequence_output` [B, S, H], `pooled_output` [B, H] (tanh of the
          first position's projection), `encoder_outputs`, a list of [B, S, H], one a
          block (L * inner_group_num), and `embedding_output` [B, S, E].
        """
        if not training:
            dropout_seed = None
        elif dropout_seed is None:
            dropout_seed = tf.random.uniform([2], maxval=2**31 - 1, dtype=tf.int32)
        embedding_output = self.embeddings(
            inputs["input_ids"], inputs["segment_ids"], dropout_seed
        )
        visible = tf.cast(inputs["input_mask"], tf.float32)
        mask_logits = (1.0 - visible[:, tf.newaxis, tf.newaxis, :]) * _MASKED_LOGIT

        hidden = embedding_output
        if self.embedding_projection is not None:
            hidden = self.embedding_projection(hidden)
        encoder_outputs = []
        site = 1
        for blocks in self.blocks:
            for block in blocks:
                hidden = block(hidden, mask_logits, dropout_seed, site)
                site += TransformerBlock.DROPOUT_SITES
                encoder_outputs.append(hidden)
        return {
            "sequence_output": hidden,
            "pooled_output": self.pooler(hidden[:, 0]),
            "encoder_outputs": encoder_outputs,
            "embedding_output": embedding_output,
        }

    def get_config(self):
        """Constructor arguments as JSON values."""
        return {"config": self.config.to_dict(), "seed": self._seed}

    @classmethod
    def from_config(cls, config):
        """The encoder that `get_config` describes."""
        return cls(AlbertConfig.from_dict(config["config"]), config["seed"])


def _shared_blocks(config, initializer) -> list[list[TransformerBlock]]:
    """For each layer its inner blocks; layers of one group hold the same objects."""

    def build(layer_class, groups):
        scope = "bert/encoder/transformer/group_{}/inner_group_{}"
        return [
            [
                layer_class(config, initializer, scope.format(group, inner))
                for inner in range(config.inner_group_num)
            ]
            for group in range(groups)
        ]

    groups = config.groups
    attentions = build(SelfAttention, groups["attention_groups"])
    feed_forwards = build(FeedForward, groups["ffn_groups"])
    blocks = {}
    layers = []
    for layer in range(config.num_hidden_layers):
        a = layer * len(attentions) // config.num_hidden_layers
        f = layer * len(feed_forwards) // config.num_hidden_layers
        if (a, f) not in blocks:
            pairs = zip(attentions[a], feed_forwards[f], strict=True)
            blocks[a, f] = [TransformerBlock(*pair) for pair in pairs]
        layers.append(blocks[a, f])
    return layers
