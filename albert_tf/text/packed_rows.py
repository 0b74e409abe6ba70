"""Rows that hold several documents, each packed as it would be in a row of its own.

    [CLS] a a [SEP] b [SEP] [CLS] a [SEP] b b [SEP] pad
      1   1 1   1   1   1     2   2   2   2 2   2    0    document_ids

A document is one pair of segments with its special tokens. Documents of one row never
see each other: attention stays inside each, and positions restart (`albert_tf.model`).
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np


class Places(NamedTuple):
    """The place of each of D documents.

    Attributes:
      row: int64 [D].
      column: int64 [D], its first token's.
      number: int64 [D], its number in the row, from 0.
    """

    row: np.ndarray
    column: np.ndarray
    number: np.ndarray

    @property
    def rows(self) -> int:
        """R, the number of rows."""
        return int(self.row.max(initial=-1)) + 1


def assign_rows(
    lengths: np.ndarray, max_seq_length: int, max_documents_per_row: int
) -> Places:
    """Finds a row for each document: first fit, the longest documents first.

    Its rows are at most 22 % more than the fewest possible, and of many short documents
    hardly more than these. It draws nothing, so the same lengths give the same rows.

    Args:
      lengths: int [D], tokens of each document, special tokens included.
      max_seq_length: S, tokens of a row.
      max_documents_per_row: upper bound on the documents of a row.
    Raises:
      ValueError: a document is longer than a row.
    """
    longest = int(np.max(lengths, initial=0))
    if longest > max_seq_length:
        raise ValueError(
            f"A document of {longest} tokens, special tokens included, does not fit "
            f"max_seq_length={max_seq_length}: truncate its segments or raise it."
        )
    places = Places(*np.zeros([3, len(lengths)], np.int64))
    # There are never more rows than documents. A full row has no tokens left.
    left = np.full(len(lengths), max_seq_length)
    numbers = np.zeros(len(lengths), np.int64)
    for document in np.argsort(-np.asarray(lengths), kind="stable").tolist():
        length = lengths[document]
        row = int(np.argmax(left >= length))
        places.row[document] = row
        places.column[document] = max_seq_length - left[row]
        places.number[document] = numbers[row]
        left[row] -= length
        numbers[row] += 1
        if numbers[row] == max_documents_per_row:
            left[row] = 0
    return places


def join_rows(
    rows: Mapping[str, np.ndarray],
    places: Places,
    max_seq_length: int,
    *,
    pad_id: int,
) -> dict[str, np.ndarray]:
    """Moves documents that have rows of their own to their places.

    Args:
      rows: `input_ids`, `input_mask`, `segment_ids` of `packing.pack_rows`, [D, T].
      places: from `assign_rows`.
      max_seq_length: S.
      pad_id: the vocabulary's padding id.
    Returns:
      The same features and `document_ids`, 0 for padding, 1 for the tokens of a row's
      first document and so on, int64; [R, S].
    """
    document, column = np.nonzero(rows["input_mask"])
    target = places.row[document], places.column[document] + column

    def moved(values: np.ndarray, padding: int) -> np.ndarray:
        joined = np.full((places.rows, max_seq_length), padding, values.dtype)
        joined[target] = values
        return joined

    return {
        "input_ids": moved(rows["input_ids"][document, column], pad_id),
        "input_mask": moved(rows["input_mask"][document, column], 0),
        "segment_ids": moved(rows["segment_ids"][document, column], 0),
        "document_ids": moved(places.number[document] + 1, 0),
    }


def split_rows(
    rows: Mapping[str, np.ndarray], document_ids: np.ndarray
) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Inverts `join_rows`: gives each document a row of its own.

    Args:
      rows: features [R, S]; their values at padding are not kept.
      document_ids: int [R, S], as `join_rows` returns them.
    Returns:
      (row, column, features): the place of each document's first token, int64 [D], in
      reading order, and the features [D, S], 0 behind a document's end.
    """
    is_real = document_ids > 0
    is_first = is_real.copy()
    is_first[:, 1:] &= document_ids[:, 1:] != document_ids[:, :-1]
    row, first = np.nonzero(is_first)
    document = np.cumsum(is_first.ravel())[is_real.ravel()] - 1
    target = document, np.nonzero(is_real)[1] - first[document]
    split = {}
    for name, values in rows.items():
        split[name] = np.zeros((len(row), document_ids.shape[1]), values.dtype)
        split[name][target] = values[is_real]
    return row, first, split
