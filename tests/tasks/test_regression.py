"""Metrics and predictions of regression."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.task_config import Regression
from albert_tf.tasks import create_task


def test_predictions_are_the_only_output_and_are_correlated_with_the_labels():
    task = create_task(Regression("toy"))
    labels = tf.constant([1.0, 2.0, 4.0])
    outputs = {"logits": tf.constant([[1.0], [3.0], [7.0]])}
    found = task.predictions(outputs, {"label_ids": labels})
    assert found["values"].numpy().tolist() == [1.0, 3.0, 7.0]
    metrics = task.host_metrics({name: np.array(v) for name, v in found.items()})
    assert metrics == {"pearson": pytest.approx(1.0), "spearman": pytest.approx(1.0)}
