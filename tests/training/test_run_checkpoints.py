"""Checkpoints of a run: the newest one that is complete counts."""

import pytest
import tensorflow as tf

from albert_tf.training import run_checkpoints


def make_manager(folder):
    checkpoint = tf.train.Checkpoint(value=tf.Variable([1.0, 2.0]))
    manager = tf.train.CheckpointManager(
        checkpoint, str(folder), max_to_keep=3, checkpoint_name="model.ckpt"
    )
    return checkpoint, manager


def test_the_newest_checkpoint_that_is_there_counts(tmp_path):
    _, manager = make_manager(tmp_path)
    assert run_checkpoints.latest_of_run(tmp_path) is None
    for step in (2, 4):
        run_checkpoints.save(manager, step)
    latest = run_checkpoints.latest_of_run(tmp_path)
    assert latest == str(tmp_path / "model.ckpt-4")
    assert run_checkpoints.step_of(latest) == 4
    (tmp_path / "model.ckpt-4.index").unlink()
    assert run_checkpoints.step_of(run_checkpoints.latest_of_run(tmp_path)) == 2


def test_a_truncated_checkpoint_is_named(tmp_path):
    checkpoint, manager = make_manager(tmp_path)
    run_checkpoints.save(manager, 2)
    checkpoint.value.assign([0.0, 0.0])
    prefix = run_checkpoints.latest_of_run(tmp_path)
    run_checkpoints.read_run(checkpoint, prefix)
    assert checkpoint.value.numpy().tolist() == [1.0, 2.0]
    data = tmp_path / "model.ckpt-2.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:3])
    with pytest.raises(ValueError, match=rf"delete {prefix}\.\* to resume"):
        run_checkpoints.read_run(checkpoint, prefix)
