"""Sidecars are checked when they are read."""

import dataclasses
import hashlib
import json

import numpy as np
import pytest

from albert_tf.records.features import pretraining_features
from albert_tf.records.file_names import expand_paths
from albert_tf.records.sidecar import (
    read_metadata,
    read_record_set,
    sidecar_path,
)
from albert_tf.records.writer import write_records
from helpers import tiny
from helpers.numbered import change_sidecar

FEATURES = pretraining_features(tiny.MAX_SEQ_LENGTH, tiny.MAX_PREDICTIONS)


def rows(count, seed=0):
    return list(tiny.random_rows(count, np.random.default_rng(seed)))


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


def test_a_folder_is_no_file_of_records(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder: name the record files"):
        read_record_set(expand_paths(str(tmp_path)), {})


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
    # A digest's beginning tells two apart.
    mine = str(read_metadata(first)[key])[:12]
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


def test_a_file_of_another_size_than_its_sidecar_says_is_refused(tmp_path):
    path = tiny.write_rows(tmp_path / "rows", 3)
    with open(path, "r+b") as file:
        file.truncate(path.stat().st_size - 1)
    with pytest.raises(ValueError, match="bytes, but its sidecar says"):
        read_record_set([path], {})


@pytest.mark.parametrize("size", [2**31, 2**62, 2**63 - 1])
@pytest.mark.parametrize("key", ["rows", "features"])
def test_claims_larger_than_the_file_are_refused_before_memory_is_taken(
    key, size, tmp_path
):
    path = tiny.write_rows(tmp_path / "rows", 5)
    sidecar = sidecar_path(path)
    values = json.loads(sidecar.read_text())
    if key == "features":
        values["features"]["input_ids"]["shape"] = [size]
    else:
        values["rows"] = size
    sidecar.write_text(json.dumps(values))
    with pytest.raises(ValueError, match=f"{path} has .* bytes, too few for .*rows of"):
        read_record_set([path], {})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rows", 2**63),
        ("max_seq_length", "10"),
        ("max_seq_length", 10**30),
        ("vocab_size", [1]),
        ("vocabulary_sha256", 7),
        ("pair_objective", ["sop"]),
        ("lower_case", "yes"),
        ("features", {}),
    ],
)
def test_values_of_other_types_are_refused_by_name(key, value, tmp_path):
    path = tiny.write_rows(tmp_path / "rows", 5)
    sidecar = sidecar_path(path)
    sidecar.write_text(json.dumps({**json.loads(sidecar.read_text()), key: value}))
    with pytest.raises(ValueError, match=f"{sidecar} is not .*{key} must") as caught:
        read_record_set([path], {})
    assert len(str(caught.value)) < 400


def test_files_of_several_objectives_are_not_read_together(tmp_path):
    paths = [
        str(tiny.write_rows(tmp_path / objective, 2, pair_objective=objective))
        for objective in ("sop", "nsp")
    ]
    with pytest.raises(ValueError, match=r"differ in pair_objective \(nsp and sop\)"):
        read_record_set(paths, {})
    assert read_record_set(paths[1:], {}).pair_objective == "nsp"


def test_packed_and_unpacked_files_are_not_read_together(tmp_path):
    paths = [
        str(tiny.write_rows(tmp_path / name, 2, **metadata))
        for name, metadata in (("a", {}), ("b", {"max_documents_per_row": 4}))
    ]
    with pytest.raises(ValueError, match=r"max_documents_per_row \(4 and None\)"):
        read_record_set(paths, {})
    read = [read_record_set([path], {}).max_documents_per_row for path in paths]
    assert read == [0, 4]


def test_the_digest_tells_rows_apart_wherever_they_are(tmp_path):
    def digest(folder, **metadata):
        (tmp_path / folder).mkdir()
        path = tiny.write_rows(tmp_path / folder / "rows", 5, **metadata)
        return read_record_set([str(path)], {}).sha256

    one = digest("one", text_sha256="a", statistics={"words": 3})
    assert one == digest("other", text_sha256="a", statistics={"words": 4})
    assert one != digest("third", text_sha256="b")


def test_rows_that_are_made_again_are_the_same_in_all_versions(tmp_path):
    path = tiny.write_rows(tmp_path / "rows", 70)
    digest = read_record_set([path], {}).sha256
    change_sidecar(path, format_version=1, index=None)
    assert read_record_set([path], {}).sha256 == digest
    # As earlier releases computed it, so that their runs go on.
    values = {**read_metadata(path), "format_version": 1}
    text = json.dumps([values], sort_keys=True, default=dataclasses.asdict)
    assert digest == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    "index",
    [
        None,
        [0, 6000],
        {"offsets": [0, 6000]},
        {"every": 32, "offsets": [0, 6000]},
        {"every": 64, "offsets": [0]},
        {"every": 64, "offsets": [0, 6000, 7000]},
        {"every": 64, "offsets": [6000, 0]},
        {"every": 64, "offsets": [0, 0]},
        {"every": 64, "offsets": [12, 6000]},
        {"every": 64, "offsets": [0, -6000]},
        {"every": 64, "offsets": [0, 2**63]},
        {"every": 64, "offsets": [0, "6000"]},
        {"every": 64, "offsets": [0, 6000.5]},
        {"every": 64, "offsets": 6000},
    ],
)
def test_an_index_that_no_file_has_is_refused_in_one_line(index, tmp_path):
    path = tiny.write_rows(tmp_path / "rows", 70)
    change_sidecar(path, index=index)
    with pytest.raises(ValueError, match="is not a record sidecar") as caught:
        read_record_set([path], {})
    text = str(caught.value)
    assert str(sidecar_path(path)) in text and "\n" not in text and len(text) < 400


def test_an_index_that_ends_after_its_file_is_refused(tmp_path):
    path = tiny.write_rows(tmp_path / "rows", 70)
    end = path.stat().st_size - 15
    change_sidecar(path, index={"every": 64, "offsets": [0, end]})
    with pytest.raises(ValueError, match=f"{path}.json has an index that does not fit"):
        read_metadata(path)


def test_a_path_that_is_not_utf8_is_refused(tmp_path):
    path = tmp_path / b"r\xff".decode("utf-8", "surrogateescape")
    with pytest.raises(ValueError, match=r"must be UTF-8\. Received .*udcff"):
        read_record_set([str(path)], {})
