"""Words of Chinese, for whole-word masking: which pieces go on with a word.

Chinese puts no space between words, so by its vocabulary alone each character is a word
of its own, as in the released Chinese models. A segmenter (`jieba`, an extra) finds
words of several characters, and then those are masked together, as "whole word masking"
means for Chinese.

Whether a piece starts a word then depends on where it stands. Text as ids (`store.py`)
says so by the id itself: a piece that goes on with a word is stored as its id + V, V
being the vocabulary's size. The second half of `word_start_table` is about those.
"""

import re
from collections.abc import Sequence

import numpy as np

from albert_tf.text.tokenizer import AlbertTokenizer

SEGMENTERS = ("none", "jieba")

_CHINESE = re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")


class SegmentingTokenizer:
    """What making rows needs of a tokenizer, with words of Chinese found by jieba."""

    def __init__(self, tokenizer: AlbertTokenizer):
        """Args:
        tokenizer: splits text into pieces, which this leaves as they are.
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
        """The vocabulary's, which it is that readers need."""
        return self._tokenizer.metadata()

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of texts, in [0, 2V)."""
        return [self._encode(text) for text in texts]

    def _encode(self, text: str) -> list[int]:
        if not _CHINESE.search(text):
            return self._tokenizer.encode(text)
        inside = np.zeros(len(text) + 1, bool)
        for _, start, end in _load_jieba().tokenize(text):
            inside[start + 1 : end] = True
        ids, offsets = self._tokenizer.encode_with_offsets(text)
        return [
            # Of a word with other letters in it ("T恤") the vocabulary knows the start.
            i + self.vocab_size * (inside[start] and bool(_CHINESE.match(text, start)))
            for i, (start, _) in zip(ids, offsets, strict=True)
        ]


def make_segmenting(tokenizer: AlbertTokenizer, segmenter: str):
    """The tokenizer, with words of Chinese found by one of `SEGMENTERS`."""
    return tokenizer if segmenter == "none" else SegmentingTokenizer(tokenizer)


def _load_jieba():
    try:
        import jieba
    except ImportError:
        raise ValueError(
            "chinese_segmenter=jieba needs the library jieba: pip install "
            "--editable '.[jieba]', or leave the setting at none."
        ) from None
    # It reports on the loading of its dictionary as if that were an error.
    jieba.setLogLevel("WARNING")
    return jieba
