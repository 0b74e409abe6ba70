"""Packs one or two segments of token ids into the rows that models read.

    [CLS] a a a [SEP]                pad pad        segment_ids 0 0 0 0 0 0 0
    [CLS] a a a [SEP] b b [SEP]      pad            segment_ids 0 0 0 0 0 1 1 1 0

This module and its TensorFlow twin `packing_tf.py` alone know this layout and the rules
that shorten segments; `records/cutting.py` shortens packed rows. Segments that are too
long must be shortened first, by a rule that the caller names: `truncate_longest_first`
(fine-tuning) or `truncate_pair_randomly` (pretraining).
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

# [CLS] and [SEP] around one segment; a second segment adds its own [SEP].
SPECIAL_TOKENS_OF_SINGLE = 2
SPECIAL_TOKENS_OF_PAIR = 3

Lengths = int | np.ndarray | Sequence[int]
# The segment of a pair that loses tokens if the pair is too long.
Shorten = Literal["longest", "first", "second"]


def kept_lengths(
    length_a: Any, length_b: Any, max_tokens: int, shorten: Shorten, ops: Any = np
) -> tuple[Any, Any]:
    """Computes how many tokens each segment of a pair keeps.

    Args:
      length_a: tokens in the first segment, an array of int64.
      length_b: tokens in the second segment, of the same shape.
      max_tokens: upper bound on the sum of both, special tokens not counted.
      shorten: the segment that loses tokens: the first or the second, or "longest": the
        longer one loses one token after the other, of two equally long ones the second.
      ops: the module whose `minimum` and `maximum` are used: numpy or tensorflow.
    Returns:
      (kept_a, kept_b); their sum is the smaller one of `max_tokens` and
      `length_a + length_b`.
    """
    # The room that each segment has at least, whatever the other one needs.
    room_a, room_b = {
        "longest": (max_tokens - max_tokens // 2, max_tokens // 2),
        "first": (0, max_tokens),
        "second": (max_tokens, 0),
    }[shorten]
    kept_a = ops.minimum(length_a, ops.maximum(max_tokens - length_b, room_a))
    kept_b = ops.minimum(length_b, ops.maximum(max_tokens - length_a, room_b))
    return kept_a, kept_b


def truncate_longest_first(
    length_a: Lengths, length_b: Lengths, max_tokens: int
) -> tuple[np.ndarray, np.ndarray]:
    """Computes how many tokens each segment keeps if the longer one is shortened first.

    This is the closed form of the original's loop, which removes one token at a time:
    from the longer segment, or from the second one if both are equally long.

    Args:
      length_a: tokens in the first segment, an int or an array of ints.
      length_b: tokens in the second segment, of the same shape.
      max_tokens: upper bound on the sum of both, special tokens not counted.
    Returns:
      (kept_a, kept_b), int64 arrays of that shape; their sum is the smaller one of
      `max_tokens` and `length_a + length_b`.
    """
    lengths = np.asarray(length_a, np.int64), np.asarray(length_b, np.int64)
    return kept_lengths(*lengths, max_tokens, "longest")


def truncate_pair_randomly(
    length_a: Lengths, length_b: Lengths, max_tokens: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Shortens as `truncate_longest_first`, but drops first or last tokens at random.

    Pretraining uses it, so that rows do not always begin at the start of a sentence.
    Each dropped token is the first or the last with equal probability, so the number
    dropped at the front is binomial.

    Args:
      length_a: tokens in the first segment, an int or an array of ints.
      length_b: tokens in the second segment, of the same shape.
      max_tokens: upper bound on the sum of both, special tokens not counted.
      rng: the only source of randomness.
    Returns:
      (begin_a, end_a, begin_b, end_b), int64: the half-open range of tokens that each
      segment keeps, counted from the segment's own start.
    """
    kept_a, kept_b = truncate_longest_first(length_a, length_b, max_tokens)
    begin_a = rng.binomial(np.asarray(length_a) - kept_a, 0.5)
    begin_b = rng.binomial(np.asarray(length_b) - kept_b, 0.5)
    return begin_a, begin_a + kept_a, begin_b, begin_b + kept_b


