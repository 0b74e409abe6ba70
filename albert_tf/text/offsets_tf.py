"""Finds the places of tokens in their texts, in a TensorFlow graph.

`tokenizer_tf.py` uses it to follow `AlbertTokenizer.encode_with_offsets`. Loops over
characters are slow in a graph, so the characters of all texts of a batch are one row,
and "the next character that ..." and "the last one that ..." are look-ups (`_Places`).

What SentencePiece's normalization does to a character is known from tables, made with
that normalization: which characters it drops, and which it spells with several letters.
Letters and marks that it composes stay one letter here, since ranges are whole letters
anyway.
"""

import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.text.cleaning import TextCleaner, is_visible
from albert_tf.text.vocabulary import WORD_MARKER, Vocabulary

_PAGE = 256
_CODE_POINTS = 0x110000
_SPACE = ord(" ")
# Marks a token that no rule splits.
_WHOLE = -1
# Kinds of characters, as bits. A character "goes on" if it continues a letter when text
# is decomposed (NFD). It is silent if it is visible, but never a part of a token.
_IS_MARK, _IS_SPACE, _IS_DROPPED, _GOES_ON, _IS_SILENT = 1, 2, 4, 8, 16


class TokenOffsets(tf.Module):
    """Finds the characters of tokens.

    Attributes:
      spelled_out: characters that the vocabulary's normalization spells with several
        letters -> these letters.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        cleaner: TextCleaner,
        characters: Iterable[str],
    ):
        """Builds the tables; takes a fraction of a second.

        Args:
          vocabulary: splits the cleaned text.
          cleaner: the rule of text cleaning.
          characters: all that cleaning or the vocabulary's normalization may change.
        """
        super().__init__(name="offsets")
        characters = list(characters)
        normalized = vocabulary.normalize_characters(characters)
        silent = _silent(
            vocabulary, cleaner, dict(zip(characters, normalized, strict=True))
        )
        pages, kinds = _kinds(characters, normalized, silent)
        self._pages, self._kinds = tf.constant(pages), tf.constant(kinds)
        # Characters of tokens are normalized, except in user-defined symbols, which
        # normalization leaves unchanged.
        untouched = set().union(*vocabulary.tokens)
        self.spelled_out = {
            c: text
            for c, text in zip(characters, normalized, strict=True)
            if len(text) > 1 and c not in untouched
        }
        self._is_byte = None
        if vocabulary.byte_ids:
            is_byte = np.zeros(len(vocabulary.tokens), bool)
            is_byte[vocabulary.byte_ids] = True
            self._is_byte = tf.constant(is_byte)
        self._letters_left = None
        if vocabulary.split_tokens:
            self._letters_left = tf.ragged.constant(
                [
                    _letters_left(vocabulary.split_tokens.get(i))
                    for i in range(len(vocabulary.tokens))
                ],
                tf.int64,
                ragged_rank=1,
                row_splits_dtype=tf.int64,
            )

    def single_spaces(self, texts: tf.RaggedTensor) -> tf.Tensor:
        """Marks the characters that `" ".join(text.split())` keeps.

        Of white space it keeps the last space before each word except the first.

        Args:
          texts: code points of cleaned texts, int32 ragged [B, (n)].
        Returns:
          bool [code points of all texts].
        """
        is_space = texts.flat_values == _SPACE
        rows = texts.value_rowids()
        before_word = tf.concat(
            [(rows[1:] == rows[:-1]) & ~is_space[1:], [False]], axis=0
        )[: tf.size(is_space)]
        letters = _Places(~is_space)
        starts = tf.gather(texts.row_starts(), rows)
        places = tf.range(tf.size(is_space, tf.int64))
        after_word = letters.count_before(places) > letters.count_before(starts)
        return ~is_space | (before_word & after_word)

    def of_parts(
        self, ids: tf.RaggedTensor, parts: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Counts the letters of split tokens from the start of each part.

        Args:
          ids: tokens, before they were split.
          parts: int64, for each part the index of its token.
        Returns:
          for each part the number of letters from its start to the end of its token,
          and after its own end, int64; `_WHOLE` for tokens that were not split.
        """
        if self._letters_left is None:
            whole = tf.fill(tf.shape(parts, tf.int64), tf.constant(_WHOLE, tf.int64))
            return whole, whole
        pairs = tf.gather(self._letters_left, ids.flat_values).flat_values
        return pairs[:, 0], pairs[:, 1]

    def spans(
        self,
        text: tf.RaggedTensor,
        ids: tf.RaggedTensor,
        starts: tf.RaggedTensor,
        ends: tf.RaggedTensor,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Converts byte ranges of tokens to ranges of code points of all texts.

        Args:
          text: normalized code points, int32 ragged [B, (n)].
          ids: int32 ragged [B, (tokens)].
          starts, ends: ragged [B, (tokens)], half-open byte range of each in its text.
        Returns:
          starts and ends, int64 [tokens of all texts].
        """
        code_points = text.flat_values
        lengths = 1 + sum(
            tf.cast(code_points >= least, tf.int64) for least in (0x80, 0x800, 0x10000)
        )
        before = tf.concat([[0], tf.cumsum(lengths)], axis=0)
        text_starts = tf.gather(
            tf.gather(before, text.row_starts()), ids.value_rowids()
        )
        start, end = (
            tf.searchsorted(
                before,
                tf.cast(places.flat_values, tf.int64) + text_starts,
                out_type=tf.int64,
            )
            for places in (starts, ends)
        )
        if self._is_byte is not None:
            # Of the bytes that spell a character only the last one has its range.
            last = _Places(end > start).next(tf.range(tf.size(end, tf.int64)))
            last = tf.minimum(last, tf.size(end, tf.int64) - 1)
            is_byte = tf.gather(self._is_byte, ids.flat_values)
            end = tf.where(is_byte, tf.gather(end, last), end)
        return start, end

    def trim(
        self,
        text: tf.RaggedTensor,
        start: tf.Tensor,
        end: tf.Tensor,
        letters_from: tf.Tensor,
        letters_after: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Narrows ranges of tokens to their parts, without white space and dropped
        characters around them.

        Args:
          text: normalized code points, int32 ragged [B, (n)].
          start, end: int64 [N], range of each part's token in the code points of all
            texts.
          letters_from, letters_after: the results of `of_parts`.
        Returns:
          starts and ends, int64 [N]; equal if nothing is left.
        """
        kinds = self._kinds_of(text.flat_values)
        is_kept = (kinds & _IS_DROPPED) == 0
        is_kept &= text.flat_values != _SPACE
        letters = _Places(is_kept & ((kinds & _GOES_ON) == 0))
        first = letters.count_before(start)
        stop = letters.count_before(end)
        # Counted from the end, because there the digits and the comma are.
        part_start = letters.place(tf.maximum(stop - letters_from, first))
        part_end = tf.minimum(letters.place(stop - letters_after), end)
        start = tf.where(letters_from == _WHOLE, start, part_start)
        end = tf.where(letters_from == _WHOLE, end, part_end)
        kept = _Places(is_kept)
        first, stop = kept.count_before(start), kept.count_before(end)
        start = tf.where(first < stop, kept.place(first), end)
        return start, tf.where(first < stop, kept.place(stop - 1) + 1, end)

    def whole_letters(
        self, characters: tf.RaggedTensor, first: tf.Tensor, last: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Widens ranges of characters to whole letters, as `cleaning.whole_letters`.

        Args:
          characters: code points of the given texts, int32 ragged [B, (n)].
          first, last: int64 [N], places in those of all texts, both inclusive.
        Returns:
          half-open ranges: starts and ends, int64 [N].
        """
        kinds = self._kinds_of(characters.flat_values)
        size = tf.size(kinds, tf.int64)
        starts_text = tf.scatter_nd(
            characters.row_starts()[:, tf.newaxis],
            tf.ones_like(characters.row_starts()),
            [size + 1],
        )[:size]
        is_mark = (kinds & _IS_MARK) != 0
        is_silent = (kinds & _IS_SILENT) != 0
        after_space = tf.concat([[True], (kinds & _IS_SPACE) != 0], axis=0)[:size]
        starts_word = after_space | (starts_text > 0)
        first = _Places(~is_mark | starts_word).last(first)
        # Silent characters belong to the token only from the start of its word on.
        word = _Places(starts_word).last(first)
        silent = _Places(is_silent)
        before = silent.count_before(first) - silent.count_before(word)
        return (
            tf.where(before == first - word, word, first),
            _Places(~(is_mark | is_silent) | (starts_text > 0)).next(last + 1),
        )

    def _kinds_of(self, code_points: tf.Tensor) -> tf.Tensor:
        """Returns the kinds of code points, as bits."""
        pages = tf.gather(self._pages, code_points // _PAGE)
        return tf.gather(self._kinds, pages + code_points % _PAGE)


class _Places:
    """Looks up the places at which a condition is true."""

    def __init__(self, is_true: tf.Tensor):
        """Counts them.

        Args:
          is_true: bool [N].
        """
        size = tf.size(is_true, tf.int64)
        counts = tf.cumsum(tf.cast(is_true, tf.int64))
        self._counts = tf.concat([[0], counts], axis=0)
        # The end stands for "none".
        self._places = tf.concat([tf.where(is_true)[:, 0], [size]], axis=0)

    def count_before(self, places: tf.Tensor) -> tf.Tensor:
        """Returns how many lie before each of some places, from 0 to N."""
        return tf.gather(self._counts, places)

    def place(self, numbers: tf.Tensor) -> tf.Tensor:
        """Returns the place of the number-th, from 0; N if there are not so many."""
        most = tf.size(self._places, tf.int64) - 1
        return tf.gather(self._places, tf.clip_by_value(numbers, 0, most))

    def next(self, places: tf.Tensor) -> tf.Tensor:
        """Returns the first at or after each of some places; N if there is none."""
        return self.place(self.count_before(places))

    def last(self, places: tf.Tensor) -> tf.Tensor:
        """Returns the last at or before each of some places; there must be one."""
        return self.place(self.count_before(places + 1) - 1)


def _silent(
    vocabulary: Vocabulary, cleaner: TextCleaner, normalized: Mapping[str, str]
) -> set[str]:
    """Returns the characters that are visible, but never a part of a token.

    Args:
      vocabulary: splits the cleaned text.
      cleaner: the rule of text cleaning.
      normalized: character -> the vocabulary's normalization of it.
    """
    cleaned = {c: cleaner.clean_character(c) for c in normalized if is_visible(c)}
    changed = [c for c, text in cleaned.items() if text != c]
    texts = vocabulary.normalize_characters([cleaned[c] for c in changed])
    left = {**normalized, **dict(zip(changed, texts, strict=True))}
    return {c for c in cleaned if not left[c].strip()}


def _kinds(
    characters: Sequence[str], normalized: Sequence[str], silent: Collection[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Makes a table of the kinds of code points, in pages that are stored once.

    Args:
      characters: characters that may be of some kind.
      normalized: the vocabulary's normalization of each.
      silent: those that are silent.
    Returns:
      the first place of the page of each 256 code points, int32; and the kinds, int32.
    """
    kinds = np.zeros(_CODE_POINTS, np.int32)
    for character, text in zip(characters, normalized, strict=True):
        if unicodedata.category(character).startswith("M"):
            kinds[ord(character)] |= _IS_MARK
        if character.isspace():
            kinds[ord(character)] |= _IS_SPACE
        if not text:
            kinds[ord(character)] |= _IS_DROPPED
        if character in silent:
            kinds[ord(character)] |= _IS_SILENT
        for going_on in unicodedata.normalize("NFD", character)[1:]:
            kinds[ord(going_on)] |= _GOES_ON
    pages, numbers = np.unique(kinds.reshape(-1, _PAGE), axis=0, return_inverse=True)
    return (numbers.reshape(-1) * _PAGE).astype(np.int32), pages.reshape(-1)


def _letters_left(parts: Sequence[str] | None) -> list[tuple[int, int]]:
    """Counts, for each part of a token, the letters from its start, and after it."""
    if parts is None:
        return [(_WHOLE, _WHOLE)]
    letters = [len(part.replace(WORD_MARKER, "")) for part in parts]
    return [(sum(letters[i:]), sum(letters[i + 1 :])) for i in range(len(parts))]
