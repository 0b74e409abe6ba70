"""Metrics and predictions of classification."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.task_config import Classification
from albert_tf.tasks import create_task
from albert_tf.tasks.classification import label_metrics


def test_predictions_are_probabilities_beside_the_labels():
    task = create_task(Classification("toy", ["a", "b"]))
    labels = tf.constant([1, 0])
    found = task.predictions(
        {"logits": tf.constant([[0.0, 0.0], [2.0, 0.0]])}, {"label_ids": labels}
    )
    assert found["label_ids"] is labels
    assert found["probabilities"][0].numpy().tolist() == [0.5, 0.5]
    assert float(found["probabilities"][1, 0]) == pytest.approx(1 / (1 + np.exp(-2)))


def test_only_the_metrics_of_the_task_are_computed():
    predictions = {
        "probabilities": np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]),
        "label_ids": np.array([0, 1, 1]),
    }
    found = label_metrics(predictions, ["eval_accuracy"])
    assert found == {"eval_accuracy": pytest.approx(2 / 3), "predicted_labels": 2}
    task = create_task(Classification("toy", ["a", "b"], ["f1", "eval_accuracy"]))
    found = task.host_metrics(predictions)
    assert found.keys() == {"f1", "eval_accuracy", "predicted_labels"}
