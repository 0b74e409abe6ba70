"""Metrics and predictions of classification."""

import numpy as np
import pytest
import tensorflow as tf
from sklearn.metrics import classification_report

from albert_tf.task_config import Classification, MultiLabel, Regression, Squad
from albert_tf.tasks import create_task
from albert_tf.tasks.classification import class_report, label_metrics
from albert_tf.tasks.losses import ClassificationLoss


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


def test_the_report_is_that_of_scikit_learn():
    rng = np.random.default_rng(8)
    labels = ["a", "b", "c", "d", "never"]
    gold = rng.integers(0, 4, 97)
    probabilities = rng.random((97, 5)) * [1, 1, 1, 1, 0]
    predictions = {"label_ids": gold, "probabilities": probabilities}
    found = class_report(predictions, labels)
    predicted = probabilities.argmax(axis=-1)
    expected = classification_report(
        gold, predicted, target_names=labels[:4], output_dict=True
    )
    for label in labels[:4]:
        values = dict(expected[label])
        values["f1"] = values.pop("f1-score")
        assert found["classes"][label] == pytest.approx(values)
    assert found["classes"]["never"]["support"] == 0
    for name in ("precision", "recall"):
        assert found[f"macro_{name}"] == pytest.approx(expected["macro avg"][name])
    assert found["macro_f1"] == pytest.approx(expected["macro avg"]["f1-score"])
    matrix = np.array(found["confusion_matrix"])
    assert matrix.shape == (5, 5) and matrix.sum() == 97
    assert matrix[2, 1] == ((gold == 2) & (predicted == 1)).sum()


@pytest.mark.parametrize(
    ("task_config", "match"),
    [(Regression("toy"), "are for classifiers"), (Squad(False), "are for classifiers")],
)
def test_other_tasks_weigh_no_examples(task_config, match):
    with pytest.raises(ValueError, match=match):
        create_task(task_config, loss=ClassificationLoss(focal_gamma=2.0))


def test_evaluation_is_not_weighted():
    loss = ClassificationLoss(class_weights=(1.0, 9.0), label_smoothing=0.1)
    for task_config in (
        Classification("toy", ["a", "b"]),
        MultiLabel("toy", ["a", "b"]),
    ):
        task = create_task(task_config, loss=loss)
        assert task.losses != task.evaluation_losses
        assert task.evaluation_losses == create_task(task_config).losses
