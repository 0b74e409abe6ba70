"""The ALBERT encoder: factorized embeddings and one block shared by all layers.

Letters in shapes: B batch, S sequence, E embedding, H hidden, V vocabulary, T tokens.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from albert_tf.config import AlbertConfig
from albert_tf.model.blocks import FeedForward, SelfAttention, TransformerBlock
from albert_tf.model.compilation import compiled_by_xla, trace_once
from albert_tf.model.documents import (
    DOCUMENT_IDS,
    document_ids_of,
    mask_logits,
    positions_in_documents,
)
from albert_tf.model.dropout import EMBEDDING_SITE, Dropout, resolve_seed
from albert_tf.model.layers import Initializer, LayerNorm, Projection
from albert_tf.model.precision import policy_scope
from albert_tf.model.token_rows import AllRows, Rows, TokenRows


class FactorizedEmbedding(tf_keras.layers.Layer):
    """Sum of token, segment and position embeddings of width E (section 3.1)."""

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

    def call(
        self,
        input_ids: tf.Tensor,
        segment_ids: tf.Tensor,
        seed: tf.Tensor | None = None,
        document_ids: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Looks up and adds the embeddings.

        Args:
          input_ids: int32 [B, S].
          segment_ids: int32 [B, S].
          seed: int32 [2] of dropout, or None to drop nothing.
          document_ids: int32 [B, S]; positions restart in each document. None: they
            are those of the row.
        Returns:
          [B, S, E].
        """
        length = self._checked_length(input_ids)
        # A product with one-hot rows: the table has few rows, and its gradient is then
        # a product as well instead of a scatter from every position.
        segments = tf.one_hot(segment_ids, self.token_type_embeddings.shape[0])
        embedded = tf.gather(self.word_embeddings, input_ids)
        embedded += tf.einsum("BST,TE->BSE", segments, self.token_type_embeddings)
        if document_ids is None:
            embedded += self.position_embeddings[:length]
        else:
            positions = positions_in_documents(document_ids)
            embedded += tf.gather(self.position_embeddings, positions)
        return self.dropout(self.layer_norm(embedded), seed, EMBEDDING_SITE)

    def infer(
        self,
        input_ids: tf.Tensor,
        segment_ids: tf.Tensor,
        tokens: TokenRows,
        document_ids: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """The inference form of `call`: int32 [B, S], three times -> [T, E]."""
        ids, segments = (
            tokens.collect(tf.reshape(values, [-1]))
            for values in (input_ids, segment_ids)
        )
        columns = tokens.positions % self._checked_length(input_ids)
        if document_ids is not None:
            positions = positions_in_documents(document_ids)
            columns = tokens.collect(tf.reshape(positions, [-1]))
        embedded = tf.gather(self.word_embeddings, ids)
        embedded += tf.gather(self.token_type_embeddings, segments)
        embedded += tf.gather(self.position_embeddings, columns)
        return self.layer_norm(embedded)

    def _checked_length(self, input_ids: tf.Tensor) -> tf.Tensor:
        """S, once it is known that there are as many positions."""
        length = tf.shape(input_ids)[1]
        check = tf.debugging.assert_less_equal(
            length,
            self.position_embeddings.shape[0],
            "The input is longer than max_position_embeddings: shorten it.",
        )
        # In a graph the check must run before what uses the length, whose error says
        # less; eagerly it has already run.
        with tf.control_dependencies([check] if check is not None else []):
            return tf.identity(length)


@tf_keras.utils.register_keras_serializable(package="albert_tf")
class AlbertEncoder(tf_keras.layers.Layer):
    """Embeddings, projection to H, L layers that share blocks, and the tanh pooler.

    Parameters do not grow with `num_hidden_layers`: layer i applies the blocks of group
    i * groups // L (integer arithmetic; the original's float division is wrong for some
    pairs), all of the group's inner blocks in turn.
    """

    def __init__(
        self,
        config: AlbertConfig | Mapping[str, Any],
        *,
        seed: int | None = None,
        rematerialize: str = "none",
        **kwargs,
    ):
        """Makes all variables.

        Args:
          config: the model's configuration, or its values by released keys.
          seed: seed of the initial weights; None takes fresh entropy.
          rematerialize: part that the backward pass computes again instead of keeping
            it: "none", "attention" (the probabilities) or "block" (whole blocks).
          **kwargs: of the base class.

        `skips_padding` may be set to False before a graph is made of the model: without
        `training` it then computes padding, too, by the operations that XLA compiles.
        Other formats than TensorFlow's take fixed shapes and these operations only, and
        so do `tf.vectorized_map` and gradients with respect to the outputs of layers.
        """
        super().__init__(**kwargs)
        if not isinstance(config, AlbertConfig):
            config = AlbertConfig.from_dict(dict(config))
        self.config = config
        self._seed = seed
        self._rematerialize = rematerialize
        self.skips_padding = True
        initializer = Initializer(config.initializer_range, seed)
        with policy_scope(self.dtype_policy):
            self.embeddings = FactorizedEmbedding(config, initializer)
            # BERT, with E = H, has no projection (as in the original).
            self.embedding_projection = None
            if config.has_embedding_projection:
                self.embedding_projection = Projection(
                    "bert/encoder/embedding_hidden_mapping_in",
                    (config.embedding_size, config.hidden_size),
                    initializer,
                )
            self.blocks = _shared_blocks(config, initializer, rematerialize)
            # Keras's own file format, .keras, does not look into lists of lists.
            self._distinct_blocks = _distinct(self.blocks)
            self.pooler = Projection(
                "bert/pooler/dense", (config.hidden_size,) * 2, initializer, "tanh"
            )

    @property
    def embedding_table(self) -> tf.Variable:
        """Token embeddings [V, E], to which the masked-LM head is tied."""
        return self.embeddings.word_embeddings

    def freeze_pooler(self) -> None:
        """Excludes the pooler from training, for losses that do not depend on it.

        Otherwise weight decay alone would shrink its weights to 0.
        """
        self.pooler.trainable = False

    def call(
        self,
        inputs: Mapping[str, tf.Tensor],
        training: bool | None = False,
        dropout_seed: tf.Tensor | None = None,
        num_layers: int | None = None,
    ) -> dict[str, Any]:
        """Encodes one batch.

        Args:
          inputs: dict of int32 [B, S]: `input_ids`; `input_mask`, 1 for a token and 0
            for padding; `segment_ids`, 0 or 1. In packed rows also `document_ids`:
            attention then stays inside each document, in which positions restart.
          training: True to apply dropout, and for fast gradients. Where XLA does not
            compile, only tokens are computed, in training if the shape of `input_ids`
            is not known when the graph is built.
          dropout_seed: int32 [2]; same seed, same masks. None takes one from
            TensorFlow's global generator if `training`.
          num_layers: layers to apply, for pretraining that grows; None: all. Parameter
            groups are those of a model of so many layers, which they must divide.
        Returns:
          dict of `sequence_output` [B, S, H], `pooled_output` [B, H] (tanh of the
          first position's projection), `encoder_outputs`, a list of [B, S, H], one for
          each block that is applied, and `embedding_output` [B, S, E]. At padding
          they hold values without a meaning: 0, or what the layers make of it.
          Layers do not read these tensors where they compute on tokens alone or train
          without XLA. A gradient with respect to one is None there, other than that of
          `embedding_output` in training.
        """
        if self.config.attention_window and DOCUMENT_IDS in inputs:
            raise ValueError(
                "A model with an attention_window takes rows of one document, without "
                f"{DOCUMENT_IDS}: make rows that are not packed."
            )
        seed = resolve_seed(training, dropout_seed)
        blocks = self._applied_blocks(num_layers)
        if not compiled_by_xla():
            if training:
                return self._train(inputs, seed, blocks)
            if self.skips_padding:
                return self._infer(inputs, blocks)
        documents = document_ids_of(inputs)
        embedding_output = self.embeddings(
            inputs["input_ids"], inputs["segment_ids"], seed, documents
        )
        logits = mask_logits(inputs["input_mask"], documents)
        hidden = embedding_output
        if self.embedding_projection is not None:
            hidden = self.embedding_projection(hidden)
        encoder_outputs = []
        apply_block = trace_once(blocks, _call)
        for index, block in enumerate(blocks):
            hidden = apply_block(block, hidden, logits, seed, index)
            encoder_outputs.append(hidden)
        return {
            "sequence_output": hidden,
            "pooled_output": self.pooler(hidden[:, 0]),
            "encoder_outputs": encoder_outputs,
            "embedding_output": embedding_output,
        }

    def _train(
        self,
        inputs: Mapping[str, tf.Tensor],
        seed: tf.Tensor,
        blocks: Sequence[TransformerBlock],
    ) -> dict[str, Any]:
        ids, mask, segments = _of_one_shape(inputs)
        documents = document_ids_of(inputs)
        embedded = self.embeddings(ids, segments, seed, documents)
        logits = mask_logits(mask, documents)
        fixed = ids.shape.is_fully_defined()
        tokens: Rows = AllRows(logits) if fixed else TokenRows.of(mask, logits)
        rows = tokens.collect(tf.reshape(embedded, [-1, embedded.shape[-1]]))
        if self.embedding_projection is not None:
            kernel = self.embedding_projection.shared_kernel()
            rows, _ = self.embedding_projection.train(rows, kernel)
        outputs = []
        apply_block = trace_once(blocks, TransformerBlock.train)
        layers = [layer for b in blocks for layer in (b.attention, b.feed_forward)]
        weights = {layer: layer.shared_weights() for layer in dict.fromkeys(layers)}
        for index, block in enumerate(blocks):
            shared = block.attention, block.feed_forward
            rows, passed_on = apply_block(
                block,
                rows,
                tokens,
                tuple(weights[layer] for layer in shared),
                seed,
                index,
            )
            weights |= zip(shared, passed_on, strict=True)
            outputs.append(rows)
        return {
            **_outputs(tokens, outputs),
            "pooled_output": self.pooler(tokens.first(rows)),
            "embedding_output": embedded,
        }

    def _infer(
        self, inputs: Mapping[str, tf.Tensor], blocks: Sequence[TransformerBlock]
    ) -> dict[str, Any]:
        ids, mask, segments = _of_one_shape(inputs)
        documents = document_ids_of(inputs)
        tokens = TokenRows.of(mask, mask_logits(mask, documents))
        embedded = self.embeddings.infer(ids, segments, tokens, documents)
        rows = tf.cast(embedded, self.compute_dtype)
        if self.embedding_projection is not None:
            rows = self.embedding_projection.infer(rows)
        outputs = []
        apply_block = trace_once(blocks, TransformerBlock.infer)
        attentions = {id(block.attention): block.attention for block in blocks}
        joined = {key: attention.join() for key, attention in attentions.items()}
        for block in blocks:
            rows = apply_block(block, rows, tokens, joined[id(block.attention)])
            outputs.append(rows)
        return {
            **_outputs(tokens, outputs),
            "pooled_output": self.pooler.infer(tokens.first(rows)),
            "embedding_output": tokens.pad(embedded),
        }

    def _applied_blocks(self, num_layers: int | None) -> list[TransformerBlock]:
        """The blocks of so many layers, or of all, in the order of their use.

        The layers are spread evenly, so that those of each group become fewer alike.
        """
        layers = len(self.blocks)
        applied = layers if num_layers is None else num_layers
        if not 1 <= applied <= layers:
            raise ValueError(
                f"num_layers must be from 1 to {layers}, the layers of the model. "
                f"Received {applied}."
            )
        chosen = (self.blocks[index * layers // applied] for index in range(applied))
        return [block for layer in chosen for block in layer]

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments as JSON values."""
        return {
            **super().get_config(),
            "config": self.config.to_dict(),
            "seed": self._seed,
            "rematerialize": self._rematerialize,
        }


def _distinct(layers: Sequence[Sequence[TransformerBlock]]) -> list[TransformerBlock]:
    """All blocks, each once, in the order of their first use."""
    return list({id(block): block for layer in layers for block in layer}.values())


def _of_one_shape(inputs: Mapping[str, tf.Tensor]) -> list[tf.Tensor]:
    """Ids, mask and segments, [B, S] each: places of tokens are the same in all."""
    ids = tf.convert_to_tensor(inputs["input_ids"])
    others = (
        tf.ensure_shape(tf.broadcast_to(inputs[name], tf.shape(ids)), ids.shape)
        for name in ("input_mask", "segment_ids")
    )
    return [ids, *others]


def _outputs(tokens: Rows, outputs: Sequence[tf.Tensor]) -> dict[str, Any]:
    """The encoder's outputs of all blocks, from their rows, [T, H] each."""
    padded = [tokens.pad(output) for output in outputs]
    return {"sequence_output": padded[-1], "encoder_outputs": padded}


def _call(block: TransformerBlock, *arguments: Any) -> tf.Tensor:
    # Not `TransformerBlock.__call__`, which Keras replaces in graphs of TensorFlow 1.
    return block(*arguments)


def _shared_blocks(
    config: AlbertConfig, initializer: Initializer, rematerialize: str
) -> list[list[TransformerBlock]]:
    """Inner blocks of each layer; layers of one group hold the same objects."""

    def build(layer_class: type, groups: int, **options: Any) -> list[list[Any]]:
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
        recompute_probabilities=rematerialize == "attention",
    )
    feed_forwards = build(FeedForward, groups["ffn_groups"])
    recompute_all = rematerialize == "block"
    blocks: dict[tuple[int, int], list[TransformerBlock]] = {}
    layers = []
    for layer in range(config.num_hidden_layers):
        a = layer * len(attentions) // config.num_hidden_layers
        f = layer * len(feed_forwards) // config.num_hidden_layers
        if (a, f) not in blocks:
            blocks[a, f] = [
                TransformerBlock(attention, feed_forward, recompute_all=recompute_all)
                for attention, feed_forward in zip(
                    attentions[a], feed_forwards[f], strict=True
                )
            ]
        layers.append(blocks[a, f])
    return layers
