"""Packing puts the pieces where the models expect them and truncates as documented."""

import numpy as np
import pytest

from albert_tf.text import packing

SPECIAL = {"cls_id": 2, "sep_id": 3, "pad_id": 0}


def truncate_one_at_a_time(length_a, length_b, limit):
    """The rule as the original's loop states it."""
    while length_a + length_b > limit:
        if length_a > length_b:
            length_a -= 1
        else:
            length_b -= 1
    return length_a, length_b


def test_longest_first_equals_the_loop_for_all_small_lengths():
    for limit in range(2, 9):
        lengths = np.array([(a, b) for a in range(11) for b in range(13)])
        kept = packing.truncate_longest_first(lengths[:, 0], lengths[:, 1], limit)
        expected = [truncate_one_at_a_time(a, b, limit) for a, b in lengths]
        assert np.stack(kept, axis=1).tolist() == [list(pair) for pair in expected]


def test_random_truncation_keeps_the_same_lengths_and_cuts_ends_evenly():
    rng = np.random.default_rng(3)
    length_a, length_b = rng.integers(1, 60, (2, 20_000))
    begin_a, end_a, begin_b, end_b = packing.truncate_pair_randomly(
        length_a, length_b, 41, rng
    )
    kept = packing.truncate_longest_first(length_a, length_b, 41)
    assert np.array_equal(end_a - begin_a, kept[0])
    assert np.array_equal(end_b - begin_b, kept[1])
    assert begin_a.min() >= 0 and np.all(end_a <= length_a)
    assert begin_b.min() >= 0 and np.all(end_b <= length_b)
    front, back = begin_a.sum(), (length_a - end_a).sum()
    assert front / (front + back) == pytest.approx(0.5, abs=0.01)


def test_random_truncation_draws_each_loss_on_its_own():
    rng = np.random.default_rng(4)
    begin, *_ = packing.truncate_pair_randomly(np.full(20_000, 9), 3, 8, rng)
    shares = np.bincount(begin, minlength=5) / len(begin)
    assert shares == pytest.approx(np.array([1, 4, 6, 4, 1]) / 16, abs=0.01)


def test_a_pair_is_packed_with_its_special_pieces():
    row = packing.pack_segments([11, 12, 13], [14, 15], 10, **SPECIAL)
    assert row["input_ids"].tolist() == [2, 11, 12, 13, 3, 14, 15, 3, 0, 0]
    assert row["input_mask"].tolist() == [1, 1, 1, 1, 1, 1, 1, 1, 0, 0]
    assert row["segment_ids"].tolist() == [0, 0, 0, 0, 0, 1, 1, 1, 0, 0]
    assert {values.dtype for values in row.values()} == {np.dtype(np.int32)}


def test_a_single_segment_fills_its_row_to_the_last_piece():
    row = packing.pack_segments([11, 12, 13], None, 5, **SPECIAL)
    assert row["input_ids"].tolist() == [2, 11, 12, 13, 3]
    assert row["input_mask"].tolist() == [1] * 5
    assert row["segment_ids"].tolist() == [0] * 5


@pytest.mark.parametrize(
    ("segment_b", "expected"), [(None, [2, 3, 9, 9]), ([], [2, 3, 3, 9])]
)
def test_an_empty_second_segment_is_still_a_pair(segment_b, expected):
    row = packing.pack_segments([], segment_b, 4, cls_id=2, sep_id=3, pad_id=9)
    assert row["input_ids"].tolist() == expected
    assert row["segment_ids"].tolist() == [0, 0, int(segment_b is not None), 0]


def test_segments_that_do_not_fit_are_an_error_that_names_both_lengths():
    with pytest.raises(ValueError, match=r"row of 8 tokens.*max_seq_length=7"):
        packing.pack_segments([5, 6, 7], [8, 9], 7, **SPECIAL)


def test_many_rows_equal_rows_put_together_by_hand():
    rng = np.random.default_rng(5)
    ids = rng.integers(10, 90, 200)
    bounds = np.sort(rng.integers(1, 200, (31, 2)), axis=1)
    ranges_a = np.stack([bounds[:, 0] - 1, bounds[:, 0]], axis=1)
    ranges_b = np.stack(
        [bounds[:, 1], np.minimum(200, bounds[:, 1] + np.arange(31) % 7)], axis=1
    )
    rows = packing.pack_rows(ids, ranges_a, ranges_b, 13, **SPECIAL)
    for index in range(31):
        first = ids[slice(*ranges_a[index])].tolist()
        second = ids[slice(*ranges_b[index])].tolist()
        expected = [2, *first, 3, *second, 3]
        padding = [0] * (13 - len(expected))
        segments = [0] * (len(first) + 2) + [1] * (len(second) + 1)
        assert rows["input_ids"][index].tolist() == expected + padding
        assert rows["input_mask"][index].tolist() == [1] * len(expected) + padding
        assert rows["segment_ids"][index].tolist() == segments + padding
