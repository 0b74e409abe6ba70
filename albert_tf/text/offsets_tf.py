"""Where pieces stand in their texts, inside a TensorFlow graph.

`tokenization_graph.py` alone imports this. It follows `encode_with_offsets` of
`tokenization.py`, but a graph has no loops over characters that are fast. So the
characters of all texts of a batch lie in one row, and "the next character that ..."
and "the last one that ..." are look-ups (`_Places`).

What SentencePiece's normaliser does to a character is known from tables, made of that
normaliser: which characters it drops, and which it spells with several letters. Letters
and marks that it composes stay one letter here, as ranges hold whole letters anyway.
"""

import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np
import tensorflow as tf

_PAGE = 256
_CODE_POINTS = 0x110000
_SPACE = ord(" ")
# Of a piece that no rule splits.
_WHOLE = -1
# What a character may be.
_IS_MARK, _IS_SPACE, _IS_DROPPED, _GOES_ON = 1, 2, 4, 8


class PieceOffsets(tf.Module):
    """Finds the characters of pieces."""

    def __init__(self, vocabulary, characters: Iterable[str]):
        """Builds the tables; takes a fraction of a second.

        Args:
          vocabulary: see `tokenization_subwords.py`.
          characters: all that the vocabulary's normaliser may touch.
        """
        super().__init__(name="offsets")
        characters = list(characters)
        normalized = vocabulary.normalize_each(characters)
        pages, kinds = _kinds(characters, normalized)
        self._pages, self._kinds = tf.constant(pages), tf.constant(kinds)
        # Letters of a vocabulary are as its normaliser leaves them, but for symbols
        # that a user wanted as they are.
        untouched = set().union(*vocabulary.pieces)
        self.spelled_out = {
            c: text
            for c, text in zip(characters, normalized, strict=True)
            if len(text) > 1 and c not in untouched
        }
        self._is_byte = None
        if vocabulary.byte_ids:
            is_byte = np.zeros(len(vocabulary.pieces), bool)
            is_byte[vocabulary.byte_ids] = True
            self._is_byte = tf.constant(is_byte)
        self._letters_left = None
        if vocabulary.split_pieces:
            self._letters_left = tf.ragged.constant(
                [
                    _letters_left(vocabulary.split_pieces.get(i))
                    for i in range(len(vocabulary.pieces))
                ],
                tf.int64,
                ragged_rank=1,
                row_splits_dtype=tf.int64,
            )

    def single_spaces(self, texts: tf.RaggedTensor) -> tf.Tensor:
        """What `" ".join(text.split())` keeps of cleaned texts: of white space the last
        space before each word but the first.

        Args:
          texts: code points, int32 ragged [B, (n)].
        Returns:
          bool, one a code point.
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

    def of_parts(self, ids: tf.RaggedTensor, parts: tf.Tensor):
        """For each part of pieces, letters of its piece from its start on, and after
        it: int64; `_WHOLE` of those that were not split.

        Args:
          ids: pieces, before they were split.
          parts: int64, for each part the index of its piece.
        """
        if self._letters_left is None:
            whole = tf.fill(tf.shape(parts, tf.int64), tf.constant(_WHOLE, tf.int64))
            return whole, whole
        pairs = tf.gather(self._letters_left, ids.flat_values).flat_values
        return pairs[:, 0], pairs[:, 1]

    def spans(self, text: tf.RaggedTensor, ids, starts, ends):
        """Byte ranges of pieces -> ranges in the code points of all texts.

        Args:
          text: normalized code points, int32 ragged [B, (n)].
          ids: int32 ragged [B, (pieces)].
          starts, ends: ragged [B, (pieces)], half-open byte range of each in its text.
        Returns:
          starts and ends, int64 [pieces of all texts]
        """
        code_points = text.flat_values
        lengths = 1 + sum(
            tf.cast(code_points >= least, tf.int64) for least in (0x80, 0x800, 0x10000)
        )
        before = tf.concat([[0], tf.cumsum(lengths)], axis=0)
        of_text = tf.gather(tf.gather(before, text.row_starts()), ids.value_rowids())
        start, end = (
            tf.searchsorted(
                before, tf.cast(each.flat_values, tf.int64) + of_text, out_type=tf.int64
            )
            for each in (starts, ends)
        )
        if self._is_byte is not None:
            # Only the last of the bytes that spell a character has its range.
            last = _Places(end > start).next(tf.range(tf.size(end, tf.int64)))
            last = tf.minimum(last, tf.size(end, tf.int64) - 1)
            is_byte = tf.gather(self._is_byte, ids.flat_values)
            end = tf.where(is_byte, tf.gather(end, last), end)
        return start, end

    def trim(self, text: tf.RaggedTensor, start, end, letters_from, letters_after):
        """Ranges of pieces -> ranges of parts, without white space and dropped
        characters around them.

        Args:
          text: normalized code points, int32 ragged [B, (n)].
          start, end: int64 [N], range of each part's piece in the code points of all.
          letters_from, letters_after: as `of_parts` gives them.
        Returns:
          starts and ends, int64 [N]; equal where nothing is left.
        """
        kinds = self._kinds_of(text.flat_values)
        is_kept = (kinds & _IS_DROPPED) == 0
        is_kept &= text.flat_values != _SPACE
        letters = _Places(is_kept & ((kinds & _GOES_ON) == 0))
        first = letters.count_before(start)
        stop = letters.count_before(end)
        # Counted from the end, where the digits and the comma are.
        part_start = letters.place(tf.maximum(stop - letters_from, first))
        part_end = tf.minimum(letters.place(stop - letters_after), end)
        start = tf.where(letters_from == _WHOLE, start, part_start)
        end = tf.where(letters_from == _WHOLE, end, part_end)
        kept = _Places(is_kept)
        first, stop = kept.count_before(start), kept.count_before(end)
        start = tf.where(first < stop, kept.place(first), end)
        return start, tf.where(first < stop, kept.place(stop - 1) + 1, end)

    def whole_letters(self, characters: tf.RaggedTensor, first, last):
        """Widens characters first..last, inclusive, to whole letters; half-open.

        Args:
          characters: code points of texts as given, int32 ragged [B, (n)].
          first, last: int64 [N], places among those of all texts.
        """
        kinds = self._kinds_of(characters.flat_values)
        size = tf.size(kinds, tf.int64)
        starts_text = tf.scatter_nd(
            characters.row_starts()[:, tf.newaxis],
            tf.ones_like(characters.row_starts()),
            [size + 1],
        )[:size]
        is_mark = (kinds & _IS_MARK) != 0
        after_space = tf.concat([[True], (kinds & _IS_SPACE) != 0], axis=0)[:size]
        begins = ~is_mark | (starts_text > 0)
        return (
            _Places(begins | after_space).last(first),
            _Places(begins).next(last + 1),
        )

    def _kinds_of(self, code_points):
        pages = tf.gather(self._pages, code_points // _PAGE)
        return tf.gather(self._kinds, pages + code_points % _PAGE)


class _Places:
    """Looks up the places where something is true."""

    def __init__(self, is_true: tf.Tensor):
        """Args:
        is_true: bool [N].
        """
        size = tf.size(is_true, tf.int64)
        counts = tf.cumsum(tf.cast(is_true, tf.int64))
        self._counts = tf.concat([[0], counts], axis=0)
        # One more for "none": the end.
        self._places = tf.concat([tf.where(is_true)[:, 0], [size]], axis=0)

    def count_before(self, places):
        """How many lie before each of the places, which may be 0 to N."""
        return tf.gather(self._counts, places)

    def place(self, numbers):
        """The place of the number-th, counted from 0; N: there are not as many."""
        most = tf.size(self._places, tf.int64) - 1
        return tf.gather(self._places, tf.clip_by_value(numbers, 0, most))

    def next(self, places):
        """The first at or after each of the places; N: there is none."""
        return self.place(self.count_before(places))

    def last(self, places):
        """The last at or before each of the places, of which there must be one."""
        return self.place(self.count_before(places + 1) - 1)


def _kinds(
    characters: Sequence[str], normalized: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """What each code point is, in pages so that most of Unicode shares one.

    Args:
      characters: those to look at.
      normalized: what the vocabulary's normaliser makes of each.
    Returns:
      first place of the page of each 256 code points, int32; and the kinds, int32.
    """
    kinds = np.zeros(_CODE_POINTS, np.int32)
    for character, text in zip(characters, normalized, strict=True):
        if unicodedata.category(character).startswith("M"):
            kinds[ord(character)] |= _IS_MARK
        if character.isspace():
            kinds[ord(character)] |= _IS_SPACE
        if not text:
            kinds[ord(character)] |= _IS_DROPPED
        for going_on in unicodedata.normalize("NFD", character)[1:]:
            kinds[ord(going_on)] |= _GOES_ON
    pages, numbers = np.unique(kinds.reshape(-1, _PAGE), axis=0, return_inverse=True)
    return (numbers.reshape(-1) * _PAGE).astype(np.int32), pages.reshape(-1)


def _letters_left(parts: Sequence[str] | None) -> list[tuple[int, int]]:
    """For each part how many letters there are from its start on, and after it."""
    if parts is None:
        return [(_WHOLE, _WHOLE)]
    letters = [len(part.replace("▁", "")) for part in parts]
    return [(sum(letters[i:]), sum(letters[i + 1 :])) for i in range(len(parts))]