def join_segments(
    segment_a: Sequence[int],
    segment_b: Sequence[int] | None,
    *,
    cls_id: int,
    sep_id: int,
) -> dict[str, list[int]]:
    """Packs one segment or a pair into a row of its own length, without padding.

    Args:
      segment_a, segment_b: as for `pack_segments`.
      cls_id, sep_id: the vocabulary's special ids.
    Returns:
      `input_ids` and `segment_ids`.
    """
    input_ids = [cls_id, *segment_a, sep_id]
    segment_ids = [0] * len(input_ids)
    if segment_b is not None:
        input_ids += [*segment_b, sep_id]
        segment_ids += [1] * (len(segment_b) + 1)
    return {"input_ids": input_ids, "segment_ids": segment_ids}


def pack_segments(
    segment_a: Sequence[int],
    segment_b: Sequence[int] | None,
    max_seq_length: int,
    *,
    cls_id: int,
    sep_id: int,
    pad_id: int,
) -> dict[str, np.ndarray]:
    """Packs one segment or a pair into a padded row.

    Args:
      segment_a: ids of the first segment.
      segment_b: ids of the second segment; None for a single segment. An empty second
        segment is still a pair and has its own [SEP].
      max_seq_length: S, tokens in the row, padding included.
      cls_id, sep_id, pad_id: the vocabulary's special ids.
    Returns:
      `input_ids`, `input_mask` (1 for tokens, 0 for padding) and `segment_ids`,
      int32 [S].
    Raises:
      ValueError: the segments do not fit.
    """
    second = () if segment_b is None else segment_b
    split, end = len(segment_a), len(segment_a) + len(second)
    rows = pack_rows(
        # The last id is never read; it allows both segments to be empty.
        np.array([*segment_a, *second, pad_id], np.int32),
        np.array([[0, split]]),
        None if segment_b is None else np.array([[split, end]]),
        max_seq_length,
        cls_id=cls_id,
        sep_id=sep_id,
        pad_id=pad_id,
    )
    return {name: values[0] for name, values in rows.items()}


def pack_rows(
    ids: np.ndarray,
    ranges_a: np.ndarray,
    ranges_b: np.ndarray | None,
    max_seq_length: int,
    *,
    cls_id: int,
    sep_id: int,
    pad_id: int,
) -> dict[str, np.ndarray]:
    """Packs many rows at once, as `pack_segments`; segments are ranges of one array.

    Args:
      ids: int [N], N > 0, the text.
      ranges_a: int [R, 2], half-open range in `ids` of each row's first segment.
      ranges_b: the same for the second segments, or None for single segments.
      max_seq_length: S, tokens in a row, padding included.
      cls_id, sep_id, pad_id: the vocabulary's special ids.
    Returns:
      `input_ids` (dtype of `ids`), `input_mask` and `segment_ids` (int32), [R, S].
    Raises:
      ValueError: a row does not fit.
    """
    rows = np.arange(len(ranges_a))
    separator = 1 + ranges_a[:, 1] - ranges_a[:, 0]
    shift = ranges_a[:, :1] - 1
    columns = np.arange(max_seq_length)
    if ranges_b is None:
        last = separator
        source = columns + shift
    else:
        last = separator + 1 + ranges_b[:, 1] - ranges_b[:, 0]
        shift_b = ranges_b[:, :1] - separator[:, None] - 1
        source = columns + np.where(columns > separator[:, None], shift_b, shift)
    if len(rows) and last.max() >= max_seq_length:
        raise ValueError(
            f"A row of {last.max() + 1} tokens, special tokens included, does not fit "
            f"max_seq_length={max_seq_length}: truncate the segments or raise it."
        )
    real = columns <= last[:, None]
    # Padding and special tokens read any id here and are overwritten below.
    input_ids = ids.take(source, mode="clip")
    input_ids[~real] = pad_id
    input_ids[:, 0] = cls_id
    input_ids[rows, separator] = sep_id
    input_ids[rows, last] = sep_id
    return {
        "input_ids": input_ids,
        "input_mask": real.astype(np.int32),
        "segment_ids": (real & (columns > separator[:, None])).astype(np.int32),
    }
