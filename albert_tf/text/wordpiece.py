"""WordPiece vocabularies."""

import re
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from albert_tf.storage import AnyPath
from albert_tf.text.vocabulary import SPECIAL_NAMES, WORD_MARKER, Span

if TYPE_CHECKING:
    from albert_tf.text.wordpiece_tf import WordPieceSplitter

_CHINESE_INSIDE_WORD = re.compile("##[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")


class WordPieceVocabulary:
    """A BERT vocabulary: one token a line; "##" continues a word.

    It implements `Vocabulary`. tensorflow-text splits the texts; it is loaded when the
    first text is encoded.
    """

    def __init__(self, path: AnyPath, content: bytes):
        """Reads the content of a file.

        Args:
          path: the file's name, for messages.
          content: the file's bytes.
        Raises:
          ValueError: it is not a WordPiece vocabulary, or lacks a special token.
        """
        self.tokens = _read_tokens(path, content)
        ids = {token: i for i, token in enumerate(self.tokens)}
        names = ("[PAD]", "[UNK]", *SPECIAL_NAMES)
        for name in names:
            if name not in ids:
                raise ValueError(
                    f"{path} has no line {name}: a WordPiece vocabulary needs [PAD], "
                    "[UNK], [CLS], [SEP] and [MASK]."
                )
        self.special_ids = tuple(ids[name] for name in names)
        self.word_start_table = np.array(
            [not token.startswith("##") for token in self.tokens]
        )
        # Text is split at punctuation and around each Chinese character. So it never
        # becomes a token with both letters and punctuation ([MASK], [unused7], <S>) or
        # a Chinese character that continues a word (the released Chinese vocabulary has
        # 7,322 of these, a third of it).
        self.ordinary_ids = np.array(
            [
                i
                for i, token in enumerate(self.tokens)
                if not (_is_name(token) or _CHINESE_INSIDE_WORD.match(token))
            ],
            np.int32,
        )
        self.split_tokens: dict[int, list[str]] = {}
        self.expansions: dict[int, list[int]] = {}
        self.byte_ids: list[int] = []
        self._splitter: WordPieceSplitter | None = None

    def __getstate__(self) -> dict[str, Any]:
        # TensorFlow objects do not pickle; they are built again on first use.
        return self.__dict__ | {"_splitter": None}

    def splitter(self) -> "WordPieceSplitter":
        """Returns the tensorflow-text splitter, built on first use."""
        if self._splitter is None:
            from albert_tf.text.wordpiece_tf import WordPieceSplitter

            self._splitter = WordPieceSplitter(self.tokens)
        return self._splitter

    def tokenize(self, text: str) -> list[str]:
        """Returns the tokens of a cleaned text; a word that does not split is [UNK]."""
        return [self.tokens[i] for i in self.encode(text)]

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a cleaned text."""
        return self.encode_batch([text], 1)[0]

    def encode_batch(self, texts: list[str], threads: int) -> list[list[int]]:
        """Returns the ids of cleaned texts; `threads` has no effect."""
        del threads  # tensorflow-text has its own.
        return self.splitter().encode_batch(texts)

    def encode_with_spans(self, text: str) -> tuple[list[int], list[Span]]:
        """Returns the ids of a cleaned text, and each token's half-open range in it."""
        return self.splitter().encode_with_spans(text)

    def normalize_characters(self, characters: Sequence[str]) -> list[str]:
        """Returns the characters unchanged: WordPiece has no normalization."""
        return list(characters)

    def decode(self, ids: list[int]) -> str:
        """Returns the words of ids, with one space between them."""
        return " ".join(self.tokens[i] for i in ids).replace(" ##", "")


def _is_name(token: str) -> bool:
    """True if a token has both letters and punctuation."""
    text = token.removeprefix("##")
    has_punctuation = any(unicodedata.category(c)[0] == "P" or c in "<>" for c in text)
    return has_punctuation and any(c.isalpha() for c in text)


def _read_tokens(path: AnyPath, content: bytes) -> list[str]:
    """Reads the lines of a vocabulary, and checks them."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(
            f"{path} is not UTF-8 text: give a SentencePiece model as spm_model_file."
        ) from None
    tokens = [line.rstrip("\r") for line in text.rstrip("\r\n").split("\n")]
    # Counts decide, since a large WordPiece vocabulary may have "▁" as a symbol, and a
    # SentencePiece one "##".
    marked, continuing = (
        sum(token.startswith(mark) for token in tokens) for mark in (WORD_MARKER, "##")
    )
    if marked > continuing:
        raise ValueError(
            f'{path} marks words with "{WORD_MARKER}", so it belongs to a '
            "SentencePiece model: give its .model file as spm_model_file."
        )
    first_line: dict[str, int] = {}
    for number, token in enumerate(tokens, start=1):
        if not token or token in first_line:
            raise ValueError(
                f"{path}, line {number}: every line must hold a token of its own. "
                f"Received {token!r}"
                + (f", as on line {first_line[token]}." if token else ".")
            )
        first_line[token] = number
    return tokens
