"""Texts and ids that `benchmark.py serving` sends.

Letters in shapes: B rows, S tokens.
"""

from collections.abc import Sequence

import numpy as np

from albert_tf.text import packing
from albert_tf.text.tokenizer import AlbertTokenizer

_WORDS = "the house by the river was sold to a man from the north who had a dog and one"
# Tokens of a row with the shortest and with the longest text.
SHORTEST, LONGEST = 4, 120
# Most texts that servers are sent are short.
_MIXED_LENGTHS = (4, 60, 9, 24, 120, 7, 33, 15, 80, 12, 5, 48, 20, 28, 10, 100)

Batch = dict[str, np.ndarray]


def mixed_texts(tokenizer: AlbertTokenizer, rng: np.random.Generator) -> list[str]:
    """Makes 16 texts of 4 to 120 tokens, more short ones than long ones."""
    return [text_of(tokenizer, length, rng) for length in _MIXED_LENGTHS]


def even_texts(
    tokenizer: AlbertTokenizer, count: int, rng: np.random.Generator
) -> list[str]:
    """Makes texts whose numbers of tokens lie evenly between 4 and 120."""
    lengths = np.linspace(SHORTEST, LONGEST, count).round().astype(int).tolist()
    return [text_of(tokenizer, length, rng) for length in lengths]


def text_of(tokenizer: AlbertTokenizer, length: int, rng: np.random.Generator) -> str:
    """Makes a text of random words.

    Args:
      tokenizer: of the model.
      length: of the row in tokens, special ones included. The row is shorter if no word
        has the number of tokens that is missing.
      rng: chooses the words.
    """
    sizes = {word: len(tokenizer.encode(word)) for word in sorted({*_WORDS.split()})}
    text: list[str] = []
    left = length - packing.SPECIAL_TOKENS_OF_SINGLE
    while fitting := [word for word, size in sizes.items() if size <= left]:
        text.append(fitting[rng.integers(len(fitting))])
        left -= sizes[text[-1]]
    return " ".join(text)


def random_ids(
    tokenizer: AlbertTokenizer, rows: int, length: int, rng: np.random.Generator
) -> Batch:
    """Makes rows of random ids without padding, int32 [B, S]."""
    own = length - packing.SPECIAL_TOKENS_OF_SINGLE
    return _rows(tokenizer, rng.choice(tokenizer.ordinary_ids, [rows, own]).tolist())


def pack(tokenizer: AlbertTokenizer, texts: Sequence[str]) -> Batch:
    """Makes rows of texts, padded to the longest, int32 [B, S]."""
    return _rows(tokenizer, tokenizer.encode_batch(texts))


def _rows(tokenizer: AlbertTokenizer, rows: Sequence[Sequence[int]]) -> Batch:
    lengths = np.array([len(row) for row in rows])
    ends = np.cumsum(lengths)
    return packing.pack_rows(
        np.concatenate(rows).astype(np.int32),
        np.stack([ends - lengths, ends], axis=1),
        None,
        int(lengths.max()) + packing.SPECIAL_TOKENS_OF_SINGLE,
        cls_id=tokenizer.cls_id,
        sep_id=tokenizer.sep_id,
        pad_id=tokenizer.pad_id,
    )
