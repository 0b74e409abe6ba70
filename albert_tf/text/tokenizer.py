"""Text to vocabulary ids and back; the owner of text cleaning and of word starts.

    text -> each character cleaned -> lower case -> white space collapsed
         -> split by SentencePiece or WordPiece -> digit-comma rule -> ids

Cleaning looks at one character at a time, so a cleaned character always knows which
original character it came from (`encode_with_offsets`), and the same rule can run as
a table inside a TensorFlow graph (`tf_encode`).

Two parts of this module live in files of their own and are imported only here:
`tokenization_subwords.py` (the two kinds of vocabulary) and `tokenization_graph.py`
(the TensorFlow face, loaded on first use so that data workers stay small).

White space is collapsed after cleaning; the original does it before, which leaves
double spaces where cleaning made some (a free-standing accent becomes a space). The
vocabulary's own normaliser drops those, so the pieces are the same.
"""

import functools
import re
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from albert_tf.files import digest
from albert_tf.text.sentencepiece import SentencePieceVocabulary
from albert_tf.text.wordpiece import WordPieceVocabulary

# Stretches of text with characters that cleaning may change. Dashes and curly quotes,
# common in English, are left out as no rule touches them; single spaces between words
# of other scripts are taken along, since few long stretches are faster than many.
_NOT_ASCII = re.compile(r"[^\x00-\x7f–—‘’“”]+(?: [^\x00-\x7f]+)*")
_NOT_PRINTABLE_ASCII = re.compile(r"[^\t\n\r\x20-\x7e–—‘’“”]+")
_WORD = re.compile(r"\S+")


def _clean_for_sentencepiece(character: str, strip_accents: bool) -> str:
    """Cleans one character as the original ALBERT does before SentencePiece.

    With `strip_accents`: compatibility decomposition (NFKD) without the combining
    marks. Without: NFKC of the character alone, so "ö" and "が" stay, full-width
    letters still become ordinary ones, and no combining mark is lost; a letter and
    a mark that come as two characters are left for the vocabulary's own normaliser
    to compose (nmt_nfkc, SentencePiece's default, does).
    """
    if "\ud800" <= character <= "\udfff":  # half of a broken surrogate pair
        return "\ufffd"
    if strip_accents:
        decomposed = unicodedata.normalize("NFKD", character)
        cleaned = "".join(c for c in decomposed if not unicodedata.combining(c))
    else:
        cleaned = unicodedata.normalize("NFKC", character)
    return "".join(" " if c.isspace() else c for c in cleaned)


def _clean_for_wordpiece(character: str, strip_accents: bool) -> str:
    """Cleans one character as BERT does before WordPiece.

    Control and format characters go, white space becomes a space. With
    `strip_accents`: canonical decomposition (NFD) without non-spacing marks.
    Without: the character as it is.
    """
    if character in "\t\n\r":
        return " "
    if unicodedata.category(character) in ("Cc", "Cf", "Cs") or character == "\ufffd":
        return ""
    if character.isspace():
        return " "
    if not strip_accents:
        return character
    decomposed = unicodedata.normalize("NFD", character)
    return "".join(c for c in decomposed if unicodedata.category(c) != "Mn")


class _CharacterTexts(dict):
    """Code point -> that character cleaned; filled as characters are met.

    Capital sigma keeps its case: how it is lowered depends on its neighbours.
    """

    def __init__(self, clean: Callable[[str], str], lower_case: bool):
        super().__init__()
        self._clean = clean
        self._lower_case = lower_case

    def clean(self, character: str) -> str:
        cleaned = self._clean(character)
        if self._lower_case:
            cleaned = "".join(c if c == "Σ" else c.lower() for c in cleaned)
        return cleaned

    def __missing__(self, code_point: int) -> str:
        self[code_point] = cleaned = self.clean(chr(code_point))
        return cleaned


