"""The tokenizer: text to token ids and back.

    text -> cleaned (cleaning.py) -> split by SentencePiece or WordPiece
         -> digit-comma rule -> ids

`AlbertTokenizer` is the Python face; `tf_encode` gives the same ids in a TensorFlow
graph (tokenizer_tf.py, loaded on first use so that data workers stay small).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from albert_tf.files import digest
from albert_tf.storage import PathLike, as_path
from albert_tf.text.cleaning import TextCleaner, is_visible, whole_letters
from albert_tf.text.sentencepiece import SentencePieceVocabulary
from albert_tf.text.vocabulary import Vocabulary
from albert_tf.text.vocabulary_content import read_vocabulary
from albert_tf.text.wordpiece import WordPieceVocabulary

if TYPE_CHECKING:
    import tensorflow as tf

    from albert_tf.text.tokenizer_tf import GraphTokenizer


class AlbertTokenizer:
    """Splits text into the tokens of one vocabulary.

    It pickles together with its vocabulary, so worker processes need no file.

    Attributes:
      vocab_size: number of tokens, V.
      pad_id, unk_id, cls_id, sep_id, mask_id: ids of the special tokens. Text never
        becomes one of them: a literal "[SEP]" is split like any other text.
      word_start_table: np.bool_ [V], true for tokens that start a word. A SentencePiece
        token does if it has the "▁" marker, is punctuation or symbols only, or begins
        with a letter of a script without spaces between words (Chinese, Japanese, Thai,
        ...); unknown and byte tokens continue the word before them. A WordPiece token
        does if it does not begin with "##". In the original every token outside a-z
        starts a word, which leaves other languages without whole-word masking.
      ordinary_ids: np.int32, ids that may replace a masked token at random: no control,
        unknown, unused or byte tokens, and of WordPiece no names in brackets and no
        Chinese characters marked "##", which text never becomes.
    """

    def __init__(
        self,
        spm_model_file: PathLike | None = None,
        vocab_file: PathLike | None = None,
        lower_case: bool = True,
        strip_accents: bool | None = None,
    ):
        """Loads a vocabulary.

        Args:
          spm_model_file: a SentencePiece model (`.model`).
          vocab_file: a WordPiece vocabulary, one token a line, or a `tokenizer.json` of
            `transformers` with one. Exactly one of the two.
          lower_case: lower-case letters.
          strip_accents: drop combining marks ("schön" -> "schon"); None: as
            `default_strip_accents` says.
        Raises:
          ValueError: none or both files are given, or a file is of the wrong kind or
            lacks a special token.
          OSError: the file cannot be read.
        """
        if bool(spm_model_file) == bool(vocab_file):
            raise ValueError(
                "Give exactly one of spm_model_file and vocab_file. Received "
                f"{spm_model_file!r} and {vocab_file!r}."
            )
        if strip_accents is None:
            strip_accents = default_strip_accents(not spm_model_file, lower_case)
        path = as_path(spm_model_file or vocab_file or "")
        content = read_vocabulary(path)
        self._vocabulary: Vocabulary
        if spm_model_file:
            self._vocabulary = SentencePieceVocabulary(path, content)
            self._cleaner = TextCleaner.for_sentencepiece(lower_case, strip_accents)
        else:
            self._vocabulary = WordPieceVocabulary(path, content)
            self._cleaner = TextCleaner.for_wordpiece(lower_case, strip_accents)
        self._metadata: dict[str, str | int | bool] = {
            "vocabulary_sha256": digest(content),
            "vocab_size": len(self._vocabulary.tokens),
            "lower_case": lower_case,
            "strip_accents": strip_accents,
        }
        self._silent = _SilentCharacters(self._cleaner, self._vocabulary)
        self._token_ids = {token: i for i, token in enumerate(self._vocabulary.tokens)}
        self._graph_tokenizer: GraphTokenizer | None = None
        self.vocab_size = len(self._vocabulary.tokens)
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = (
            self._vocabulary.special_ids
        )
        self.word_start_table: np.ndarray = self._vocabulary.word_start_table
        self.ordinary_ids: np.ndarray = self._vocabulary.ordinary_ids

    @classmethod
    def from_file(
        cls,
        path: PathLike,
        lower_case: bool = True,
        strip_accents: bool | None = None,
    ) -> "AlbertTokenizer":
        """Loads a vocabulary of either kind; see `is_wordpiece_file`."""
        if is_wordpiece_file(path):
            return cls(
                vocab_file=path, lower_case=lower_case, strip_accents=strip_accents
            )
        return cls(path, lower_case=lower_case, strip_accents=strip_accents)

    def __getstate__(self) -> dict[str, Any]:
        # TensorFlow objects do not pickle; they are built again on first use.
        return self.__dict__ | {"_graph_tokenizer": None}

    def metadata(self) -> dict[str, Any]:
        """Returns the JSON values that records and checkpoints must agree in."""
        return dict(self._metadata)

    def normalize(self, text: str) -> str:
        """Returns the text that the vocabulary splits: cleaned, cased, collapsed."""
        return self._cleaner.normalize(text)

    def tokenize(self, text: str) -> list[str]:
        """Returns the tokens of a text, for people to read.

        An unknown stretch of text may read like any token, even like "[SEP]". So do not
        look up ids of these tokens; use `encode`.
        """
        return self._vocabulary.tokenize(self.normalize(text))

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a text, without [CLS] and [SEP] (see packing.py)."""
        return self._vocabulary.encode(self.normalize(text))

    def encode_batch(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        """Returns the ids of many texts: the fast way.

        Args:
          texts: the texts.
          threads: number of threads that SentencePiece uses.
        """
        return self._vocabulary.encode_batch(
            [self.normalize(text) for text in texts], threads
        )

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Returns the ids of a text and each token's place in it, in linear time.

        Returns:
          ids, equal to `encode(text)`; and for each a half-open range of characters
          of the given `text`, without white space around it. Ranges are whole letters:
          the tokens of "½" all get the range of "½", and a range includes combining
          marks that belong to its first or last letter, and other visible characters
          that cleaning drops, as "΄" in "ΙΔ΄". A lone "▁" has an empty range.
        """
        ids, spans = self._vocabulary.encode_with_spans(self.normalize(text))
        origins = self._cleaner.origins(text)
        offsets = []
        for start, end in spans:
            if start == end:
                position = origins[start] if start < len(origins) else len(text)
                offsets.append((position, position))
            else:
                first, last = origins[start], origins[end - 1]
                offsets.append(whole_letters(text, first, last, self._silent))
        return ids, offsets

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of ids, cleaned and cased as by `normalize`.

        Unknown tokens become the vocabulary's sign for them.
        """
        return self._vocabulary.decode([int(token_id) for token_id in ids])

    def id_to_token(self, token_id: int) -> str:
        """Returns the token of an id.

        Raises:
          ValueError: the id is not in [0, V).
        """
        if not 0 <= token_id < self.vocab_size:
            raise ValueError(
                f"Token ids are in [0, {self.vocab_size}). Received {token_id}: "
                "was it made with another vocabulary?"
            )
        return self._vocabulary.tokens[token_id]

    def token_to_id(self, token: str) -> int:
        """Returns the id of a token; `unk_id` if the vocabulary has no such token."""
        return self._token_ids.get(token, self.unk_id)

    def starts_word(self, token_id: int) -> bool:
        """True if a token starts a word; see `word_start_table`."""
        return bool(self.word_start_table[token_id])

    def tf_encode(self, texts: "tf.Tensor | Sequence[str]") -> "tf.RaggedTensor":
        """Encodes texts with TensorFlow ops: eagerly, in a graph or in `tf.data`.

        Args:
          texts: string [B], UTF-8; an invalid byte counts as U+FFFD.
        Returns:
          int32 ragged [B, (tokens)], equal to `encode_batch`.
        Raises:
          ValueError: the texts are not a batch, that is, not of rank 1.
        """
        return self.graph_tokenizer()(texts)

    def graph_tokenizer(self) -> "GraphTokenizer":
        """Returns the `tf.Module` behind `tf_encode`.

        A module that is exported with this tokenizer must hold it as an attribute,
        because the vocabulary is a resource that TensorFlow has to track.
        """
        if self._graph_tokenizer is None:
            from albert_tf.text.tokenizer_tf import GraphTokenizer

            self._graph_tokenizer = GraphTokenizer(self._cleaner, self._vocabulary)
        return self._graph_tokenizer


def default_strip_accents(is_wordpiece: bool, lower_case: bool) -> bool:
    """The rule for models that do not say whether combining marks are dropped.

    A SentencePiece model (ALBERT) drops them; with a WordPiece vocabulary (BERT) they
    follow the case: dropped from lower-cased text, kept in cased text. These are the
    defaults of the original code and of `transformers`.
    """
    return lower_case if is_wordpiece else True


class _SilentCharacters(dict[str, bool]):
    """Character -> true if it is visible, but never a part of a token.

    It is filled when characters are first met.
    """

    def __init__(self, cleaner: TextCleaner, vocabulary: Vocabulary):
        super().__init__()
        self._cleaner, self._vocabulary = cleaner, vocabulary

    def __missing__(self, character: str) -> bool:
        cleaned = self._cleaner.clean_character(character)
        [normalized] = self._vocabulary.normalize_characters([cleaned])
        silent = is_visible(character) and not normalized.strip()
        self[character] = silent
        return silent


def is_wordpiece_file(path: PathLike) -> bool:
    """Tells the kind of a vocabulary whose kind nobody states.

    SentencePiece models are binary: they hold zero bytes, which text does not. Of a
    file that is not there the name tells: a `.txt` file is WordPiece.
    """
    file = as_path(path)
    try:
        return b"\0" not in file.read_bytes()
    except OSError:
        return file.suffix == ".txt"
