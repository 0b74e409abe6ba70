"""Fills in blanks: the likeliest tokens for each [MASK] of a text.

A pretrained model does it, with its masked-language-model head. One class serves both a
SavedModel's signature and Python.

Letters in shapes: B rows, S tokens, M masks of a row, K tokens listed, V vocabulary.
"""

import dataclasses
from collections.abc import Sequence
from typing import final

import tensorflow as tf

from albert_tf.checkpoints import heads
from albert_tf.checkpoints.formats import POOLER_PREFIX, StoredWeights, read_weights
from albert_tf.checkpoints.load import HEADS, assign_weights
from albert_tf.checkpoints.model_dir import ModelDir
from albert_tf.config import AlbertConfig
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.heads import MaskedLanguageModelHead
from albert_tf.model.layers import Initializer
from albert_tf.serving.base import Answers, ServedRows, Signature, Tensors
from albert_tf.text import packing
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary import MASK

TOP_K = 5
# Few, so that the probabilities of a whole vocabulary at each mask take little memory.
_ROWS_AT_A_TIME = 8


class FillMaskModel(tf.Module):
    """The encoder with the masked-language-model head alone."""

    def __init__(self, config: AlbertConfig, encoder: AlbertEncoder | None = None):
        """Takes an encoder that has its weights; None: a new one."""
        super().__init__()
        self.encoder = encoder or AlbertEncoder(config, seed=0)
        initializer = Initializer(config.initializer_range, seed=0)
        self.masked_lm = MaskedLanguageModelHead(config, initializer)

    def __call__(self, inputs: Tensors, positions: tf.Tensor) -> tf.Tensor:
        """Computes logits, float32 [B, M, V], at `positions`, int32 [B, M]."""
        encoded = self.encoder(inputs, training=False)
        sequence = encoded["sequence_output"]
        return self.masked_lm(sequence, positions, self.encoder.embedding_table)


def require_head(stored: StoredWeights) -> None:
    """Raises ValueError if weights have no masked-language-model head."""
    found = heads.heads_of(stored.weights)
    if heads.MASKED_LM not in found:
        others = ", ".join(sorted(found)) or "none"
        raise ValueError(
            f"{stored.source} has no {heads.MASKED_LM} head (heads: {others}), so it "
            "cannot fill in blanks: pass a pretrained model; one that was fine-tuned "
            "has lost that head."
        )