class AlbertTokenizer:
    """Splits text into the pieces of one vocabulary.

    Pickles to its settings and vocabulary, so worker processes need no file.

    Attributes:
      vocab_size: number of pieces, V.
      pad_id, unk_id, cls_id, sep_id, mask_id: ids of the special pieces. They never
        come out of text: a literal "[SEP]" is split like any other text.
      word_start_table: np.bool_ [V], whether a piece starts a word. With SentencePiece
        a piece does if it carries the "▁" marker, is punctuation or symbols only, or
        begins with a letter of a script that puts no spaces between words (Chinese,
        Japanese, Thai, ...); unknown and byte pieces go on with the word before. With
        WordPiece a piece does if it does not begin with "##". The original calls
        every piece outside a-z a word, which leaves other languages without
        whole-word masking.
      ordinary_ids: np.int32, ids that may stand in for a masked piece: no control,
        unknown, unused or byte pieces, and of WordPiece neither bracketed names nor
        Chinese characters marked "##", which text never becomes.
    """

    def __init__(
        self,
        spm_model_file: str | Path | None = None,
        vocab_file: str | Path | None = None,
        lower_case: bool = True,
        strip_accents: bool = True,
    ):
        """Loads a vocabulary.

        Args:
          spm_model_file: a SentencePiece model (`.model`).
          vocab_file: a WordPiece vocabulary, one token a line. Exactly one of the two.
          lower_case: whether letters are lower-cased.
          strip_accents: whether combining marks are dropped ("schön" -> "schon"), as
            the original always does.
        Raises:
          ValueError: none or both files given, a file of the wrong kind, or one that
            lacks a special piece.
          OSError: the file cannot be read.
        """
        if bool(spm_model_file) == bool(vocab_file):
            raise ValueError(
                "Give exactly one of spm_model_file and vocab_file. Received "
                f"{spm_model_file!r} and {vocab_file!r}."
            )
        path = Path(spm_model_file or vocab_file)
        content = _read(path)
        if spm_model_file:
            self._vocabulary = SentencePieceVocabulary(path, content)
            self._needs_cleaning = _NOT_ASCII
            clean = _clean_for_sentencepiece
        else:
            self._vocabulary = WordPieceVocabulary(path, content)
            self._needs_cleaning = _NOT_PRINTABLE_ASCII
            clean = _clean_for_wordpiece
        self._character_texts = _CharacterTexts(
            functools.partial(clean, strip_accents=strip_accents), lower_case
        )
        self._lower_case = lower_case
        self._metadata = {
            "vocabulary_sha256": digest(content),
            "vocab_size": len(self._vocabulary.pieces),
            "lower_case": lower_case,
            "strip_accents": strip_accents,
        }
        self._piece_ids = {p: i for i, p in enumerate(self._vocabulary.pieces)}
        self._graph_tokenizer = None
        self.vocab_size = len(self._vocabulary.pieces)
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = (
            self._vocabulary.special_ids
        )
        self.word_start_table: np.ndarray = self._vocabulary.word_start_table
        self.ordinary_ids: np.ndarray = self._vocabulary.ordinary_ids

    @classmethod
    def from_file(
        cls, path: str | Path, lower_case: bool = True, strip_accents: bool = True
    ) -> "AlbertTokenizer":
        """Loads a vocabulary whose kind its name tells; see `is_wordpiece_file`."""
        if is_wordpiece_file(path):
            return cls(
                vocab_file=path, lower_case=lower_case, strip_accents=strip_accents
            )
        return cls(path, lower_case=lower_case, strip_accents=strip_accents)

    def __getstate__(self) -> dict:
        # TensorFlow objects do not pickle; they are rebuilt on first use.
        return self.__dict__ | {"_graph_tokenizer": None}

    def metadata(self) -> dict[str, str | int | bool]:
        """What records and checkpoints must agree on; fit for JSON."""
        return dict(self._metadata)

    def normalize(self, text: str) -> str:
        """The text as the vocabulary gets to see it: cleaned, cased, collapsed."""
        return " ".join(self._clean(text).split())

    def tokenize(self, text: str) -> list[str]:
        """Pieces of a text. For people: an unknown stretch of text may read like any
        piece, even like "[SEP]", so never look ids up from these; use `encode`."""
        return self._vocabulary.tokenize(self.normalize(text))

    def encode(self, text: str) -> list[int]:
        """Ids of a text, without [CLS] and [SEP] (`packing.py` adds them)."""
        return self._vocabulary.encode(self.normalize(text))

    def encode_batch(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        """Ids of many texts, the fast path; `threads` share the SentencePiece part."""
        return self._vocabulary.encode_batch(
            [self.normalize(text) for text in texts], threads
        )

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Ids of a text and where each piece stands in it, in linear time.

        Returns:
          ids, equal to `encode(text)`; and for each a half-open range of characters
          of `text` as given, without white space around it. Ranges hold whole
          letters: the pieces of "½" all get the range of "½", and a range takes in
          combining marks that belong to its first or last letter. A lone "▁" has an
          empty range.
        """
        ids, spans = self._vocabulary.encode_with_spans(self.normalize(text))
        origins = self._origins(text)
        offsets = []
        for start, end in spans:
            if start == end:
                position = origins[start] if start < len(origins) else len(text)
                offsets.append((position, position))
            else:
                offsets.append(_whole_letters(text, origins[start], origins[end - 1]))
        return ids, offsets

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, cleaned and cased as `normalize` left it; unknown pieces come
        out as the vocabulary's sign for them."""
        return self._vocabulary.decode([int(each) for each in ids])

    def id_to_token(self, piece_id: int) -> str:
        """The piece an id stands for.

        Raises:
          ValueError: the id is not in [0, V).
        """
        if not 0 <= piece_id < self.vocab_size:
            raise ValueError(
                f"Piece ids are in [0, {self.vocab_size}). Received {piece_id}: "
                "was it made with another vocabulary?"
            )
        return self._vocabulary.pieces[piece_id]

    def token_to_id(self, piece: str) -> int:
        """The id of a piece of the vocabulary; `unk_id` if there is no such piece."""
        return self._piece_ids.get(piece, self.unk_id)

    def starts_word(self, piece_id: int) -> bool:
        """Whether a piece starts a word; see `word_start_table`."""
        return bool(self.word_start_table[piece_id])

    def tf_encode(self, texts):
        """`encode_batch` as TensorFlow ops, eagerly or inside a graph or `tf.data`.

        Args:
          texts: string [B], UTF-8; an invalid byte counts as U+FFFD.
        Returns:
          int32 ragged [B, (pieces)], equal to the Python face on every text.
        Raises:
          ValueError: texts are not a batch, that is, not of rank 1.
        """
        return self.graph_tokenizer()(texts)

    def graph_tokenizer(self):
        """The `tf.Module` behind `tf_encode`.

        A module that is exported with this tokenizer must hold it as an attribute:
        the vocabulary is a resource that TensorFlow has to track.
        """
        if self._graph_tokenizer is None:
            from albert_tf.text.tokenizer_tf import GraphTokenizer

            self._graph_tokenizer = GraphTokenizer(
                self._character_texts.clean, self._lower_case, self._vocabulary
            )
        return self._graph_tokenizer

    def _clean(self, text: str) -> str:
        """Cleans and lower-cases, white space as it comes."""
        cleaned = self._needs_cleaning.sub(
            lambda match: match.group().translate(self._character_texts), text
        )
        return cleaned.lower() if self._lower_case else cleaned

    def _origins(self, text: str) -> list[int]:
        """For each character of `normalize(text)`, its index in `text`."""
        if self._needs_cleaning.search(text):
            lengths = [len(self._character_texts[ord(c)]) for c in text]
            indices = np.repeat(np.arange(len(text)), lengths).tolist()
        else:
            indices = range(len(text))
        origins = []
        for word in _WORD.finditer(self._clean(text)):
            if origins:
                origins.append(indices[word.start() - 1])  # the space before the word
            origins.extend(indices[word.start() : word.end()])
        return origins


def is_wordpiece_file(path: str | Path) -> bool:
    """Tells a vocabulary's kind by its name: a `.txt` file is WordPiece, any other is
    SentencePiece."""
    return Path(path).suffix == ".txt"


def _read(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise FileNotFoundError(f"There is no vocabulary file {path}.") from None
    if not content:
        raise ValueError(f"The vocabulary file {path} is empty.")
    return content


def _whole_letters(text: str, first: int, last: int) -> tuple[int, int]:
    """Widens characters first..last, inclusive, to whole letters; half-open range."""

    def is_mark(index: int) -> bool:
        return unicodedata.category(text[index]).startswith("M")

    while first > 0 and is_mark(first) and not text[first - 1].isspace():
        first -= 1
    end = last + 1
    while end < len(text) and is_mark(end):
        end += 1
    return first, end
