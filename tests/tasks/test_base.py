"""Defaults of a task: builders state only what differs."""

import numpy as np

from albert_tf.tasks.base import Task, join_rows


def test_a_task_reads_batches_as_they_are_and_keeps_no_predictions():
    task = Task("toy", build_model=None, losses={}, best_metric="loss")
    features = {"input_ids": 1}
    batch = task.read_batch(features)
    assert batch == features and batch is not features
    assert task.metrics == {} and task.predictions is task.host_metrics is None


def test_rows_of_batches_are_padded_with_zeros_to_the_largest():
    rng = np.random.default_rng(1)
    parts = [rng.integers(1, 9, shape) for shape in ((2, 3, 5), (1, 4, 2), (3, 1, 5))]
    whole = join_rows(parts)
    assert whole.shape == (6, 4, 5) and whole.dtype == parts[0].dtype
    assert whole.sum() == sum(part.sum() for part in parts)
    np.testing.assert_array_equal(whole[2:3, :4, :2], parts[1])
    flat = [np.array([1.5, 2.0]), np.array([0.25])]
    assert join_rows(flat).tolist() == [1.5, 2.0, 0.25]
    texts = [np.array([[b"ab"]], object), np.array([[b"c"]], object)]
    assert join_rows(texts).tolist() == [[b"ab"], [b"c"]]
