"""One or two segments of ids -> input_ids, input_mask, segment_ids of one length.

    [CLS] a a a [SEP]                pad pad        segment_ids 0 0 0 0 0 0 0
    [CLS] a a a [SEP] b b [SEP]      pad            segment_ids 0 0 0 0 0 1 1 1 0

This module alone knows that layout and how segments are shortened to fit it. What is
too long must be shortened first, by a rule that the caller names:
`truncate_longest_first` (fine-tuning) or `truncate_pair_randomly` (pretraining).
"""

from collections.abc import Sequence

import numpy as np

# [CLS] and [SEP] around one segment; a second segment adds its own [SEP].
SPECIAL_TOKENS_OF_SINGLE = 2
SPECIAL_TOKENS_OF_PAIR = 3


def truncate_longest_first(length_a, length_b, max_pieces: int):
    """How many pieces each segment keeps if the longer one keeps losing a piece.

    Of two equally long segments the second one loses. This is the closed form of the
    original's loop that removes one piece at a time.

    Args:
      length_a: pieces in the first segment, an int or an array of ints.
      length_b: pieces in the second segment, of the same shape.
      max_pieces: upper bound on the sum of both, special pieces not counted.
    Returns:
      (kept_a, kept_b), int64 arrays of that shape; their sum is the smaller one of
      `max_pieces` and `length_a + length_b`.
    """
    length_a, length_b = np.asarray(length_a), np.asarray(length_b)
    smaller_half, larger_half = max_pieces // 2, max_pieces - max_pieces // 2
    # Room that the other segment leaves, but never less than a fair half.
    kept_a = np.minimum(length_a, np.maximum(larger_half, max_pieces - length_b))
    kept_b = np.minimum(length_b, np.maximum(smaller_half, max_pieces - length_a))
    return kept_a.astype(np.int64), kept_b.astype(np.int64)


def truncate_pair_randomly(
    length_a, length_b, max_pieces: int, rng: np.random.Generator
):
    """As `truncate_longest_first`, but each lost piece is the first or last at random.

    Pretraining uses it, so that rows do not always begin where a sentence does. Since
    every loss is a fair coin toss, the losses at the front are binomial.

    Args:
      length_a: pieces in the first segment, an int or an array of ints.
      length_b: pieces in the second segment, of the same shape.
      max_pieces: upper bound on the sum of both, special pieces not counted.
      rng: the only source of randomness.
    Returns:
      (begin_a, end_a, begin_b, end_b), int64: the half-open piece range that stays of
      each segment, counted from the segment's own start.
    """
    kept_a, kept_b = truncate_longest_first(length_a, length_b, max_pieces)
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
    """One segment or a pair as a row of its own length, which batches pad.

    Args:
      segment_a, segment_b: as of `pack_segments`.
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
    """Packs one segment or a pair into a row.

    Args:
      segment_a: ids of the first segment.
      segment_b: ids of the second segment; None for a single segment. An empty second
        segment is still a pair and has its own [SEP].
      max_seq_length: S, pieces in the row, padding included.
      cls_id, sep_id, pad_id: the vocabulary's special ids.
    Returns:
      `input_ids`, `input_mask` (1 for real pieces) and `segment_ids`, int32 [S].
    Raises:
      ValueError: the segments do not fit.
    """
    pair = segment_b is not None
    split = len(segment_a)
    end = split + len(segment_b) if pair else split
    rows = pack_rows(
        # The last piece is never read; it lets both segments be empty.
        np.array([*segment_a, *(segment_b if pair else ()), pad_id], np.int32),
        np.array([[0, split]]),
        np.array([[split, end]]) if pair else None,
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
    """Packs many rows at once; the segments are ranges of one array of ids.

    Args:
      ids: int [N], N > 0, the text.
      ranges_a: int [R, 2], half-open range in `ids` of each row's first segment.
      ranges_b: the same for the second segment, or None for single segments.
      max_seq_length: S, pieces in a row, padding included.
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
            f"A row of {last.max() + 1} pieces, special pieces included, does not fit "
            f"max_seq_length={max_seq_length}: truncate the segments or raise it."
        )
    real = columns <= last[:, None]
    # Padding and special places read any piece here and are overwritten below.
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
