"""The ALBERT encoder: factorised embeddings and one block shared by all layers.

Letters in shapes: B batch, S sequence, E embedding, H hidden, N heads, D = H / N,
V vocabulary.
"""

from collections import Counter
from collections.abc import Callable

import tensorflow as tf
import tf_keras

from albert_tf.config import AlbertConfig
from albert_tf.model.kernels import attend
from albert_tf.model.layers import Dropout, Initializer, LayerNorm, Projection
from albert_tf.model.recomputation import recompute

# Added to the logit of a padded position, as in the original: large enough to vanish in
# the softmax, small enough that a row of padding alone gives no NaN.
_MASKED_LOGIT = -10_000.0


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
        check = tf.debugging.assert_less_equal(
            length,
            self.position_embeddings.shape[0],
            "The input is longer than max_position_embeddings: shorten it.",
        )
        # Before the sum of unequal lengths fails with less to say; eagerly it has run.
        with tf.control_dependencies([check] if check is not None else []):
            length = tf.identity(length)
        # A product with one-hot rows: the table is two rows high, and its gradient is
        # then a product as well instead of a scatter from every position.
        segments = tf.one_hot(segment_ids, self.token_type_embeddings.shape[0])
        embedded = tf.gather(self.word_embeddings, input_ids)
        embedded += tf.einsum("BST,TE->BSE", segments, self.token_type_embeddings)
        embedded += self.position_embeddings[:length]
        return self.dropout(self.layer_norm(embedded), seed, 0)


class SelfAttention(tf_keras.layers.Layer):
    """Multi-head self-attention, its output projection, residual and LayerNorm."""

    def __init__(self, config, initializer, scope, rematerialize=False, **kwargs):
        """Args:
        config: the model's shape.
        initializer: an `Initializer`.
        scope: released name of the block, `.../group_G/inner_group_I`.
        rematerialize: whether the backward pass computes the probabilities again.
        """
        super().__init__(**kwargs)
        hidden = config.hidden_size
        self._heads = config.num_attention_heads
        self._rematerialize = rematerialize

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

        def drop(probabilities):
            return self.probability_dropout(probabilities, seed, site)

        parts = [p(hidden, self._heads) for p in (self.query, self.key, self.value)]
        context = attend(*parts, mask_logits, drop, self._rematerialize)
        context = tf.reshape(context, tf.shape(hidden))
        output = self.dropout(self.output_projection(context), seed, site + 1)
        return self.layer_norm(hidden + output)


class FeedForward(tf_keras.layers.Layer):
    """Two projections with an activation between, residual and LayerNorm."""

    def __init__(self, config, initializer, scope, **kwargs):
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

    def __init__(self, attention, feed_forward, rematerialize=False, **kwargs):
        """Args:
        attention: a `SelfAttention`.
        feed_forward: a `FeedForward`.
        rematerialize: whether the backward pass computes the block again.
        """
        super().__init__(**kwargs)
        self.attention = attention
        self.feed_forward = feed_forward
        self._rematerialize = rematerialize

    def call(self, hidden, mask_logits, seed, site):
        """[B, S, H] -> [B, S, H]; arguments as in `SelfAttention`."""

        def apply(hidden):
            hidden = self.attention(hidden, mask_logits, seed, site)
            return self.feed_forward(hidden, seed, site + 2)

        return recompute(apply, hidden) if self._rematerialize else apply(hidden)


class AlbertEncoder(tf_keras.layers.Layer):
    """Embeddings, projection to H, L layers that share blocks, and the tanh pooler.

    Parameters do not grow with `num_hidden_layers`: layer i applies the blocks of group
    i * groups // L (integer arithmetic; the original's float division is wrong for some
    pairs), all of the group's inner blocks in turn.
    """

    def __init__(
        self,
        config: AlbertConfig,
        seed: int | None = None,
        rematerialize: str = "none",
        **kwargs,
    ):
        """Args:
        config: the model's shape.
        seed: of the initial weights; None takes fresh entropy.
        rematerialize: what the backward pass computes again instead of keeping it:
          "none", "attention", its probabilities, or "block", whole blocks.
        """
        super().__init__(**kwargs)
        self.config = config
        self._seed = seed
        self._rematerialize = rematerialize
        initializer = Initializer(config.initializer_range, seed)
        self.embeddings = FactorizedEmbedding(config, initializer)
        # BERT's case, E = H, has no projection (as the original).
        self.embedding_projection = None
        if config.projects_embeddings:
            self.embedding_projection = Projection(
                "bert/encoder/embedding_hidden_mapping_in",
                (config.embedding_size, config.hidden_size),
                initializer,
            )
        self.blocks = _shared_blocks(config, initializer, rematerialize)
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
        apply_block = _trace_once(self.blocks)
        for blocks in self.blocks:
            for block in blocks:
                hidden = apply_block(block, hidden, mask_logits, dropout_seed, site)
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
        return {
            "config": self.config.to_dict(),
            "seed": self._seed,
            "rematerialize": self._rematerialize,
        }

    @classmethod
    def from_config(cls, config):
        """The encoder that `get_config` describes."""
        return cls(**{**config, "config": AlbertConfig.from_dict(config["config"])})


def _trace_once(layers) -> Callable:
    """A function that applies a block, which is traced once where layers share it.

    Building the graph of 24 shared layers then costs as one layer's, and the step is
    as fast, since TensorFlow puts the graph of a call in its place. A loop over the
    layers would also spare XLA the compilation of each, but its steps are slower.
    """
    uses = Counter(id(block) for blocks in layers for block in blocks)
    traced = {}

    def apply(block, hidden, mask_logits, seed, site):
        if uses[id(block)] == 1 or tf.executing_eagerly():
            return block(hidden, mask_logits, seed, site)
        if id(block) not in traced:
            traced[id(block)] = tf.function(block)
        # A tensor: a number would be traced anew for each layer.
        return traced[id(block)](hidden, mask_logits, seed, tf.constant(site))

    return apply


def _shared_blocks(config, initializer, rematerialize) -> list[list[TransformerBlock]]:
    """For each layer its inner blocks; layers of one group hold the same objects."""

    def build(layer_class, groups, **options):
        scope = "bert/encoder/transformer/group_{}/inner_group_{}"
        return [
            [
                layer_class(config, initializer, scope.format(group, inner), **options)
                for inner in range(config.inner_group_num)
            ]
            for group in range(groups)
        ]

    groups = config.groups
    attentions = build(
        SelfAttention,
        groups["attention_groups"],
        rematerialize=rematerialize == "attention",
    )
    feed_forwards = build(FeedForward, groups["ffn_groups"])
    blocks = {}
    layers = []
    for layer in range(config.num_hidden_layers):
        a = layer * len(attentions) // config.num_hidden_layers
        f = layer * len(feed_forwards) // config.num_hidden_layers
        if (a, f) not in blocks:
            pairs = zip(attentions[a], feed_forwards[f], strict=True)
            whole = rematerialize == "block"
            blocks[a, f] = [TransformerBlock(*pair, whole) for pair in pairs]
        layers.append(blocks[a, f])
    return layers
