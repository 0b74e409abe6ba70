"""Splits texts into words in a TensorFlow graph: `words.py`'s TensorFlow twin.

Letters in shapes: B texts, W words of all texts.
"""

import functools
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.text import words

_PAGE = 256
_CODE_POINTS = 0x110000


class Words(NamedTuple):
    """The words of some texts.

    Attributes:
      texts: string [W].
      starts: int32 ragged [B, (words)], first characters in the given text, in which
        an invalid byte is one character.
      ends: the same of ends, exclusive.
    """

    texts: tf.Tensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor


def split_words(texts: tf.Tensor) -> Words:
    """Splits texts, string [B], as `words.split_words`."""
    characters = tf.strings.unicode_decode(texts, "UTF-8")
    code_points, rows = characters.flat_values, characters.value_rowids()
    pages, table = map(tf.constant, _kinds())
    first = tf.gather(pages, code_points // _PAGE) * _PAGE
    kinds = tf.gather(table, first + code_points % _PAGE)
    starts_text = rows[1:] != rows[:-1]
    before = tf.where(starts_text, words.SPACE, kinds[:-1])
    before = tf.concat([[words.SPACE], before], axis=0)[: tf.size(kinds)]
    is_inside = kinds != words.SPACE
    is_start = is_inside & (
        (before == words.SPACE)
        | (kinds == words.ALONE)
        | ((before == words.ALONE) & (kinds == words.LETTER))
    )
    # A word ends where the next character is none of it.
    follows = is_inside[1:] & ~is_start[1:] & ~starts_text
    is_end = is_inside & ~tf.concat([follows, [False]], axis=0)[: tf.size(kinds)]
    starts, ends = (tf.where(places)[:, 0] for places in (is_start, is_end))
    found = tf.RaggedTensor.from_value_rowids(
        starts, tf.gather(rows, starts), characters.nrows(), validate=False
    )
    first = tf.gather(characters.row_starts(), found.value_rowids())
    spelled = tf.RaggedTensor.from_row_lengths(
        tf.boolean_mask(code_points, is_inside), ends + 1 - starts, validate=False
    )
    return Words(
        tf.strings.unicode_encode(spelled, "UTF-8"),
        found.with_values(tf.cast(starts - first, tf.int32)),
        found.with_values(tf.cast(ends + 1 - first, tf.int32)),
    )


@functools.cache
def _kinds() -> tuple[np.ndarray, np.ndarray]:
    """The kinds of all code points: the number of the page of each 256 of them, and
    the pages that differ, int32."""
    kind = words.kind.__wrapped__
    kinds = np.fromiter(map(kind, map(chr, range(_CODE_POINTS))), np.int32)
    pages, numbers = np.unique(kinds.reshape(-1, _PAGE), axis=0, return_inverse=True)
    return numbers.reshape(-1).astype(np.int32), pages.reshape(-1)
