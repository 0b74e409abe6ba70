"""Record files keep what is written, completely or not at all."""

import os

import numpy as np
import pytest

from albert_tf.files import sha256
from albert_tf.records import writer
from albert_tf.records.features import Feature, pretraining_features
from albert_tf.records.reader import read_rows
from albert_tf.records.sidecar import (
    read_metadata,
    sidecar_path,
)
from albert_tf.records.writer import write_records
from helpers import tiny
from helpers.disks import full_disk

FEATURES = pretraining_features(tiny.MAX_SEQ_LENGTH, tiny.MAX_PREDICTIONS)


def rows(count, seed=0):
    return list(tiny.random_rows(count, np.random.default_rng(seed)))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("seed", range(5))
def test_rows_read_back_are_the_rows_written(seed, tmp_path):
    rng = np.random.default_rng(seed)
    lengths = int(rng.integers(6, 40)), int(rng.integers(1, 6))
    features = pretraining_features(*lengths)
    written = list(tiny.random_rows(int(rng.integers(1, 30)), rng, *lengths))
    path = tmp_path / "new" / "rows.tfrecord"
    assert write_records(path, iter(written), features, {}) == len(written)
    read = list(read_rows(path))
    assert len(read) == len(written)
    for row, expected in zip(read, written, strict=True):
        assert set(row) == set(features)
        for name, feature in features.items():
            assert row[name].dtype == feature.dtype
            assert row[name].shape == feature.shape
            assert np.array_equal(row[name], expected[name]), name


def test_values_of_several_axes_keep_their_shape(tmp_path):
    features = {"choices": Feature((2, 3)), "score": Feature(())}
    choices = np.arange(6).reshape(2, 3)
    path = tmp_path / "rows.tfrecord"
    write_records(path, [{"choices": choices, "score": 7}], features, {})
    (row,) = read_rows(path)
    assert np.array_equal(row["choices"], choices) and row["score"] == 7


def test_same_rows_give_the_same_bytes_in_any_order_of_features(tmp_path):
    turned = [dict(reversed(row.items())) for row in rows(7)]
    for name, some in (("a", rows(7)), ("b", turned), ("c", rows(7, seed=1))):
        write_records(tmp_path / name, some, FEATURES, {"seed": 0})
    digests = [sha256(tmp_path / name) for name in "abc"]
    assert digests[0] == digests[1] != digests[2]
    sidecars = [sidecar_path(tmp_path / name).read_bytes() for name in "ab"]
    assert sidecars[0] == sidecars[1]


def broken_rows(fault):
    """Four rows, then one that cannot be written."""
    yield from rows(4)
    (row,) = rows(1)
    if fault == "raises":
        raise ValueError("the text has ended")
    if fault == "lacks":
        del row["segment_ids"]
    if fault == "short":
        row["masked_lm_ids"] = row["masked_lm_ids"][:2]
    if fault == "long":
        row["input_ids"] = np.append(row["input_ids"], 0)
    yield row


FAULTS = {
    "raises": "the text has ended",
    "lacks": "'segment_ids'",
    "short": "'masked_lm_ids' must have 3 values. Received 2",
    "long": "'input_ids' must have 10 values. Received 11",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_rows_that_break_off_leave_no_file(fault, tmp_path):
    with pytest.raises(ValueError, match=FAULTS[fault]):
        write_records(tmp_path / "rows", broken_rows(fault), FEATURES, {})
    assert names(tmp_path) == []


def test_rows_that_break_off_leave_older_rows_and_their_sidecar(tmp_path):
    path = tiny.write_rows(tmp_path / "rows", 6)
    before = sha256(path)
    with pytest.raises(ValueError):
        write_records(path, broken_rows("lacks"), FEATURES, {})
    assert sha256(path) == before
    assert read_metadata(path)["rows"] == 6
    assert names(tmp_path) == ["rows", "rows.json"]


def test_an_old_sidecar_never_stands_beside_new_rows(tmp_path, monkeypatch):
    path = tiny.write_rows(tmp_path / "rows", 6)
    before = sha256(path)

    def fail(*_):
        raise OSError("no space")

    monkeypatch.setattr(writer, "write_json", fail)
    with pytest.raises(OSError, match="no space"):
        write_records(path, rows(3, seed=1), FEATURES, {})
    assert sha256(path) != before
    assert names(tmp_path) == ["rows"]


def test_what_a_killed_run_left_is_removed(tmp_path):
    (tmp_path / ".rows.0123abcd.partial").write_bytes(b"x" * 100_000)
    path = tiny.write_rows(tmp_path / "rows", 2)
    assert len(list(read_rows(path))) == 2
    assert names(tmp_path) == ["rows", "rows.json"]


def test_a_folder_that_cannot_be_made_is_an_os_error(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(OSError):
        tiny.write_rows(tmp_path / "file" / "rows", 1)
    with pytest.raises(OSError):
        tiny.write_rows(tmp_path / "file" / "folder" / "rows", 1)
    assert names(tmp_path) == ["file"]


def test_a_full_disk_is_an_os_error_of_one_line(tmp_path):
    with (
        full_disk(10),
        pytest.raises(OSError, match="rows cannot be written") as caught,
    ):
        write_records(tmp_path / "rows", rows(1), FEATURES, {})
    assert "\n" not in str(caught.value)
    assert names(tmp_path) == []


def test_rows_replace_no_file_of_another_kind(tmp_path):
    text, data = tmp_path / "a.txt", tmp_path / "b.json"
    text.write_text("It rains in the house by the river.\n")
    data.write_text('{"mine": 1}')
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for path, kept in [(text, "a.txt"), (tmp_path / "b", "b.json"), ("link", "link")]:
        with pytest.raises(FileExistsError, match=f"{kept} is there already"):
            write_records(tmp_path / path, rows(2), FEATURES, {})
    with pytest.raises(FileExistsError, match="is there already"):
        write_records(tmp_path, rows(2), FEATURES, {})
    assert data.read_text() == '{"mine": 1}' and "rains" in text.read_text()
    assert names(tmp_path) == ["a.txt", "b.json", "link"]


def test_empty_and_damaged_records_are_replaced(tmp_path):
    path = tmp_path / "rows"
    path.touch()
    tiny.write_rows(path, 2)
    path.write_bytes(bytes(99))
    tiny.write_rows(path, 3)
    assert read_metadata(path)["rows"] == len(list(read_rows(path))) == 3


def test_a_file_with_another_number_of_rows_is_not_published(tmp_path):
    tiny.write_rows(tmp_path / "partial", 5)
    for count, words in [(4, "5 rows where 4"), (6, "5 rows where 6")]:
        with pytest.raises(OSError, match=f"rows cannot be written: it holds {words}"):
            writer.publish_records(
                tmp_path / "partial", tmp_path / "rows", count, FEATURES, {}
            )
    os.truncate(tmp_path / "partial", os.path.getsize(tmp_path / "partial") - 1)
    with pytest.raises(OSError, match="it holds a row that is cut off"):
        writer.publish_records(tmp_path / "partial", tmp_path / "rows", 5, FEATURES, {})
    assert names(tmp_path) == ["partial", "partial.json"]
