"""Scores of whole sets: scikit-learn's and scipy's, at their edges too."""

import math
import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as sklearn_metrics

from albert_tf.tasks import metrics
from albert_tf.tasks.classification import label_metrics
from albert_tf.tasks.regression import correlations

LABELS = np.array([0, 1, 1, 0, 1, 0, 1, 1])
PREDICTED = {
    "mixed": np.array([0, 1, 0, 0, 1, 1, 1, 0]),
    "all right": LABELS,
    "all wrong": 1 - LABELS,
    "constant 0": np.zeros(8, int),
    "constant 1": np.ones(8, int),
}
TRUTHS = {"mixed": LABELS, "one class": np.ones(8, int), "other": np.zeros(8, int)}


@pytest.mark.parametrize("truth", TRUTHS)
@pytest.mark.parametrize("case", PREDICTED)
def test_scores_of_classes_are_scikit_learns(case, truth):
    labels, predicted = TRUTHS[truth], PREDICTED[case]
    probabilities = np.stack([1 - predicted, predicted], axis=-1) * 0.8 + 0.1
    found = label_metrics(
        {"probabilities": probabilities, "label_ids": labels},
        ["eval_accuracy", "f1", "matthew_corr"],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        matthews = sklearn_metrics.matthews_corrcoef(labels, predicted)
    assert found == {
        "eval_accuracy": sklearn_metrics.accuracy_score(labels, predicted),
        "f1": sklearn_metrics.f1_score(labels, predicted, zero_division=0.0),
        "matthew_corr": matthews,
        "predicted_labels": len(set(predicted.tolist())),
    }
    # By hand, where a denominator is 0: nothing found is a score of 0, not an error.
    if case.startswith("constant") or truth != "mixed":
        assert found["matthew_corr"] == 0
    assert found["eval_accuracy"] == (labels == predicted).mean()


def test_correlations_are_scipys():
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 11, 40) / 2
    values = labels + rng.normal(size=40)
    found = correlations({"values": values, "label_ids": labels})
    assert found["pearson"] == stats.pearsonr(labels, values).statistic
    assert found["spearman"] == stats.spearmanr(labels, values).statistic
    # The definition, by numpy.
    assert found["pearson"] == pytest.approx(np.corrcoef(labels, values)[0, 1])
    # Ranks alone count for one of them.
    cubed = correlations({"values": values**3, "label_ids": labels})
    assert cubed["spearman"] == pytest.approx(found["spearman"])
    assert cubed["pearson"] != pytest.approx(found["pearson"])


@pytest.mark.parametrize(
    ("values", "labels"),
    [([1.0, 1.0, 1.0], [0.0, 2.0, 5.0]), ([1.0, 2.0], [3.0, 3.0]), ([1.0], [2.0])],
    ids=["constant predictions", "constant labels", "one row"],
)
def test_a_correlation_that_is_not_defined_is_not_a_number(values, labels):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("pearson", "spearman"):
            assert math.isnan(metrics.METRICS[name](np.array(labels), np.array(values)))
