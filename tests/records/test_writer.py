"""Record files keep what is written, whole or not at all, and are checked when read."""

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.files import sha256, write_json
from albert_tf.records import writer
from albert_tf.records.encoding import frame_rows, split_frames
from albert_tf.records.features import Feature, pretraining_features
from albert_tf.records.reader import find_corruption, read_rows
from albert_tf.records.sidecar import (
    expand_paths,
    read_metadata,
    read_record_set,
    shard_paths,
    sidecar_path,
)
from albert_tf.records.writer import write_records
from helpers import tiny

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


def test_pretraining_rows_bear_the_released_names_and_types():
    assert {name: (f.size, f.dtype) for name, f in FEATURES.items()} == {
        "input_ids": (10, "int64"),
        "input_mask": (10, "int64"),
        "segment_ids": (10, "int64"),
        "token_boundary": (10, "int64"),
        "masked_lm_positions": (3, "int64"),
        "masked_lm_ids": (3, "int64"),
        "masked_lm_weights": (3, "float32"),
        "next_sentence_labels": (1, "int64"),
    }


def as_example(row, features):
    """The same by protobuf, a row at a time."""
    values = {}
    for name, feature in features.items():
        flat = np.asarray(row[name]).ravel().tolist()
        if feature.dtype == "int64":
            value = tf.train.Feature(int64_list=tf.train.Int64List(value=flat))
        else:
            value = tf.train.Feature(float_list=tf.train.FloatList(value=flat))
        values[name] = value
    example = tf.train.Example(features=tf.train.Features(feature=values))
    return example.SerializeToString(deterministic=True)


@pytest.mark.parametrize("bits", [1, 7, 8, 14, 15, 21, 28, 31, 32, 33, 56, 63])
def test_frames_are_those_of_protobuf_and_tensorflow_byte_for_byte(bits, tmp_path):
    rng = np.random.default_rng(bits)
    features = {
        "b": Feature((3, 50)),
        "score": Feature((2,), "float32"),
        "a": Feature(()),
        # Long enough that its length, and that of all, are of two or three bytes.
        "long": Feature((17_000,)),
    }
    columns = {
        "b": rng.integers(0, 1 << bits, (7, 3, 50), np.int64, endpoint=bits < 63),
        "score": rng.normal(size=(7, 2)).astype(np.float32),
        "a": rng.integers(-(1 << bits), 1, 7),
        "long": rng.integers(0, 1 + 200 * np.arange(7)[:, None], (7, 17_000)),
    }
    # Values of every size, so that lengths differ from row to row.
    columns["b"] >>= rng.integers(0, bits + 1, (7, 3, 50))
    frames, offsets = frame_rows(columns, features)
    path = tmp_path / "rows"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for index in range(7):
            row = {name: values[index] for name, values in columns.items()}
            writer.write(as_example(row, features))
    assert frames.tobytes() == path.read_bytes()
    sizes = [
        len(r) + 16 for r in tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
    ]
    assert np.diff(offsets).tolist() == sizes and offsets[0] == 0


def test_no_rows_are_no_bytes():
    columns = {name: np.zeros((0, *f.shape)) for name, f in FEATURES.items()}
    frames, offsets = frame_rows(columns, FEATURES)
    assert len(frames) == 0 and offsets.tolist() == [0]


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


def test_what_a_killed_run_left_is_overwritten(tmp_path):
    (tmp_path / ".rows.partial").write_bytes(b"x" * 100_000)
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


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device here")
def test_a_full_disk_is_an_os_error_of_one_line(tmp_path):
    (tmp_path / ".rows.partial").symlink_to("/dev/full")
    with pytest.raises(OSError, match="rows cannot be written") as caught:
        write_records(tmp_path / "rows", rows(1), FEATURES, {})
    assert "\n" not in str(caught.value)
    assert names(tmp_path) == []


def test_json_that_cannot_be_written_leaves_the_older_file(tmp_path):
    path = tmp_path / "settings.json"
    write_json(path, {"size": 1, "name": "größe"})
    with pytest.raises(TypeError):
        write_json(path, {"size": object()})
    assert json.loads(path.read_text(encoding="utf-8"))["name"] == "größe"
    assert names(tmp_path) == ["settings.json"]


def test_the_sidecar_tells_rows_features_and_metadata(tmp_path):
    path = tiny.write_rows(tmp_path / "rows", 5, random_seed=17)
    metadata = read_metadata(path)
    assert metadata["rows"] == 5 and metadata["random_seed"] == 17
    assert metadata["features"] == FEATURES


@pytest.mark.parametrize("lost", ["rows", "rows.json"])
def test_a_file_without_its_sidecar_and_the_reverse_are_refused(lost, tmp_path):
    path = tiny.write_rows(tmp_path / "rows", 5)
    (tmp_path / lost).unlink()
    with pytest.raises(FileNotFoundError, match=f"{lost} is missing"):
        read_record_set([str(path)], {})


