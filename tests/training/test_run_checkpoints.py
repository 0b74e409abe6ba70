"""Checkpoints of a run: the newest one that is complete counts."""

import pytest
import tensorflow as tf
from fsspec.implementations.memory import MemoryFileSystem

from albert_tf.locks import TakenOverError
from albert_tf.training import run_checkpoints
from albert_tf.training.checkpoint_folder import CheckpointFolder
from helpers.bucket_runs import new_folder


def make_folder(path):
    checkpoint = tf.train.Checkpoint(value=tf.Variable([1.0, 2.0]))
    return checkpoint, CheckpointFolder(checkpoint, path, max_to_keep=3)


def test_the_newest_checkpoint_that_is_there_counts(tmp_path):
    _, folder = make_folder(tmp_path)
    assert run_checkpoints.latest_of_run(tmp_path) is None
    for step in (2, 4):
        run_checkpoints.save(folder, step)
    latest = run_checkpoints.latest_of_run(tmp_path)
    assert latest == str(tmp_path / "model.ckpt-4")
    assert run_checkpoints.step_of(latest) == 4
    (tmp_path / "model.ckpt-4.index").unlink()
    assert run_checkpoints.step_of(run_checkpoints.latest_of_run(tmp_path)) == 2


def test_a_truncated_checkpoint_is_named(tmp_path):
    checkpoint, folder = make_folder(tmp_path)
    run_checkpoints.save(folder, 2)
    checkpoint.value.assign([0.0, 0.0])
    prefix = run_checkpoints.latest_of_run(tmp_path)
    run_checkpoints.read_run(checkpoint, prefix)
    assert checkpoint.value.numpy().tolist() == [1.0, 2.0]
    data = tmp_path / "model.ckpt-2.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:3])
    with pytest.raises(ValueError, match=rf"delete {prefix}\.\* to resume"):
        run_checkpoints.read_run(checkpoint, prefix)


def test_a_bucket_that_is_not_reached_is_not_one_without_checkpoints(monkeypatch):
    """The run would begin anew otherwise."""
    bucket = new_folder()
    _, folder = make_folder(bucket)
    run_checkpoints.save(folder, 2)
    run_checkpoints.save(folder, 4)

    def fail(*_, **__):
        raise ConnectionResetError("connection lost")

    monkeypatch.setattr(MemoryFileSystem, "info", fail)
    with pytest.raises(ConnectionResetError):
        run_checkpoints.latest_of_run(bucket)
    with pytest.raises(OSError, match=r"Checkpoint 6 .* it resumes from its last") as e:
        run_checkpoints.save(folder, 6)
    assert "connection lost" in str(e.value)


def test_a_connection_that_breaks_for_good_while_a_checkpoint_is_saved(monkeypatch):
    bucket = new_folder()
    _, folder = make_folder(bucket)
    run_checkpoints.save(folder, 2)
    broken = []
    info = MemoryFileSystem.info

    def fail(*_, **__):
        broken.append(True)
        raise ConnectionResetError("connection lost")

    monkeypatch.setattr(MemoryFileSystem, "put_file", fail)
    monkeypatch.setattr(
        MemoryFileSystem, "info", lambda *a, **m: fail() if broken else info(*a, **m)
    )
    with pytest.raises(OSError, match=rf"resumes from {bucket}/model\.ckpt-2\.$"):
        run_checkpoints.save(folder, 4)


def test_errors_of_a_bucket_say_how_the_run_goes_on(tmp_path):
    bucket = new_folder()
    run_checkpoints.save(make_folder(bucket)[1], 2)
    notes = {}
    for place in (bucket, tmp_path):
        for error in (OSError("lost"), TakenOverError("taken"), ValueError("wrong")):
            with (
                pytest.raises(type(error)) as caught,
                run_checkpoints.explain_resumption(place),
            ):
                raise error
            notes[place, str(error)] = getattr(caught.value, "__notes__", [])
    told = f"Give the same command again; it resumes from {bucket}/model.ckpt-2."
    assert notes.pop((bucket, "lost")) == [told]
    assert not any(notes.values())
