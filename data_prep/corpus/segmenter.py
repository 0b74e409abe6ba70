"""Finds words of Chinese for whole-word masking.

Chinese puts no space between words, so by its vocabulary alone each character is a word
of its own, as in the released Chinese models. A segmenter (`jieba`, an extra) finds
words of several characters, and these are then masked together, as "whole word masking"
means for Chinese.

Whether a token starts a word then depends on its context. Tokenized text
(tokenized_corpus.py) keeps this in the id: a token that continues a word is stored as
its id + V, V being the vocabulary's size. The second half of `word_start_table` is for
these ids.
"""

import re
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from albert_tf.text.tokenizer import AlbertTokenizer

SEGMENTERS = ("none", "jieba")

_CHINESE = re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")


class RowTokenizer(Protocol):
    """The part of a tokenizer that making rows needs; `AlbertTokenizer` has it."""

    vocab_size: int
    pad_id: int
    unk_id: int
    cls_id: int
    sep_id: int
    mask_id: int
    ordinary_ids: np.ndarray
    word_start_table: np.ndarray

    def metadata(self) -> dict[str, Any]:
        """Returns the vocabulary's digest and size, and the cleaning of text."""
        ...

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of texts, indices of `word_start_table`."""
        ...


class SegmentingTokenizer:
    """A `RowTokenizer` that finds words of Chinese with jieba."""

    def __init__(self, tokenizer: AlbertTokenizer):
        """Wraps a tokenizer, whose tokens stay as they are.

        Args:
          tokenizer: splits text into tokens.
        Raises:
          ValueError: jieba is not installed.
        """
        _load_jieba()
        self._tokenizer = tokenizer
        self.vocab_size = tokenizer.vocab_size
        self.pad_id, self.unk_id = tokenizer.pad_id, tokenizer.unk_id
        self.cls_id, self.sep_id = tokenizer.cls_id, tokenizer.sep_id
        self.mask_id = tokenizer.mask_id
        self.ordinary_ids = tokenizer.ordinary_ids
        inside = np.zeros(tokenizer.vocab_size, bool)
        self.word_start_table = np.concatenate([tokenizer.word_start_table, inside])

    def metadata(self) -> dict[str, str | int | bool]:
        """Returns the metadata of the wrapped tokenizer, which readers of rows need."""
        return self._tokenizer.metadata()

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of texts, in [0, 2V)."""
        return [self._encode(text) for text in texts]

    def _encode(self, text: str) -> list[int]:
        if not _CHINESE.search(text):
            return self._tokenizer.encode(text)
        inside = np.zeros(len(text) + 1, bool)
        for _, start, end in _load_jieba().tokenize(text):
            inside[start + 1 : end] = True
        ids, offsets = self._tokenizer.encode_with_offsets(text)
        return [
            # The vocabulary marks the start of a word with other letters ("T恤").
            i + self.vocab_size * (inside[start] and bool(_CHINESE.match(text, start)))
            for i, (start, _) in zip(ids, offsets, strict=True)
        ]


def make_segmenting(tokenizer: AlbertTokenizer, segmenter: str) -> RowTokenizer:
    """Returns a tokenizer that finds words of Chinese with one of `SEGMENTERS`."""
    return tokenizer if segmenter == "none" else SegmentingTokenizer(tokenizer)


def _load_jieba() -> Any:
    try:
        import jieba
    except ImportError:
        raise ValueError(
            "chinese_segmenter=jieba needs the library jieba: pip install "
            "--editable '.[jieba]', or leave chinese_segmenter at none."
        ) from None
    # It reports the loading of its dictionary at the level of errors.
    jieba.setLogLevel("WARNING")
    return jieba
