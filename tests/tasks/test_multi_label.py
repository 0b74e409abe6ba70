"""Several labels a text: predictions, metrics and thresholds."""

import numpy as np
import pytest
import tensorflow as tf
from sklearn.metrics import f1_score

from albert_tf.task_config import MultiLabel
from albert_tf.tasks.create import create_task
from albert_tf.tasks.multi_label import (
    chosen_labels,
    multi_label_metrics,
    tune_thresholds,
)

LABELS = ["anger", "joy", "fear", "love"]


@pytest.fixture
def predictions():
    rng = np.random.default_rng(3)
    gold = rng.random((61, 4)) < [0.1, 0.5, 0.3, 0.8]
    probabilities = np.clip(0.3 * gold + rng.random((61, 4)) * 0.6, 0, 1)
    return {
        "label_ids": gold.astype(np.int64),
        "probabilities": probabilities.astype(np.float32),
    }


def test_each_label_has_a_probability_of_its_own():
    task = create_task(MultiLabel("toy", LABELS))
    labels = tf.constant([[1, 0, 0, 1]])
    logits = tf.constant([[0.0, 2.0, -1.0, 9.0]])
    found = task.predictions({"logits": logits}, {"label_ids": labels})
    assert found["label_ids"] is labels
    np.testing.assert_allclose(
        found["probabilities"], 1 / (1 + np.exp(-logits.numpy())), atol=1e-6
    )
    assert task.features({})["label_ids"].shape == (4,)


def test_metrics_are_those_of_counted_labels(predictions):
    thresholds = (0.2, 0.5, 0.45, 0.7)
    found = multi_label_metrics(predictions, thresholds)
    gold = predictions["label_ids"] > 0
    chosen = predictions["probabilities"] >= np.float32(thresholds)
    right = (gold & chosen).sum()
    assert found["micro_precision"] == pytest.approx(right / chosen.sum())
    assert found["micro_recall"] == pytest.approx(right / gold.sum())
    assert found["micro_f1"] == pytest.approx(2 * right / (gold.sum() + chosen.sum()))
    each = [f1_score(gold[:, i], chosen[:, i]) for i in range(4)]
    assert found["macro_f1"] == pytest.approx(np.mean(each))
    assert found["subset_accuracy"] == (gold == chosen).all(axis=1).mean()
    task = create_task(MultiLabel("toy", LABELS, thresholds=thresholds))
    assert task.host_metrics(predictions) == found
    classes = task.details(predictions)["classes"]
    assert [classes[label]["f1"] for label in LABELS] == pytest.approx(each)
    assert [classes[label]["support"] for label in LABELS] == gold.sum(0).tolist()


def test_tuned_thresholds_have_the_best_f1_of_all(predictions):
    # No row has the third label.
    predictions["label_ids"][:, 2] = 0
    tuned = tune_thresholds(predictions)
    assert tuned.without_examples == 1 and tuned.thresholds[2] == 0.5
    gold, probabilities = predictions["label_ids"], predictions["probabilities"]
    chosen = chosen_labels(probabilities, tuned.thresholds)
    for label in (0, 1, 3):
        column = probabilities[:, label]
        best = max(f1_score(gold[:, label], column >= one) for one in {*column, 0.5})
        assert f1_score(gold[:, label], chosen[:, label]) == best
    # As good as any: 0.5.
    sure = {"label_ids": gold, "probabilities": 0.2 + 0.6 * gold}
    assert tune_thresholds(sure).thresholds == (0.5,) * 4


def test_a_task_has_its_labels_once_and_their_thresholds():
    with pytest.raises(ValueError, match="each once"):
        MultiLabel("toy", ["a", "b", "a"])
    with pytest.raises(ValueError, match="2 labels have as many thresholds, or none"):
        MultiLabel("toy", ["a", "b"], thresholds=[0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match="separator"):
        MultiLabel("toy", ["a"], label_separator="")
    assert MultiLabel("toy", ["a", "b"]).all_thresholds == (0.5, 0.5)
