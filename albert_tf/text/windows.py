"""Windows of texts that are longer than a row: which tokens each of them has.

The rule is the same in data preparation and in graphs (`windows_tf.py`). Of a pair the
longer text is cut into windows (the first one if both are as long); the other one is in
every window, whole, or as far as half of a row.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from albert_tf.text import packing


class WindowRule(NamedTuple):
    """The rule by which texts are cut.

    Attributes:
      max_seq_length: most tokens of a row, special tokens included.
      doc_stride: tokens from the start of a window to the start of the next; at most
        the tokens of a window, so that none is left out.
      max_windows: most windows of a text; tokens after them are lost.
    """

    max_seq_length: int
    doc_stride: int
    max_windows: int

    def counts(
        self, longer: Any, shorter: Any, is_pair: bool, np_like: Any = np
    ) -> Any:
        """Computes the windows of texts.

        Args:
          longer, shorter: tokens of the text to cut and of the other one, integers or
            arrays of them; of single texts the other one has none.
          is_pair: whether rows have two segments.
          np_like: numpy, or `tf`, whose functions are of the same names.
        Returns:
          (tokens of the longer text in a window, those of the shorter one that are
          kept, tokens between the starts of windows, number of windows).
        """
        room = self.max_seq_length - (
            packing.SPECIAL_TOKENS_OF_PAIR
            if is_pair
            else packing.SPECIAL_TOKENS_OF_SINGLE
        )
        kept = np_like.minimum(shorter, room // 2)
        size = room - kept
        step = np_like.minimum(size, self.doc_stride)
        more = np_like.maximum(longer - size, 0)
        windows = 1 + (more + step - 1) // step
        return size, kept, step, np_like.minimum(windows, self.max_windows)


class Windows(NamedTuple):
    """The windows of a text or pair.

    Attributes:
      segments: tokens of the first and, of pairs, the second segment of each window.
      truncated: whether tokens are lost.
    """

    segments: list[tuple[Sequence[int], Sequence[int] | None]]
    truncated: bool


def windows_of(
    first: Sequence[int], second: Sequence[int] | None, rule: WindowRule
) -> Windows:
    """Cuts a text or a pair into windows.

    Args:
      first: tokens of the first text.
      second: those of the second; None: there is none.
      rule: how texts are cut.
    """
    is_pair = second is not None
    other = second if second is not None else ()
    cuts_first = len(first) >= len(other)
    longer, shorter = (first, other) if cuts_first else (other, first)
    size, kept, step, count = rule.counts(len(longer), len(shorter), is_pair)
    segments: list[tuple[Sequence[int], Sequence[int] | None]] = []
    for start in range(0, count * step, step):
        part, whole = longer[start : start + size], shorter[:kept]
        if not is_pair:
            segments.append((part, None))
        else:
            segments.append((part, whole) if cuts_first else (whole, part))
    end = (count - 1) * step + size
    return Windows(segments, bool(end < len(longer) or kept < len(shorter)))
