"""Defaults of a task: builders state only what differs."""

from albert_tf.tasks.base import Task


def test_a_task_reads_batches_as_they_are_and_keeps_no_predictions():
    task = Task("toy", build_model=None, losses={}, best_metric="loss")
    features = {"input_ids": 1}
    batch = task.read_batch(features)
    assert batch == features and batch is not features
    assert task.metrics == {} and task.predictions is task.host_metrics is None
