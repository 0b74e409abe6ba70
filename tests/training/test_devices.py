"""Devices are chosen from what is available; one process needs no other."""

from unittest import mock

import pytest
import tensorflow as tf

from albert_tf.training import devices


@pytest.mark.parametrize("text", ["", "{}"])
def test_without_workers_this_machine_computes(text, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", text)
    strategy = devices.create_strategy()
    assert isinstance(strategy, tf.distribute.OneDeviceStrategy)
    assert devices.is_chief(strategy)
    assert devices.gather(strategy, 7) == [7]


@pytest.mark.parametrize("value", ["1", "true", "TRUE"])
def test_weights_that_are_said_never_to_change_are_refused(value, monkeypatch):
    monkeypatch.setenv("TF_ONEDNN_ASSUME_FROZEN_WEIGHTS", value)
    with pytest.raises(ValueError, match=rf"WEIGHTS={value} is for servers.*Unset it"):
        devices.create_strategy()
    monkeypatch.setenv("TF_ONEDNN_ASSUME_FROZEN_WEIGHTS", "0")
    devices.create_strategy()


def test_one_process_has_no_other_to_differ_from_or_to_lose():
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    devices.require_equal(strategy, 7, "differ")
    error = tf.errors.UnavailableError(None, None, "Collective ops is aborted by: x")
    with (
        pytest.raises(tf.errors.UnavailableError),
        devices.explain_lost_worker(strategy),
    ):
        raise error


@pytest.mark.parametrize("names", [["CPU:0"], ["CPU:0", "CPU:1"]])
def test_rows_of_all_replicas_stand_in_one_tensor(names):
    strategy = tf.distribute.MirroredStrategy(names)

    def replica_rows():
        context = tf.distribute.get_replica_context()
        return tf.fill([2], context.replica_id_in_sync_group)

    rows = devices.all_rows(strategy, strategy.run(replica_rows))
    assert rows.numpy().tolist() == [r for r in range(len(names)) for _ in range(2)]


@pytest.mark.parametrize(("job", "is_moved"), [("localhost", False), ("worker", True)])
def test_only_checkpoints_of_a_remote_tpu_are_moved_to_this_machine(
    job, is_moved, monkeypatch
):
    names = [f"/job:{job}/replica:0/task:0/device:TPU:{core}" for core in range(2)]
    found = [tf.config.LogicalDevice(name, "TPU") for name in names]
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: found)
    plain = tf.distribute.OneDeviceStrategy("CPU:0")
    assert devices.checkpoint_options(plain) is None
    strategy = mock.create_autospec(tf.distribute.TPUStrategy, instance=True)
    options = devices.checkpoint_options(strategy)
    assert (options is not None) == is_moved
    if options:
        assert options.experimental_io_device == "/job:localhost"
