"""The signatures of the original's hub modules, under their names.

Letters in shapes: B rows, S tokens, H hidden, P positions, V vocabulary.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from albert_tf.checkpoints import heads
from albert_tf.checkpoints.formats import StoredWeights
from albert_tf.checkpoints.load import assign_weights, released_name
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.heads import MaskedLanguageModelHead, SentenceOrderHead
from albert_tf.model.layers import Initializer
from albert_tf.serving import checks
from albert_tf.serving.base import IDS, Answers, Signature

NAMES = ("tokens", "sop", "mlm", "tokenization_info")


class HubModel(tf.Module):
    """A pretrained model as its hub module answers.

    - `tokens` takes `input_ids`, `input_mask`, `segment_ids`, int32 [B, S], and gives
      `sequence_output` [B, S, H] and `pooled_output` [B, H], float32 as all that
      follows;
    - `sop` gives these, and `sop_log_probs` [B, 2] of segments in order and swapped;
    - `mlm` takes `mlm_positions`, int32 [B, P], besides, and gives these two and
      `mlm_logits` [B * P, V], the rows' positions one after another as there;
    - `tokenization_info` takes nothing and gives `vocab_file`, the path of the
      vocabulary in the SavedModel, and `do_lower_case`.
    """

    def __init__(self, encoder: AlbertEncoder, stored: StoredWeights):
        """Adds the two heads of pretraining to an encoder.

        Args:
          encoder: the encoder, with its weights.
          stored: weights with both heads.
        Raises:
          ValueError: a head is missing.
        """
        super().__init__()
        found = heads.heads_of(stored.weights)
        missing = [
            head
            for head in (heads.MASKED_LM, heads.SENTENCE_ORDER)
            if head not in found
        ]
        if missing:
            raise ValueError(
                f"{stored.source} has no {' and no '.join(missing)} head, which the "
                "signatures of a hub module need: pass a pretrained model."
            )
        self.encoder, self.config = encoder, encoder.config
        initializer = Initializer(self.config.initializer_range, seed=0)
        self.masked_lm = MaskedLanguageModelHead(self.config, initializer)
        self.sentence_order = SentenceOrderHead(self.config, initializer)
        for head in (self.masked_lm, self.sentence_order):
            assign_weights(head, stored, unused_ok="")

    @property
    def head_weights(self) -> dict[str, tf.Variable]:
        """Released name -> variable of both heads."""
        layers = (self.masked_lm, self.sentence_order)
        return {released_name(v): v for layer in layers for v in layer.variables}

    def signatures(
        self, vocabulary: tf.saved_model.Asset, lower_case: bool
    ) -> Mapping[str, Signature]:
        """Makes the signatures.

        Args:
          vocabulary: the vocabulary's file.
          lower_case: whether texts are lower-cased.
        Returns:
          Name of `NAMES` -> signature.
        """
        ids = [tf.TensorSpec([None, None], tf.int32, name) for name in IDS]
        positions = tf.TensorSpec([None, None], tf.int32, "mlm_positions")

        @tf.function(input_signature=ids, autograph=False)
        def tokens(input_ids, input_mask, segment_ids):
            return self._encode(input_ids, input_mask, segment_ids)

        @tf.function(input_signature=ids, autograph=False)
        def sop(input_ids, input_mask, segment_ids):
            encoded = self._encode(input_ids, input_mask, segment_ids)
            logits = self.sentence_order(encoded["pooled_output"])
            return {**encoded, "sop_log_probs": tf.nn.log_softmax(logits)}

        @tf.function(input_signature=[*ids, positions], autograph=False)
        def mlm(input_ids, input_mask, segment_ids, mlm_positions):
            length = tf.shape(input_ids)[1]
            is_place = (mlm_positions >= 0) & (mlm_positions < length)
            checked = checks.refuse_unless(
                tf.reduce_all(is_place),
                "mlm_positions must be columns of input_ids.",
                {"mlm_positions": mlm_positions},
            )
            encoded = self._encode(input_ids, input_mask, segment_ids)
            table = self.encoder.embedding_table
            sequence = encoded["sequence_output"]
            logits = self.masked_lm(sequence, checked["mlm_positions"], table)
            flat = tf.reshape(logits, [-1, self.config.vocab_size])
            return {**encoded, "mlm_logits": flat}

        @tf.function(input_signature=[], autograph=False)
        def tokenization_info():
            return {
                "vocab_file": tf.identity(vocabulary.asset_path),
                "do_lower_case": tf.constant(lower_case),
            }

        return dict(zip(NAMES, (tokens, sop, mlm, tokenization_info), strict=True))

    def _encode(self, *ids: Any) -> Answers:
        batch = checks.checked_ids(dict(zip(IDS, ids, strict=True)), self.config)
        encoded = self.encoder(batch, training=False)
        names = ("sequence_output", "pooled_output")
        return {name: tf.cast(encoded[name], tf.float32) for name in names}
