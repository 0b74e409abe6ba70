"""Rows are read from any place, and files that do not fit their sidecars refused."""

import numpy as np
import pytest

from albert_tf.records import batches, encoding, lanes, row_index
from albert_tf.records.row_index import open_index
from albert_tf.records.sidecar import read_metadata, sidecar_path
from helpers.numbered import change_sidecar, numbered_set, read_again, training

FILES = (100, 0, 129, 1)


@pytest.fixture
def rows(tmp_path):
    return numbered_set(tmp_path, FILES)


def offsets_of(path):
    return encoding.index_frames(path).offsets.tolist()


@pytest.fixture
def large(monkeypatch):
    """Sets are too large to be walked over or kept in memory."""
    monkeypatch.setattr(row_index, "_MOST_BYTES_CHECKED", 0)
    monkeypatch.setattr(lanes, "_ROWS_IN_MEMORY", 0)


def test_stretches_are_read_across_files(rows):
    index = open_index(rows)
    stretches = [(0, 3), (98, 102), (99, 99), (163, 166), (228, 230), (230, 230)]
    found = index.read(*map(list, zip(*stretches, strict=True)), 1 << 12)
    expected = [row for begin, end in stretches for row in range(begin, end)]
    content = [row for path in rows.paths for row in encoding_of(path)]
    assert [content.index(row) for row in found.as_numpy_iterator()] == expected


def encoding_of(path):
    with open(path, "rb") as file:
        return list(encoding.read_examples(file))


def test_the_index_of_a_sidecar_is_that_of_its_file(rows):
    for path, stored in zip(rows.paths, rows.offsets, strict=True):
        assert stored.tolist() == offsets_of(path)
    assert [len(stored) for stored in rows.offsets] == [2, 0, 3, 1]


@pytest.mark.parametrize("walks", [True, False])
def test_places_that_are_not_those_of_rows_are_refused(walks, rows, monkeypatch):
    if not walks:
        monkeypatch.setattr(row_index, "_MOST_BYTES_CHECKED", 0)
    path = rows.paths[2]
    [first, second, third] = offsets_of(path)
    change_sidecar(path, index={"every": 64, "offsets": [first, second + 1, third]})
    with pytest.raises(ValueError, match=f"{path}.json has an index that does not fit"):
        open_index(read_again(rows))


def test_a_place_that_only_reading_finds_is_named(rows, large, monkeypatch):
    monkeypatch.setattr(row_index, "_PLACES_CHECKED", 1)
    path = rows.paths[2]
    [first, second, third] = offsets_of(path)
    change_sidecar(path, index={"every": 64, "offsets": [first, second + 1, third]})
    again = read_again(rows)
    with (
        pytest.raises(ValueError, match=f"{path}.json has an index that does not fit"),
        batches.explain_corruption([again]),
    ):
        training(again, 23, 10)


@pytest.mark.parametrize("version", [1, 2])
def test_another_number_of_rows_is_named(version, rows, large):
    """Of a file with an index it is found when its end is read."""
    path = rows.paths[2]
    changes = {"format_version": 1, "index": None} if version == 1 else {}
    change_sidecar(path, rows=131 if version == 1 else 130, **changes)
    again = read_again(rows)
    with (
        pytest.raises(ValueError, match=f"{path} has 129 rows, but .* says 13[01]"),
        batches.explain_corruption([again]),
    ):
        training(again, 23, 10)


def test_a_damaged_row_is_named(rows, large):
    path = rows.paths[0]
    place = offsets_of(path)[1]
    with open(path, "r+b") as file:
        file.seek(place + 14)
        file.write(b"\xff\xff")
    with (
        pytest.raises(ValueError, match=f"corrupt: {path} at byte {place:,}"),
        batches.explain_corruption([rows]),
    ):
        training(rows, 23, 10)


def test_what_reading_needs_is_in_the_sidecar_alone(rows, large, monkeypatch):
    """A large set with an index is not walked over."""

    def refuse(path):
        raise AssertionError(path)

    monkeypatch.setattr(row_index, "index_frames", refuse)
    assert sorted(training(rows, 23, 10).ravel()) == list(range(230))
    assert "index" not in read_metadata(rows.paths[0])
    assert '"index"' in sidecar_path(rows.paths[0]).read_text()
    np.testing.assert_array_equal(open_index(rows).starts, [0, 100, 229, 230])