@pytest.mark.parametrize(
    "content",
    ["", "[1]", "7", '{"rows": 3}', "format_version", "rows", "features", "old"],
)
def test_a_sidecar_that_is_not_ours_is_refused_in_one_line(content, tmp_path):
    path = tiny.write_rows(tmp_path / "rows", 5)
    sidecar = sidecar_path(path)
    values = json.loads(sidecar.read_text())
    if content == "old":
        content = json.dumps({**values, "format_version": 0})
    elif content in values:
        content = json.dumps({k: v for k, v in values.items() if k != content})
    sidecar.write_text(content)
    with pytest.raises(ValueError, match=r"sidecar|format_version 0") as caught:
        read_record_set([path], {})
    assert str(sidecar) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rows", -5),
        ("rows", 2.5),
        ("rows", "5"),
        ("rows", True),
        ("bytes", -1),
        ("bytes", "many"),
        ("features", [1]),
        ("features", {"input_ids": {"shape": [-3], "dtype": "int64"}}),
        ("features", {"input_ids": {"shape": 3, "dtype": "int64"}}),
        ("features", {"input_ids": {"shape": [3], "dtype": "text"}}),
    ],
)
def test_values_that_no_sidecar_has_are_refused_in_one_line(key, value, tmp_path):
    path = tiny.write_rows(tmp_path / "rows", 5)
    sidecar = sidecar_path(path)
    sidecar.write_text(json.dumps({**json.loads(sidecar.read_text()), key: value}))
    with pytest.raises(ValueError, match="is not a record sidecar") as caught:
        read_record_set([path], {})
    assert str(sidecar) in str(caught.value) and "\n" not in str(caught.value)


def test_a_set_counts_the_rows_of_its_files(tmp_path):
    paths = [str(tiny.write_rows(tmp_path / f"{n}", n, seed=n)) for n in (3, 5, 1)]
    record_set = read_record_set(paths, {"vocab_size": tiny.VOCAB_SIZE})
    assert record_set.paths == tuple(paths)
    assert record_set.rows == (3, 5, 1) and record_set.total_rows == 9
    assert record_set.features == FEATURES
    assert record_set.tokenizer_settings == {
        "vocabulary_sha256": record_set.metadata["vocabulary_sha256"],
        "vocab_size": tiny.VOCAB_SIZE,
        "lower_case": True,
        "strip_accents": True,
    }


@pytest.mark.parametrize(
    ("key", "asked"),
    [
        ("max_seq_length", 512),
        ("max_predictions_per_seq", 20),
        ("vocab_size", 30_000),
        ("lower_case", False),
        ("vocabulary_sha256", "0f"),
        ("unheard_of", 1),
    ],
)
def test_rows_made_otherwise_than_asked_are_refused_with_both_values(
    key, asked, tmp_path
):
    path = tiny.write_rows(tmp_path / "rows", 2)
    # A digest's beginning tells two apart.
    made = str(read_metadata(path).get(key))[:12]
    with pytest.raises(ValueError, match=f"{key}={made}.*{key}={asked}"):
        read_record_set([path], {key: asked})
    assert read_record_set([path], {key: None}).total_rows == 2


@pytest.mark.parametrize(
    ("key", "other"),
    [("vocab_size", 62), ("lower_case", False), ("vocabulary_sha256", "0f")],
)
def test_files_that_were_not_made_together_are_refused(key, other, tmp_path):
    first = tiny.write_rows(tmp_path / "first", 2)
    second = tiny.write_rows(tmp_path / "second", 2, **{key: other})
    mine = read_metadata(first)[key]
    with pytest.raises(ValueError, match=f"second.*first.*{key}.*{other}.*{mine}"):
        read_record_set([first, second], {})


def test_files_of_other_lengths_are_refused(tmp_path):
    first = tiny.write_rows(tmp_path / "first", 2)
    metadata = {k: v for k, v in read_metadata(first).items() if k != "rows"}
    longer = pretraining_features(12, tiny.MAX_PREDICTIONS)
    some = tiny.random_rows(2, np.random.default_rng(0), 12, tiny.MAX_PREDICTIONS)
    del metadata["features"]
    write_records(tmp_path / "second", some, longer, metadata)
    with pytest.raises(ValueError, match=r"second.*first.*features.*\(12,\).*\(10,\)"):
        read_record_set([first, tmp_path / "second"], {})


def test_a_set_without_rows_is_refused_but_an_empty_file_in_one_is_not(tmp_path):
    empty = tiny.write_rows(tmp_path / "empty", 0)
    with pytest.raises(ValueError, match="no rows"):
        read_record_set([empty], {})
    some = tiny.write_rows(tmp_path / "some", 2)
    assert read_record_set([empty, some], {}).total_rows == 2


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


def test_a_file_of_another_size_than_its_sidecar_says_is_refused(tmp_path):
    path = tiny.write_rows(tmp_path / "rows", 3)
    with open(path, "r+b") as file:
        file.truncate(path.stat().st_size - 1)
    with pytest.raises(ValueError, match="bytes, but its sidecar says"):
        read_record_set([path], {})


def test_the_first_damaged_record_is_found(tmp_path):
    paths = [tiny.write_rows(tmp_path / name, 5) for name in "ab"]
    assert find_corruption(paths) is None
    content = bytearray(paths[1].read_bytes())
    frames = split_frames(bytes(content))
    start = len(frames[0]) + len(frames[1])
    for place in (start, start + 9, start + 40, start + len(frames[2]) - 1):
        damaged = content.copy()
        damaged[place] ^= 1
        paths[1].write_bytes(damaged)
        assert find_corruption(paths) == (str(paths[1]), start)
    paths[1].write_bytes(content[: start + 20])
    assert find_corruption(paths) == (str(paths[1]), start)


@pytest.mark.parametrize("pattern", ["", " , ", "nowhere.tfrecord", "nowhere/*"])
def test_a_pattern_without_files_is_an_error_that_says_so(pattern, tmp_path):
    present = tiny.write_rows(tmp_path / "rows", 1)
    words = "--input_file" if not pattern.strip(" ,") else pattern.replace("*", r"\*")
    prefix = f"{present}," if "nowhere" in pattern else ""
    with pytest.raises(FileNotFoundError, match=words):
        expand_paths(prefix + pattern)
