"""Documents in packed rows: each whole, none twice, and found again."""

import numpy as np
import pytest

from albert_tf.text import packing
from albert_tf.text.packed_rows import Places, assign_rows, join_rows, split_rows

SPECIAL = {"cls_id": 2, "sep_id": 3, "pad_id": 0}


def test_the_longest_documents_are_placed_first_where_they_fit():
    places = assign_rows(np.array([5, 9, 4, 10, 6]), 20, 3)
    assert places.row.tolist() == [1, 0, 1, 0, 1]
    assert places.column.tolist() == [6, 10, 11, 0, 0]
    assert places.number.tolist() == [1, 1, 2, 0, 0]
    assert places.rows == 2


@pytest.mark.parametrize("limit", [1, 3, 40])
def test_documents_fill_rows_without_overlap_within_both_limits(limit):
    lengths = np.random.default_rng(limit).integers(5, 60, size=700)
    places = assign_rows(lengths, 64, limit)
    free = np.ones((places.rows, 64), int)
    for row, column, length in zip(places.row, places.column, lengths, strict=True):
        assert column + length <= 64
        free[row, column : column + length] -= 1
    assert free.min() == 0 and free.sum() == free.size - lengths.sum()
    assert np.bincount(places.row).max() <= limit
    # Numbers count a row's documents from left to right.
    for row in range(places.rows):
        inside = np.flatnonzero(places.row == row)
        inside = inside[np.argsort(places.column[inside])]
        assert places.number[inside].tolist() == list(range(len(inside)))
    fewest = max(lengths.sum() / 64, len(lengths) / limit)
    assert places.rows <= 1.22 * fewest + 1 or limit < 40


def test_joined_rows_are_split_again():
    rng = np.random.default_rng(4)
    sizes = rng.integers(1, 13, size=(90, 2))
    ends = np.cumsum(sizes.ravel()).reshape(-1, 2)
    ids = rng.integers(5, 99, ends[-1, 1])
    ranges = [np.stack([ends[:, k] - sizes[:, k], ends[:, k]], 1) for k in (0, 1)]
    alone = packing.pack_rows(ids, *ranges, 31, **SPECIAL)
    lengths = alone["input_mask"].sum(axis=1)
    places = assign_rows(lengths, 67, 5)
    packed = join_rows(alone, places, 67, pad_id=0)
    assert packed["input_ids"].shape == (places.rows, 67)
    np.testing.assert_array_equal(packed["document_ids"] > 0, packed["input_mask"])
    row, column, split = split_rows(packed, packed["document_ids"])
    order = np.lexsort((places.column, places.row))
    assert row.tolist() == places.row[order].tolist()
    assert column.tolist() == places.column[order].tolist()
    for name, values in alone.items():
        np.testing.assert_array_equal(split[name][:, :31], values[order])
        assert not split[name][:, 31:].any()


def test_no_documents_make_no_rows():
    places = assign_rows(np.zeros(0, np.int64), 20, 3)
    assert isinstance(places, Places) and places.rows == 0


def test_a_document_longer_than_a_row_is_refused():
    with pytest.raises(ValueError, match=r"document of 21 tokens.*max_seq_length=20"):
        assign_rows(np.array([4, 21]), 20, 3)
