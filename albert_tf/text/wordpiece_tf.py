"""Splits text into WordPiece tokens with tensorflow-text.

WordPiece's Python face needs TensorFlow, too: it must split exactly as exported models
do. `wordpiece.py` imports this module when it first encodes a text, so that reading a
vocabulary stays cheap.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from albert_tf.text.vocabulary import Span

# BERT's limit is 400 characters a word; here in bytes of the longest UTF-8 encoding.
_LONGEST_WORD_BYTES = 4 * 400


class WordPieceSplitter:
    """Splits cleaned texts.

    Attributes:
      model: the tensorflow-text tokenizer, string [B] -> int32 ragged [B, (tokens)].
    """

    def __init__(self, tokens: Sequence[str]):
        """Builds the tokenizer of a vocabulary, given by its tokens in order of ids."""
        with tf.init_scope():
            self.model = tf_text.FastWordpieceTokenizer(
                list(tokens),
                max_bytes_per_word=_LONGEST_WORD_BYTES,
                token_out_type=tf.int32,
            )

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of texts."""
        return self.model.tokenize(list(texts)).to_list() if texts else []

    def encode_with_spans(self, text: str) -> tuple[list[int], list[Span]]:
        """Returns the ids of a text, and each token's half-open character range."""
        ids, starts, ends = self.model.tokenize_with_offsets([text])
        encoded = np.frombuffer(text.encode(), np.uint8)
        is_first_byte = (encoded & 0b1100_0000) != 0b1000_0000
        characters_before = np.concatenate([[0], np.cumsum(is_first_byte)])
        spans = zip(
            characters_before[starts.flat_values.numpy()].tolist(),
            characters_before[ends.flat_values.numpy()].tolist(),
            strict=True,
        )
        return ids.flat_values.numpy().tolist(), list(spans)
