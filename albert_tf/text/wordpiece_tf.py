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

# The original's limit, in characters; a longer word is one [UNK]. (That of tf-models'
# tokenizer is 400.)
_LONGEST_WORD = 200
_CONTINUES = "##"


class WordPieceSplitter:
    """Splits cleaned texts.

    tensorflow-text limits words by their bytes. So that limit is above any word of 200
    characters, and words between the two limits become [UNK] afterwards: their length
    is that of their tokens together.

    It is no `tf.Module`, so that a saved model gets its constants, but not the
    functions that Python calls.
    """

    def __init__(self, tokens: Sequence[str]):
        """Builds the tokenizer of a vocabulary, given by its tokens in order of ids."""
        texts = [token.removeprefix(_CONTINUES) for token in tokens]
        with tf.init_scope():
            self._unknown_id = tf.constant(tokens.index("[UNK]"), tf.int32)
            self._continues = tf.constant([t.startswith(_CONTINUES) for t in tokens])
            self._lengths = tf.constant([len(text) for text in texts], tf.int32)
            self._model = tf_text.FastWordpieceTokenizer(
                list(tokens),
                max_bytes_per_word=4 * (_LONGEST_WORD + 1),
                token_out_type=tf.int32,
            )
        # Python calls one operation instead of twenty.
        spec = [tf.TensorSpec([None], tf.string)]
        self._tokenize, self._tokenize_with_offsets = (
            tf.function(method, spec, autograph=False)
            for method in (self.tokenize, self.tokenize_with_offsets)
        )

    def tokenize(self, texts: tf.Tensor | Sequence[str]) -> tf.RaggedTensor:
        """Splits texts, string [B]; returns ids, int32 ragged [B, (tokens)]."""
        ids = self._model.tokenize(texts)
        _, is_long, is_kept = self._find_long_words(ids.flat_values)
        ids = ids.with_values(tf.where(is_long, self._unknown_id, ids.flat_values))
        return _only(is_kept, ids)[0]

    def tokenize_with_offsets(
        self, texts: tf.Tensor | Sequence[str]
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Splits texts, string [B].

        Returns:
          ids, int32, and the start and end of the bytes of each token, int64; all
          ragged [B, (tokens)].
        """
        ids, starts, ends = self._model.tokenize_with_offsets(texts)
        words, is_long, is_kept = self._find_long_words(ids.flat_values)
        word_ends = tf.math.unsorted_segment_max(
            ends.flat_values, words, tf.size(words)
        )
        ids = ids.with_values(tf.where(is_long, self._unknown_id, ids.flat_values))
        ends = ends.with_values(
            tf.where(is_long, tf.gather(word_ends, words), ends.flat_values)
        )
        ids, starts, ends = _only(is_kept, ids, starts, ends)
        return ids, starts, ends

    def _find_long_words(self, ids: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Finds the words that are longer than the limit.

        Args:
          ids: int32 [N], the tokens of all texts.
        Returns:
          for each token the number of its word, int32; true if the word is too long;
          and false for all tokens of such a word but the first.
        """
        continues = tf.gather(self._continues, ids)
        words = tf.cumsum(tf.cast(~continues, tf.int32)) - 1
        lengths = tf.math.unsorted_segment_sum(
            tf.gather(self._lengths, ids), words, tf.size(words)
        )
        is_long = tf.gather(lengths, words) > _LONGEST_WORD
        return words, is_long, ~(is_long & continues)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of texts."""
        return self._tokenize(list(texts)).to_list() if texts else []

    def encode_with_spans(self, text: str) -> tuple[list[int], list[Span]]:
        """Returns the ids of a text, and each token's half-open character range."""
        ids, starts, ends = self._tokenize_with_offsets([text])
        encoded = np.frombuffer(text.encode(), np.uint8)
        is_first_byte = (encoded & 0b1100_0000) != 0b1000_0000
        characters_before = np.concatenate([[0], np.cumsum(is_first_byte)])
        spans = zip(
            characters_before[starts.flat_values.numpy()].tolist(),
            characters_before[ends.flat_values.numpy()].tolist(),
            strict=True,
        )
        return ids.flat_values.numpy().tolist(), list(spans)


def _only(is_kept: tf.Tensor, *sequences: tf.RaggedTensor) -> list[tf.RaggedTensor]:
    """Keeps some values of sequences of equal lengths.

    Args:
      is_kept: bool [values of all rows].
      *sequences: ragged [B, (n)].
    """
    places = tf.where(is_kept)[:, 0]
    counts = tf.concat([[0], tf.cumsum(tf.cast(is_kept, tf.int64))], axis=0)
    splits = tf.gather(counts, sequences[0].row_splits)
    return [
        tf.RaggedTensor.from_row_splits(
            tf.gather(each.flat_values, places), splits, validate=False
        )
        for each in sequences
    ]