def load_head(model: FillMaskModel, stored: StoredWeights) -> None:
    """Copies the head's weights into a model whose encoder has its own.

    Raises:
      ValueError: there are none.
    """
    require_head(stored)
    assign_weights(model.masked_lm, stored, unused_ok="")


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A token that may stand at a mask.

    Attributes:
      token: as the vocabulary has it: "▁paris", or of WordPiece "paris" and "##s".
      token_id: its id.
      probability: of the vocabulary's tokens.
    """

    token: str
    token_id: int
    probability: float


@final
class ServedFillMask(ServedRows):
    """The likeliest tokens for each mask.

    The signature takes `text` string [B], with any number of "[MASK]", and returns,
    with the masks of a text in their order:

    - `tokens` string [B, M, K], the likeliest first, "" where a text has fewer masks
      than others;
    - `token_ids` int32 [B, M, K], -1 there;
    - `probabilities` float32 [B, M, K], 0 there;
    - `truncated` bool [B], true if tokens at the end, and masks among them, were not
      read.
    """

    def __init__(
        self,
        model: FillMaskModel,
        config: AlbertConfig,
        tokenizer: AlbertTokenizer,
        top_k: int = TOP_K,
    ):
        """Serves a model.

        Args:
          model: the model, with its weights.
          config: its configuration.
          tokenizer: its tokenizer.
          top_k: tokens that are listed for each mask, K.
        Raises:
          ValueError: the vocabulary has more tokens than the model, or fewer than K.
        """
        super().__init__(model, config, tokenizer=tokenizer)
        size = tokenizer.vocab_size
        if size > config.vocab_size:
            raise ValueError(
                f"The vocabulary has {size} tokens, the model {config.vocab_size}: use "
                "the vocabulary that the model was trained with."
            )
        if not 1 <= top_k <= size:
            raise ValueError(
                f"top_k must be at least 1 and at most the vocabulary's size, {size}. "
                f"Received {top_k}."
            )
        self.top_k = top_k
        self._mask_id, self._vocab_size = tokenizer.mask_id, size
        self._tokens = [tokenizer.id_to_token(i) for i in range(size)]

    @classmethod
    def from_model_dir(cls, folder: ModelDir, top_k: int = TOP_K) -> "ServedFillMask":
        """Loads a pretrained model.

        Args:
          folder: content of its folder.
          top_k: see `__init__`.
        Raises:
          FileNotFoundError: the folder lacks a configuration or a vocabulary.
          ValueError: the model has no masked-language-model head, or the vocabulary is
            not its own.
        """
        config, tokenizer = folder.require_config(), folder.tokenizer()
        stored = read_weights(folder.checkpoint)
        require_head(stored)
        model = FillMaskModel(config)
        # Nothing here reads the pooler, which some classes of transformers lack.
        assign_weights(model, stored, missing_ok=f"^{POOLER_PREFIX}", unused_ok=HEADS)
        return cls(model, config, tokenizer, top_k)

    def answer(self, batch: Tensors) -> Answers:
        """Computes the likeliest tokens of each mask token of a batch."""
        is_mask = (batch["input_ids"] == self._mask_id) & (batch["input_mask"] > 0)
        columns = tf.broadcast_to(tf.range(tf.shape(is_mask)[1]), tf.shape(is_mask))
        places = tf.ragged.boolean_mask(columns, is_mask)
        positions = places.to_tensor()
        # A model may have rows for tokens that its vocabulary does not have.
        logits = self.model(batch, positions)[..., : self._vocab_size]
        probabilities, ids = tf.math.top_k(tf.nn.softmax(logits), self.top_k)
        is_there = tf.sequence_mask(places.row_lengths(), tf.shape(positions)[1])
        is_there = is_there[..., tf.newaxis]
        return {
            "tokens": tf.where(is_there, tf.gather(tf.constant(self._tokens), ids), ""),
            "token_ids": tf.where(is_there, ids, -1),
            "probabilities": tf.where(is_there, probabilities, 0.0),
        }

    def text_signature(self) -> Signature:
        """Makes the signature of texts."""
        return self.texts_signature(pair=False)

    def _answer_texts(self, first: tf.Tensor, second: tf.Tensor | None) -> Answers:
        assert second is None
        ids = self.graph_tokenizer.encode_with_masks(first)
        batch, truncated = self.pack(ids, None, shorten="longest")
        return {**self.checked_answer(batch), "truncated": truncated}

    def fill(self, texts: Sequence[str]) -> list[list[list[Candidate]]]:
        """Fills in the blanks of texts.

        Args:
          texts: texts with one "[MASK]" or several.
        Returns:
          For each text and each of its masks the likeliest tokens, best first.
        Raises:
          ValueError: a text has no mask, or is longer than the model reads.
        """
        for text in texts:
            if MASK not in text:
                raise ValueError(
                    f"{_shown(text)} has no {MASK}: write it in place of a word, as in "
                    f'"The capital of France is {MASK}."'
                )
        self._check_lengths(texts)
        filled = []
        for first in range(0, len(texts), _ROWS_AT_A_TIME):
            part = texts[first : first + _ROWS_AT_A_TIME]
            answers = self._answer_texts(tf.constant(part), None)
            found = [answers[n].numpy().tolist() for n in _OF_MASKS]
            for text, *of_text in zip(part, *found, strict=True):
                of_masks = list(zip(*of_text, strict=True))[: text.count(MASK)]
                filled.append([_candidates(*of_mask) for of_mask in of_masks])
        return filled

    def _check_lengths(self, texts: Sequence[str]) -> None:
        """Raises ValueError for a text whose end, with its masks, would be cut away."""
        if not texts:
            return
        room = self.max_seq_length - packing.SPECIAL_TOKENS_OF_SINGLE
        ids = self.graph_tokenizer.encode_with_masks(tf.constant(texts))
        for text, length in zip(texts, ids.row_lengths().numpy(), strict=True):
            if length > room:
                raise ValueError(
                    f"{_shown(text)} has {length} tokens, and the model reads at most "
                    f"{room}: shorten the text around its {MASK}."
                )


_OF_MASKS = ("tokens", "token_ids", "probabilities")


def _candidates(
    tokens: Sequence[bytes], ids: Sequence[int], probabilities: Sequence[float]
) -> list[Candidate]:
    values = zip(tokens, ids, probabilities, strict=True)
    return [Candidate(token.decode(), i, p) for token, i, p in values]


def _shown(text: str) -> str:
    """A text in a message."""
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
