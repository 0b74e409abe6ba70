"""The loop's own report: what it blames for the time that it takes."""

import time

import tensorflow as tf

from albert_tf.records import batches
from albert_tf.records.sidecar import read_record_set
from helpers.tiny import tiny_config, write_rows
from helpers.training_jobs import make_job, one_device, train_until


def waiting(tmp_path, **changes):
    """The share of their time that loops of four steps say they waited for input."""
    path = write_rows(tmp_path / "rows.tfrecord", 17)
    rows = read_record_set([path], {})
    curve = []
    job = make_job(rows, tmp_path / "out", save_checkpoints_steps=12, **changes)
    train_until(job, 12, one_device(), curve)
    # The first loop's time is that of making the graph.
    return [report["waiting_for_input"] for report in curve[1:]]


def test_slow_input_is_blamed(tmp_path, monkeypatch):
    plain = batches.training_batches

    def slow(*arguments):
        def delay(batch):
            slept = tf.py_function(lambda: time.sleep(0.2), [], [])
            with tf.control_dependencies([slept] if slept is not None else []):
                return tf.nest.map_structure(tf.identity, batch)

        return plain(*arguments).map(delay)

    monkeypatch.setattr(batches, "training_batches", slow)
    shares = waiting(tmp_path)
    assert len(shares) == 2 and min(shares) > 0.7


def test_fast_input_is_not_blamed(tmp_path):
    """Steps of tenths of a second on batches that take a millisecond to read."""
    model = tiny_config(hidden_size=192, intermediate_size=1024, num_hidden_layers=8)
    shares = waiting(tmp_path, model_config=model, train_batch_size=64)
    assert len(shares) == 2 and max(shares) < 0.2
