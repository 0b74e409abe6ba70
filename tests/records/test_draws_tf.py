"""The random numbers of a row depend on the seed and its place alone."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.records.draws_tf import draw_each, draw_range, round_up


def test_a_range_may_be_cut_anywhere():
    first = 2**40 + 3
    whole = draw_range((5, 1), tf.constant(first, tf.int64), 11, 12).numpy()
    for cut in (1, 4, 10):
        parts = [
            draw_range((5, 1), tf.constant(first + begin, tf.int64), rows, 12).numpy()
            for begin, rows in ((0, cut), (cut, 11 - cut))
        ]
        assert np.array_equal(np.concatenate(parts), whole)
    places = np.array([7, 0, 10, 3])
    each = draw_each((5, 1), tf.constant(first + places), 12).numpy()
    assert np.array_equal(each, whole[places])


def test_seeds_purposes_and_places_give_other_numbers():
    zero = tf.constant(0, tf.int64)
    found = [
        draw_range(seed, zero, 500, 8).numpy() for seed in ((5, 0), (5, 1), (6, 0))
    ]
    values = np.stack(found).ravel()
    # Of 12,000 numbers of 23 bits about nine pairs are equal by chance.
    assert len(np.unique(values)) > len(values) - 40
    assert values.min() >= 0.0 and values.max() < 1.0
    assert values.mean() == pytest.approx(0.5, abs=0.02)
    assert values.var() == pytest.approx(1 / 12, rel=0.03)


def test_numbers_of_a_row_fill_whole_counters():
    assert [round_up(count) for count in (1, 4, 5)] == [4, 4, 8]
    with pytest.raises(ValueError, match=r"multiple of 4. Received 6"):
        draw_range((5, 1), tf.constant(0, tf.int64), 2, 6)
