"""The members that the two kinds of vocabulary, SentencePiece and WordPiece, share."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

MASK = "[MASK]"
# Tokens that models need besides padding and unknown text.
SPECIAL_NAMES = ("[CLS]", "[SEP]", MASK)
# SentencePiece's mark of a space before a token.
WORD_MARKER = "▁"

Span = tuple[int, int]


@runtime_checkable
class Vocabulary(Protocol):
    """Splits cleaned text into the tokens of one vocabulary.

    Attributes:
      tokens: the V tokens; an id is a place in it.
      special_ids: (padding, unknown, [CLS], [SEP], [MASK]).
      word_start_table: np.bool_ [V]; see `AlbertTokenizer`.
      ordinary_ids: np.int32; see `AlbertTokenizer`.
      split_tokens: id -> the tokens that replace it after splitting (SentencePiece's
        digit-comma rule).
      expansions: the same as ids.
      byte_ids: ids of tokens that are one byte of a character.
    """

    tokens: list[str]
    special_ids: tuple[int, ...]
    word_start_table: np.ndarray
    ordinary_ids: np.ndarray
    split_tokens: dict[int, list[str]]
    expansions: dict[int, list[int]]
    byte_ids: list[int]

    def tokenize(self, text: str) -> list[str]:
        """Returns the tokens of a text."""
        ...

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a text."""
        ...

    def encode_batch(self, texts: list[str], threads: int) -> list[list[int]]:
        """Returns the ids of texts, made by `threads` threads if the kind can."""
        ...

    def encode_with_spans(self, text: str) -> tuple[list[int], list[Span]]:
        """Returns the ids of a text, and each token's half-open character range."""
        ...

    def decode(self, ids: list[int]) -> str:
        """Returns the text of ids."""
        ...

    def normalize_characters(self, characters: Sequence[str]) -> list[str]:
        """Returns what the splitter's own normalization makes of single characters."""
        ...
