"""Devices are chosen from what is available; one process needs no other."""

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
