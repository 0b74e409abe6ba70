"""The TensorFlow face of `tokenization.py`, which alone imports this.

Cleaning runs as a table from code points to code points, made from the Python rule.
TensorFlow's own normalisation and lower-casing follow other versions of Unicode than
Python does (and lower "Σ" and "İ" differently), so they would disagree with it.
"""

import unicodedata
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.text.offsets_tf import PieceOffsets

_CODE_POINTS = 0x110000
_PAGE = 256
_KEEP = -1  # in a table of rows: the value stays as it is


class GraphTokenizer(tf.Module):
    """string [B] -> int32 ragged [B, (pieces)]."""

    def __init__(self, clean: Callable[[str], str], lower_case: bool, vocabulary):
        """Builds the tables; takes a fraction of a second.

        Args:
          clean: the cleaned text of one character; capital sigma keeps its case.
          lower_case: whether capital sigma is to be lowered, which needs its context.
          vocabulary: see `tokenization_subwords.py`.
        """
        super().__init__(name="tokenizer")
        with tf.init_scope():
            page_rows, cleaned_rows = _character_table(clean)
            self._page_rows = tf.constant(page_rows)
            self._cleaned_rows = _rows(cleaned_rows)
            self._final_sigma = _final_sigma_pattern() if lower_case else None
            self._subwords = vocabulary.graph_model()
            self._expansions = None
            if vocabulary.expansions:
                ids = range(len(vocabulary.pieces))
                self._expansions = _rows(
                    vocabulary.expansions.get(i, [_KEEP]) for i in ids
                )
        self._vocabulary = vocabulary
        self._offsets = self._spelled_out = None

    def __call__(self, texts) -> tf.RaggedTensor:
        ids = self._subwords.tokenize(self.normalize(_batch(texts)))
        return self._expand(ids)[0]

    def encode_with_offsets(
        self, texts
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """`AlbertTokenizer.encode_with_offsets` of each of the texts, string [B].

        Equal on every text, but where symbols of several letters that a SentencePiece
        vocabulary's user defined overlap ("--" in "---"): a range beside one that is
        cut may be off by what is left of it. The released vocabularies have none.

        Returns:
          ids, starts and ends, int32 ragged [B, (pieces)] each; half-open ranges of
          characters of the text as given, in which an invalid byte is one character.
        """
        if self._offsets is None:
            with tf.init_scope():
                self._make_offsets()
        characters = tf.strings.unicode_decode(_batch(texts), "UTF-8")
        text, origins = self._normalize_with_origins(characters)
        ids, *ranges = self._subwords.tokenize_with_offsets(
            tf.strings.unicode_encode(text, "UTF-8")
        )
        expanded, pieces = self._expand(ids)
        start, end = (
            tf.gather(each, pieces) for each in self._offsets.spans(text, ids, *ranges)
        )
        start, end = self._offsets.trim(
            text, start, end, *self._offsets.of_parts(ids, pieces)
        )
        # Of the end of a text: that of the text as given.
        rows = expanded.value_rowids()
        is_end = end == tf.gather(text.row_limits(), rows)
        origins = tf.concat([origins, [0]], axis=0)
        place = tf.where(
            is_end,
            tf.gather(characters.row_limits(), rows),
            tf.gather(origins, end),
        )
        last = tf.maximum(end - 1, 0)
        first, stop = self._offsets.whole_letters(
            characters,
            tf.gather(origins, tf.minimum(start, last)),
            tf.gather(origins, last),
        )
        of_text = tf.gather(characters.row_starts(), rows)
        starts, ends = (
            tf.cast(tf.where(start < end, filled, place) - of_text, tf.int32)
            for filled in (first, stop)
        )
        return expanded, expanded.with_values(starts), expanded.with_values(ends)

    def normalize(self, texts: tf.Tensor) -> tf.Tensor:
        """`AlbertTokenizer.normalize` of each of the texts, string [B]."""
        characters = tf.strings.unicode_decode(texts, "UTF-8")
        cleaned = self._clean(characters)[0]
        return tf.strings.strip(tf.strings.regex_replace(cleaned, " +", " "))

    def _clean(self, characters: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Cleans and lower-cases, white space as it comes; and for each character of
        all cleaned texts the index of the one that it came from."""
        code_points = characters.flat_values
        rows = tf.gather(self._page_rows, code_points // _PAGE) + code_points % _PAGE
        cleaned, origins = _replace_each(characters, rows, self._cleaned_rows)
        cleaned = tf.strings.unicode_encode(cleaned, "UTF-8")
        if self._final_sigma is not None:
            cleaned = tf.strings.regex_replace(cleaned, self._final_sigma, r"\1ς\2\3")
            cleaned = tf.strings.regex_replace(cleaned, "Σ", "σ")
        return cleaned, origins

    def _normalize_with_origins(self, characters: tf.RaggedTensor):
        """Code points of normalized texts, int32 ragged [B, (n)], and where each comes
        from among the characters of all texts, int64."""
        cleaned, origins = self._clean(characters)
        cleaned = tf.strings.unicode_decode(cleaned, "UTF-8")
        kept = self._offsets.single_spaces(cleaned)
        text = tf.ragged.boolean_mask(cleaned, cleaned.with_values(kept))
        origins = tf.boolean_mask(origins, kept)
        if self._spelled_out is not None:
            # So that no piece ends inside of what one character becomes.
            page_rows, table = self._spelled_out
            code_points = text.flat_values
            rows = tf.gather(page_rows, code_points // _PAGE) + code_points % _PAGE
            text, places = _replace_each(text, rows, table)
            origins = tf.gather(origins, places)
        return text, origins

    def _expand(self, ids: tf.RaggedTensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """The digit-comma rule; and for each id the index of the one it came from."""
        if self._expansions is None:
            return ids, tf.range(tf.size(ids.flat_values, tf.int64))
        return _replace_each(ids, ids.flat_values, self._expansions)

    def _make_offsets(self) -> None:
        self._offsets = PieceOffsets(self._vocabulary, _assigned_characters())
        spelled_out = self._offsets.spelled_out
        if spelled_out:
            page_rows, rows = _character_table(lambda c: spelled_out.get(c, c))
            self._spelled_out = tf.constant(page_rows), _rows(rows)


def _batch(texts) -> tf.Tensor:
    texts = tf.convert_to_tensor(texts, tf.string)
    if texts.shape.rank != 1:
        raise ValueError(
            f"tf_encode takes a batch of texts, [B]. Received {texts.shape}: "
            "reshape it first."
        )
    return texts


def _replace_each(
    sequences: tf.RaggedTensor, rows: tf.Tensor, table: tf.RaggedTensor
) -> tuple[tf.RaggedTensor, tf.Tensor]:
    """Replaces each value of [B, (n)] by row `rows[i]` of a table, in place.

    Returns:
      the same with its replacements; and for each of them the index of the value, among
      those of all sequences, int64.
    """
    replacements = tf.gather(table, rows)
    origins = replacements.value_rowids()
    values = replacements.flat_values
    originals = tf.gather(sequences.flat_values, origins)
    replaced = tf.RaggedTensor.from_row_splits(
        tf.where(values == _KEEP, originals, values),
        tf.gather(replacements.row_splits, sequences.row_splits),
        validate=False,
    )
    return replaced, origins


def _rows(rows: Iterable[Sequence[int]]) -> tf.RaggedTensor:
    rows = list(rows)
    return tf.RaggedTensor.from_row_lengths(
        tf.constant(np.concatenate(rows), tf.int32), [len(row) for row in rows]
    )


def _character_table(
    clean: Callable[[str], str],
) -> tuple[np.ndarray, list[Sequence[int]]]:
    """Rows of replacement code points, in pages so that most of Unicode shares one.

    Returns:
      first row of the page of each 256 code points, int32; and the rows.
    """
    changed: dict[int, list[int]] = {}
    for character in _assigned_characters():
        cleaned = clean(character)
        if cleaned != character:
            changed[ord(character)] = [ord(c) for c in cleaned]
    page_rows = np.zeros(_CODE_POINTS // _PAGE, np.int32)
    rows: list[Sequence[int]] = [[_KEEP]] * _PAGE
    for page in sorted({code_point // _PAGE for code_point in changed}):
        page_rows[page] = len(rows)
        start = page * _PAGE
        rows += [changed.get(c, [_KEEP]) for c in range(start, start + _PAGE)]
    return page_rows, rows


def _assigned_characters() -> Iterable[str]:
    """Characters that some rule may touch: no unassigned, private or surrogate ones."""
    for character in map(chr, range(_CODE_POINTS)):
        if unicodedata.category(character) not in ("Cn", "Co", "Cs"):
            yield character


def _final_sigma_pattern() -> str:
    """Matches a capital sigma that ends its word, for RE2, as `str.lower` sees it.

    Unicode's rule: a cased letter before it and none after, looking past characters
    that do not matter to case. The classes are read off `str.lower` itself.
    """
    cased, cased_or_ignorable = [], []
    for character in _assigned_characters():
        if f"{character}Σ".lower().endswith("ς"):
            cased.append(ord(character))
        if f"A{character}Σ".lower().endswith("ς"):
            cased_or_ignorable.append(ord(character))
    ignorable = sorted(set(cased_or_ignorable) - set(cased))
    cased, inside, ignorable = map(_ranges, (cased, cased_or_ignorable, ignorable))
    return f"([{cased}][{inside}]*)Σ([{ignorable}]*)([^{inside}]|$)"


def _ranges(code_points: Iterable[int]) -> str:
    """Sorted code points as the inside of an RE2 character class."""
    code_points = np.fromiter(code_points, np.int64)
    breaks = np.flatnonzero(np.diff(code_points) != 1) + 1
    runs = np.split(code_points, breaks)
    return "".join(rf"\x{{{run[0]:x}}}-\x{{{run[-1]:x}}}" for run in runs)
