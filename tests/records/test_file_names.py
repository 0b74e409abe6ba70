"""Record files are found by their names."""

from pathlib import Path

import pytest

from albert_tf.records.file_names import expand_paths, shard_paths
from helpers import tiny


def test_paths_are_listed_once_sorted_and_without_sidecars(tmp_path):
    expected = [str(tiny.write_rows(tmp_path / f"{name}.tfrecord", 1)) for name in "ab"]
    odd = str(tiny.write_rows(tmp_path / "odd[1].tfrecord", 1))
    assert expand_paths(f"{tmp_path}/[ab].*, {expected[0]},") == expected
    assert expand_paths(f"{tmp_path}/*") == [*expected, odd]
    assert expand_paths(odd) == [odd]


def test_a_sharded_name_stands_for_its_files(tmp_path):
    shards = shard_paths(f"{tmp_path}/rows.tfrecord@3")
    assert [Path(path).name for path in shards] == [
        "rows.tfrecord-00000-of-00003",
        "rows.tfrecord-00001-of-00003",
        "rows.tfrecord-00002-of-00003",
    ]
    for path in shards:
        tiny.write_rows(Path(path), 1)
    assert expand_paths(f"{tmp_path}/rows.tfrecord@3") == shards
    assert expand_paths(f"{tmp_path}/rows.tfrecord*") == shards
    Path(shards[1]).unlink()
    with pytest.raises(FileNotFoundError, match="00001-of-00003"):
        expand_paths(f"{tmp_path}/rows.tfrecord@3")


@pytest.mark.parametrize(("name", "files"), [("a", ["a"]), ("a@b", ["a@b"])])
def test_other_names_stand_for_themselves(name, files):
    assert shard_paths(name) == files


@pytest.mark.parametrize("name", ["a@0", "a@100000"])
def test_a_number_of_shards_that_cannot_be_is_refused(name):
    with pytest.raises(ValueError, match=f"Received '{name}'"):
        shard_paths(name)


@pytest.mark.parametrize("pattern", ["", " , ", "nowhere.tfrecord", "nowhere/*"])
def test_a_pattern_without_files_is_an_error_that_says_so(pattern, tmp_path):
    present = tiny.write_rows(tmp_path / "rows", 1)
    words = "--input_file" if not pattern.strip(" ,") else pattern.replace("*", r"\*")
    prefix = f"{present}," if "nowhere" in pattern else ""
    with pytest.raises(FileNotFoundError, match=words):
        expand_paths(prefix + pattern)
