"""Checkpoints in a bucket: complete before they are listed, the oldest deleted."""

import pytest
import tensorflow as tf
from fsspec.implementations.memory import MemoryFileSystem

from albert_tf.checkpoints.tensorflow_files import read_state
from albert_tf.locks import TakenOverError
from albert_tf.storage import local_checkpoint
from albert_tf.training.checkpoint_folder import CheckpointFolder
from helpers.bucket_runs import names, new_folder


def save(path, *steps, **more):
    """Saves the steps, whose numbers are the content."""
    value = tf.Variable(0)
    checkpoint = tf.train.Checkpoint(value=value)
    folder = CheckpointFolder(checkpoint, path, max_to_keep=2, **more)
    prefixes = []
    for step in steps:
        value.assign(step)
        prefixes.append(folder.save(step))
    return prefixes


def parts(*steps):
    ends = ("data-00000-of-00001", "index")
    return [f"model.ckpt-{step}.{end}" for step in steps for end in ends]


def test_a_bucket_has_what_a_local_folder_has(tmp_path):
    bucket = new_folder()
    for path in (bucket, tmp_path):
        assert save(path, 3, 5, 7) == [f"{path}/model.ckpt-{n}" for n in (3, 5, 7)]
        # Another process goes on with the list that it finds.
        save(path, 9)
        assert names(path) == ["checkpoint", *parts(7, 9)]
        assert read_state(path) == [f"{path}/model.ckpt-{n}" for n in (7, 9)]
        key = "value/.ATTRIBUTES/VARIABLE_VALUE"
        with local_checkpoint(f"{path}/model.ckpt-9") as prefix:
            assert tf.train.load_checkpoint(prefix).get_tensor(key) == 9
    for name in parts(9):
        assert (bucket / name).read_bytes() == (tmp_path / name).read_bytes()


def test_files_are_copied_and_deleted_in_an_order_that_a_kill_may_cut(monkeypatch):
    bucket, done = new_folder(), []
    save(bucket, 3, 5)
    put, delete = MemoryFileSystem.put_file, MemoryFileSystem.rm_file

    def note_put(system, local, path, *arguments, **more):
        done.append(f"+{path.rsplit('/', 1)[1]}")
        put(system, local, path, *arguments, **more)

    def note_delete(system, path):
        done.append(f"-{path.rsplit('/', 1)[1]}")
        delete(system, path)

    monkeypatch.setattr(MemoryFileSystem, "put_file", note_put)
    monkeypatch.setattr(MemoryFileSystem, "rm_file", note_delete)
    checks = []
    save(bucket, 7, check=lambda: checks.append(len(done)))
    old, new = parts(3), parts(7)
    assert done == [*(f"+{n}" for n in new), "+checkpoint", f"-{old[1]}", f"-{old[0]}"]
    # Another writer is looked for before each of them.
    assert checks == [0, 0, 1, 2, 3, 4]


@pytest.mark.parametrize("is_local", [True, False])
def test_another_writer_is_noticed_before_anything_is_written(is_local, tmp_path):
    def taken_over():
        raise TakenOverError("Another process is training.")

    folder = tmp_path if is_local else new_folder()
    save(folder, 3)
    before = names(folder)
    with pytest.raises(TakenOverError):
        save(folder, 5, check=taken_over)
    assert names(folder) == before


def test_errors_of_tensorflow_leave_the_bucket_as_it_is(monkeypatch):
    bucket = new_folder()
    save(bucket, 3)
    before = names(bucket)

    def fail(*_, **__):
        raise tf.errors.ResourceExhaustedError(None, None, "disk full")

    monkeypatch.setattr(tf.train.CheckpointManager, "save", fail)
    with pytest.raises(tf.errors.ResourceExhaustedError):
        save(bucket, 5)
    assert names(bucket) == before
