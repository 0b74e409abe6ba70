"""Rows of a bucket become readable, and keep their names in messages."""

import dataclasses
from pathlib import Path

import pytest
import tensorflow as tf

from albert_tf.training import devices
from albert_tf.training.readable_rows import readable_rows
from helpers.bucket_runs import new_folder
from helpers.training_jobs import one_device


def test_local_rows_stay_where_they_are(rows):
    with readable_rows(rows, one_device()) as same:
        assert same == rows


def test_rows_of_a_bucket_are_copied_and_errors_name_the_bucket(rows):
    bucket = new_folder()
    paths = []
    for number, path in enumerate(rows.paths):
        # Two folders, one name.
        file = bucket / str(number) / "rows"
        file.write_bytes(Path(path).read_bytes())
        paths.append(str(file))
    remote = dataclasses.replace(rows, paths=tuple(paths))
    with readable_rows(remote, one_device()) as copies:
        assert dataclasses.replace(copies, paths=rows.paths) == rows
        local = tf.data.TFRecordDataset(list(copies.paths))
        for one, other in zip(local, tf.data.TFRecordDataset(rows.paths), strict=True):
            assert one == other
    assert not any(map(tf.io.gfile.exists, copies.paths))
    with (
        pytest.raises(ValueError, match=f"^{paths[1]} has 5 rows$"),
        readable_rows(remote, one_device()) as copies,
    ):
        raise ValueError(f"{copies.paths[1]} has 5 rows")
    with (
        pytest.raises(ValueError, match=r"^other$"),
        readable_rows(remote, one_device()),
    ):
        raise ValueError("other")


def test_a_remote_tpu_does_not_read_copies_of_this_machine(rows, monkeypatch):
    monkeypatch.setattr(devices, "is_remote_tpu", lambda strategy: True)
    with readable_rows(rows, one_device()) as same:
        assert same == rows
    remote = dataclasses.replace(rows, paths=("memory://bucket/rows", rows.paths[1]))
    with (
        pytest.raises(ValueError, match="Received memory://bucket/rows: copy"),
        readable_rows(remote, one_device()),
    ):
        pass
