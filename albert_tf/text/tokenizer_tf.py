"""The tokenizer in a TensorFlow graph: `tokenizer.py`'s TensorFlow twin.

Cleaning is a table from code points to code points, made from the Python rule.
TensorFlow's own normalization and lower-casing follow other versions of Unicode than
Python does (and lower "Σ" and "İ" differently), so they would give other tokens.
"""

import unicodedata
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from albert_tf.text.cleaning import TextCleaner
from albert_tf.text.offsets_tf import TokenOffsets
from albert_tf.text.sentencepiece import SentencePieceVocabulary
from albert_tf.text.vocabulary import MASK, Vocabulary
from albert_tf.text.wordpiece import WordPieceVocabulary
from albert_tf.text.wordpiece_tf import WordPieceSplitter

_CODE_POINTS = 0x110000
_PAGE = 256
_KEEP = -1  # in a table of rows: the value stays as it is


class GraphTokenizer(tf.Module):
    """Encodes texts: string [B] -> int32 ragged [B, (tokens)]."""

    def __init__(self, cleaner: TextCleaner, vocabulary: Vocabulary):
        """Builds the tables; takes a fraction of a second.

        Args:
          cleaner: the rule of text cleaning.
          vocabulary: splits the cleaned text.
        """
        super().__init__(name="tokenizer")
        with tf.init_scope():
            page_rows, cleaned_rows = _character_table(cleaner.clean_character)
            self._page_rows = tf.constant(page_rows)
            self._cleaned_rows = _rows(cleaned_rows)
            self._final_sigma = _final_sigma_pattern() if cleaner.lower_case else None
            self._splitter = _splitter(vocabulary)
            self._expansions = None
            if vocabulary.expansions:
                ids = range(len(vocabulary.tokens))
                self._expansions = _rows(
                    vocabulary.expansions.get(i, [_KEEP]) for i in ids
                )
        self._cleaner, self._vocabulary = cleaner, vocabulary
        self._offsets: TokenOffsets | None = None
        self._inner_splitter: tf_text.SentencepieceTokenizer | None = None
        self._spelled_out: tuple[tf.Tensor, tf.RaggedTensor] | None = None

    def __call__(self, texts: tf.Tensor | Sequence[str]) -> tf.RaggedTensor:
        ids = self._splitter.tokenize(self.normalize(_batch(texts)))
        return self._expand(ids)[0]

    def encode_with_masks(self, texts: tf.Tensor | Sequence[str]) -> tf.RaggedTensor:
        """Encodes texts, string [B], in which each "[MASK]" becomes the mask token.

        The text before, between and after masks is encoded as any text. To
        SentencePiece, which marks the space before a word, a mask is a word: after
        "[MASK] is" comes "▁is", and after "[MASK]." comes ".", as after "Paris."
        (Tokenizers of `transformers` put "▁." there, which texts do not have.) For
        WordPiece the text after a mask begins a new word.

        Returns:
          int32 ragged [B, (tokens)]; the mask token is there for masks alone.
        """
        segments = tf.strings.split(_batch(texts), sep=MASK)
        characters = tf.strings.unicode_decode(segments.flat_values, "UTF-8")
        cleaned = self._clean(characters)[0]
        ids = self._encode_segments(cleaned, segments.row_starts())
        mask_id = self._vocabulary.special_ids[-1]
        masks = tf.fill([ids.nrows(), 1], mask_id)
        splits = tf.concat([ids, masks], axis=1)
        joined = tf.RaggedTensor.from_row_splits(
            splits.flat_values,
            tf.gather(splits.row_splits, segments.row_splits),
            validate=False,
        )
        return joined[:, :-1]  # the last segment has no mask after it

    def _encode_segments(
        self, cleaned: tf.Tensor, text_starts: tf.Tensor
    ) -> tf.RaggedTensor:
        """Encodes the segments of texts between masks.

        Args:
          cleaned: string [N], the segments, as `_clean` gives them.
          text_starts: int64 [B], places of those that texts begin with.
        Returns:
          int32 ragged [N, (tokens)].
        """
        texts = _single_spaced(cleaned)
        if isinstance(self._vocabulary, WordPieceVocabulary):
            return self._expand(self._splitter.tokenize(texts))[0]
        is_first = tf.scatter_nd(
            text_starts[:, tf.newaxis],
            tf.ones_like(text_starts),
            tf.shape(cleaned, tf.int64),
        )
        has_space = tf.strings.regex_full_match(cleaned, "(?s) .*")
        starts_word = has_space | (is_first > 0)
        # One of the two is empty, and has no tokens.
        words = self._splitter.tokenize(tf.where(starts_word, texts, ""))
        rests = self._make_inner_splitter().tokenize(tf.where(starts_word, "", texts))
        return self._expand(tf.concat([words, rests], axis=1))[0]

    def _make_inner_splitter(self) -> tf_text.SentencepieceTokenizer:
        """Returns the splitter of texts that go on within a word."""
        if self._inner_splitter is None:
            assert isinstance(self._vocabulary, SentencePieceVocabulary)
            content = self._vocabulary.model_proto(starts_word=False)
            with tf.init_scope():
                self._inner_splitter = tf_text.SentencepieceTokenizer(
                    content, out_type=tf.int32
                )
        return self._inner_splitter

    def encode_with_offsets(
        self, texts: tf.Tensor | Sequence[str]
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """Encodes texts, string [B], as `AlbertTokenizer.encode_with_offsets`.

        The results are equal, with one exception: user-defined symbols of several
        letters that overlap ("--" in "---"). If the splitter cuts one of them, a range
        next to it may be off by its rest. The released vocabularies have no such
        symbols.

        Returns:
          ids, starts and ends, int32 ragged [B, (tokens)] each; half-open ranges of
          characters of the given text, in which an invalid byte is one character.
        """
        if self._offsets is None:
            with tf.init_scope():
                self._offsets = self._make_offsets()
        offsets = self._offsets
        characters = tf.strings.unicode_decode(_batch(texts), "UTF-8")
        text, origins = self._normalize_with_origins(characters, offsets)
        ids, *ranges = self._splitter.tokenize_with_offsets(
            tf.strings.unicode_encode(text, "UTF-8")
        )
        expanded, tokens = self._expand(ids)
        start, end = (
            tf.gather(places, tokens) for places in offsets.spans(text, ids, *ranges)
        )
        start, end = offsets.trim(text, start, end, *offsets.of_parts(ids, tokens))
        # The end of a normalized text stands for the end of the given text.
        rows = expanded.value_rowids()
        is_end = end == tf.gather(text.row_limits(), rows)
        origins = tf.concat([origins, [0]], axis=0)
        place = tf.where(
            is_end,
            tf.gather(characters.row_limits(), rows),
            tf.gather(origins, end),
        )
        last = tf.maximum(end - 1, 0)
        first, stop = offsets.whole_letters(
            characters,
            tf.gather(origins, tf.minimum(start, last)),
            tf.gather(origins, last),
        )
        text_starts = tf.gather(characters.row_starts(), rows)
        starts, ends = (
            tf.cast(tf.where(start < end, filled, place) - text_starts, tf.int32)
            for filled in (first, stop)
        )
        return expanded, expanded.with_values(starts), expanded.with_values(ends)

    def normalize(self, texts: tf.Tensor) -> tf.Tensor:
        """Normalizes texts, string [B], as `AlbertTokenizer.normalize`."""
        characters = tf.strings.unicode_decode(texts, "UTF-8")
        return _single_spaced(self._clean(characters)[0])

    def _clean(self, characters: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Cleans and lower-cases texts; white space stays as it comes.

        Returns:
          string [B]; and for each character of all cleaned texts the index of the one
          that it comes from, int64.
        """
        code_points = characters.flat_values
        rows = tf.gather(self._page_rows, code_points // _PAGE) + code_points % _PAGE
        cleaned, origins = _replace_each(characters, rows, self._cleaned_rows)
        cleaned = tf.strings.unicode_encode(cleaned, "UTF-8")
        if self._final_sigma is not None:
            cleaned = tf.strings.regex_replace(cleaned, self._final_sigma, r"\1ς\2\3")
            cleaned = tf.strings.regex_replace(cleaned, "Σ", "σ")
        return cleaned, origins

    def _normalize_with_origins(
        self, characters: tf.RaggedTensor, offsets: TokenOffsets
    ) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Normalizes texts, given as code points.

        Returns:
          code points, int32 ragged [B, (n)]; and for each the index of the character
          that it comes from, among those of all texts, int64.
        """
        cleaned, origins = self._clean(characters)
        cleaned = tf.strings.unicode_decode(cleaned, "UTF-8")
        kept = offsets.single_spaces(cleaned)
        text = tf.ragged.boolean_mask(cleaned, cleaned.with_values(kept))
        origins = tf.boolean_mask(origins, kept)
        if self._spelled_out is not None:
            # So that no token ends within the letters that spell one character.
            page_rows, table = self._spelled_out
            code_points = text.flat_values
            rows = tf.gather(page_rows, code_points // _PAGE) + code_points % _PAGE
            text, places = _replace_each(text, rows, table)
            origins = tf.gather(origins, places)
        return text, origins

    def _expand(self, ids: tf.RaggedTensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Applies the digit-comma rule.

        Returns:
          ids; and for each the index of the one that it comes from, int64.
        """
        if self._expansions is None:
            return ids, tf.range(tf.size(ids.flat_values, tf.int64))
        return _replace_each(ids, ids.flat_values, self._expansions)

    def _make_offsets(self) -> TokenOffsets:
        offsets = TokenOffsets(self._vocabulary, self._cleaner, _assigned_characters())
        spelled_out = offsets.spelled_out
        if spelled_out:
            page_rows, rows = _character_table(lambda c: spelled_out.get(c, c))
            self._spelled_out = tf.constant(page_rows), _rows(rows)
        return offsets


def _splitter(
    vocabulary: Vocabulary,
) -> WordPieceSplitter | tf_text.SentencepieceTokenizer:
    """Returns the tensorflow-text tokenizer of a vocabulary."""
    if isinstance(vocabulary, WordPieceVocabulary):
        return vocabulary.splitter()
    assert isinstance(vocabulary, SentencePieceVocabulary)
    return tf_text.SentencepieceTokenizer(vocabulary.model_proto(), out_type=tf.int32)


def _single_spaced(texts: tf.Tensor) -> tf.Tensor:
    """Collapses the spaces of cleaned texts, string [B]; none are left around them."""
    return tf.strings.strip(tf.strings.regex_replace(texts, " +", " "))


def _batch(texts: tf.Tensor | Sequence[str]) -> tf.Tensor:
    """Converts texts to a tensor and checks its rank."""
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
    """Replaces each value of some sequences by a row of a table.

    Args:
      sequences: int32 ragged [B, (n)].
      rows: for each value of all sequences, its row in the table.
      table: int32 ragged; `_KEEP` in a row stands for the value itself.
    Returns:
      the sequences with replacements; and for each value of these the index of the
      value that it comes from, among those of all sequences, int64.
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
    """Makes an int32 ragged tensor of rows."""
    rows = list(rows)
    return tf.RaggedTensor.from_row_lengths(
        tf.constant(np.concatenate(rows), tf.int32), [len(row) for row in rows]
    )


def _character_table(
    clean: Callable[[str], str],
) -> tuple[np.ndarray, list[Sequence[int]]]:
    """Makes a table of replacement code points, in pages of 256 code points.

    Most of Unicode shares the page of characters that stay as they are.

    Returns:
      the first row of each page, int32; and the rows.
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
    """Yields characters that a rule may change: all but unassigned, private and
    surrogate ones."""
    for character in map(chr, range(_CODE_POINTS)):
        if unicodedata.category(character) not in ("Cn", "Co", "Cs"):
            yield character


def _final_sigma_pattern() -> str:
    """Returns an RE2 pattern for a capital sigma at the end of a word.

    Unicode's rule: a cased letter stands before it and none after it, ignoring
    characters that do not matter to case. The classes come from `str.lower` itself.
    """
    cased, cased_or_ignorable = [], []
    for character in _assigned_characters():
        if f"{character}Σ".lower().endswith("ς"):
            cased.append(ord(character))
        if f"A{character}Σ".lower().endswith("ς"):
            cased_or_ignorable.append(ord(character))
    ignorable = sorted(set(cased_or_ignorable) - set(cased))
    inside = _ranges(cased_or_ignorable)
    return f"([{_ranges(cased)}][{inside}]*)Σ([{_ranges(ignorable)}]*)([^{inside}]|$)"


def _ranges(code_points: Iterable[int]) -> str:
    """Formats sorted code points as the inside of an RE2 character class."""
    code_points = np.fromiter(code_points, np.int64)
    breaks = np.flatnonzero(np.diff(code_points) != 1) + 1
    runs = np.split(code_points, breaks)
    return "".join(rf"\x{{{run[0]:x}}}-\x{{{run[-1]:x}}}" for run in runs)
