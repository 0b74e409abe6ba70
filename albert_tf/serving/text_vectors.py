"""Vectors of any number of texts, by the encoder of a model.

Letters in shapes: N texts, B rows of a batch, H hidden.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints.formats import read_weights
from albert_tf.checkpoints.load import released_name
from albert_tf.checkpoints.model_dir import ModelDir
from albert_tf.config import AlbertConfig
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.sentence_vectors import pool
from albert_tf.serving.base import Tensors
from albert_tf.serving.batched_rows import answers, make_row, trace
from albert_tf.serving.create import load_model
from albert_tf.task_config import Embedding
from albert_tf.text import packing
from albert_tf.text.tokenizer import AlbertTokenizer

# Texts that are tokenized and answered together, so that memory does not grow with
# their number.
_TEXTS_AT_A_TIME = 2048


class Vectors(NamedTuple):
    """Vectors of some texts.

    Attributes:
      vectors: float32 [N, H], in the order of the texts.
      truncated: how many texts lost tokens at their end.
      empty: how many texts have no token.
    """

    vectors: np.ndarray
    truncated: int
    empty: int


class TextVectors:
    """An encoder that makes vectors of texts.

    Attributes:
      task: pooling, normalization and length.
      size: H.
    """

    def __init__(
        self,
        encoder: AlbertEncoder,
        config: AlbertConfig,
        task: Embedding,
        tokenizer: AlbertTokenizer,
        layer: int = -1,
    ):
        """Takes an encoder.

        Args:
          encoder: the encoder, with its weights.
          config: its configuration.
          task: pooling, normalization and length.
          tokenizer: its tokenizer.
          layer: as of `model.sentence_vectors.layer_output`.
        Raises:
          ValueError: there is no such layer, or the length is not one of the model.
        """
        longest = config.max_position_embeddings
        length = task.max_seq_length or longest
        if not packing.SPECIAL_TOKENS_OF_SINGLE < length <= longest:
            raise ValueError(
                f"max_seq_length must be above {packing.SPECIAL_TOKENS_OF_SINGLE} and "
                f"at most {longest}, the longest row of the model. Received {length}."
            )
        self.task, self.size = task, config.hidden_size
        self._encoder, self._tokenizer, self._layer = encoder, tokenizer, layer
        self._room = length - packing.SPECIAL_TOKENS_OF_SINGLE
        # A wrong layer is named before any text is read.
        self._function = trace(self._answer)

    @classmethod
    def from_model_dir(
        cls,
        folder: ModelDir,
        task: Embedding,
        layer: int = -1,
        use_ema: bool | None = None,
    ) -> "TextVectors":
        """Loads a model of any task, or of none.

        Args:
          folder: content of its folder.
          task: see `__init__`.
          layer: see `__init__`.
          use_ema: whether to take averaged weights; None: if there are any.
        Raises:
          FileNotFoundError: the folder lacks a configuration or a vocabulary.
        """
        config, tokenizer = folder.require_config(), folder.tokenizer()
        stored = read_weights(folder.checkpoint, use_ema=use_ema)
        model, _ = load_model(config, stored, None)
        return cls(model.encoder, config, task, tokenizer, layer)

    def digest(self) -> str:
        """SHA-256 of the encoder's weights, which tells vectors of others apart."""
        content = hashlib.sha256()
        for variable in sorted(self._encoder.variables, key=released_name):
            content.update(np.ascontiguousarray(variable.numpy()).tobytes())
        return content.hexdigest()

    def encode(self, texts: Sequence[str], batch_size: int = 32) -> Iterator[Vectors]:
        """Yields the vectors of some thousand texts at a time, in their order.

        Args:
          texts: the texts. Those that are too long lose tokens at their end.
          batch_size: texts at a time.
        """
        for first in range(0, len(texts), _TEXTS_AT_A_TIME):
            ids = self._tokenizer.encode_batch(texts[first : first + _TEXTS_AT_A_TIME])
            rows = [make_row(self._tokenizer, each[: self._room], None) for each in ids]
            vectors = np.zeros((len(rows), self.size), np.float32)
            pad_id = self._tokenizer.pad_id
            for places, found in answers(self._function, rows, batch_size, pad_id):
                vectors[places] = found
            yield Vectors(
                vectors,
                sum(len(each) > self._room for each in ids),
                sum(not each for each in ids),
            )

    def _answer(self, batch: Tensors) -> tf.Tensor:
        encoded = self._encoder(batch, training=False)
        vectors = pool(
            self._encoder,
            encoded,
            batch["input_mask"],
            self.task.pooling,
            self._layer,
        )
        if self.task.normalize:
            vectors = tf.math.l2_normalize(vectors, axis=-1)
        return vectors
