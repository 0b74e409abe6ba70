"""The order of runs that earlier releases began."""

import numpy as np
import pytest

from albert_tf.records import window
from helpers.numbered import contexts, numbered_set, together, training

FILES = (5, 8, 3)
TOTAL = sum(FILES)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    return numbered_set(tmp_path_factory.mktemp("rows"), FILES)


def test_the_order_is_that_of_earlier_releases(rows):
    found = training(rows, 4, 8, seed=11, order="window")
    assert found.tolist() == [
        [11, 13, 7, 0],
        [14, 10, 3, 1],
        [2, 12, 4, 6],
        [9, 5, 8, 15],
        [13, 0, 3, 5],
        [7, 2, 12, 15],
        [6, 14, 11, 4],
        [8, 10, 1, 9],
    ]


def test_files_are_read_side_by_side(rows, monkeypatch):
    """A large set is shuffled within a window, which must not be one file's rows."""
    monkeypatch.setattr(window, "_SHUFFLE_ROWS", 1)
    [batch] = training(rows, 3, 1, order="window")
    assert set(np.searchsorted(np.cumsum(FILES), batch, "right")) == {0, 1, 2}


@pytest.mark.parametrize(
    ("size", "first"),
    [
        pytest.param(4, 4, id="at the edge of epoch 0"),
        pytest.param(6, 2, id="where a batch spans two epochs"),
        pytest.param(40, 1, id="batches of several epochs"),
    ],
)
def test_workers_that_start_at_any_step_have_the_batches_of_one(
    size, first, rows, monkeypatch
):
    # Fewer than there are, as in any large set.
    monkeypatch.setattr(window, "_SHUFFLE_ROWS", 5)
    monkeypatch.setattr(window, "_FILES_AT_ONCE", 2)
    whole = training(rows, size, first + 6, order="window")
    parts = [
        training(rows, size, 6, first, context=context, order="window")
        for context in contexts(2, 1)
    ]
    np.testing.assert_array_equal(together(parts, 1), whole[first:])
