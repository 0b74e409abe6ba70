"""A warning for a model that predicts one class for all rows."""

import numpy as np
import pytest

from albert_tf.training import multi_run


def predicted(classes, labels, labelled=True):
    return {
        "probabilities": np.eye(3)[classes],
        "label_ids": np.array(labels),
        "labelled": np.array(labelled),
    }


def test_one_class_for_rows_of_several_is_a_warning_that_fits_the_rate():
    found = predicted([2] * 4, [2, 2, 2, 0])
    high = multi_run.collapse_warning("dev", found, 1e-3)
    assert "all 4 predictions of dev are one class, which 75% of its labels" in high
    assert high.endswith("Lower --learning_rate, which is 0.001.")
    usual = multi_run.collapse_warning("dev", found, 2e-5)
    assert usual.endswith("Train longer, or on more rows of the other classes.")
    assert "learning_rate" not in multi_run.collapse_warning("dev", found, None)


@pytest.mark.parametrize(
    "found",
    [
        predicted([2, 2, 1], [2, 2, 0]),
        predicted([1, 1, 1], [1, 1, 1]),
        predicted([1, 1, 1], [0, 0, 0], labelled=False),
        {"values": np.ones(3), "labelled": np.array(True)},
    ],
    ids=["two classes", "labels of one class", "no labels", "regression"],
)
def test_other_predictions_are_no_collapse(found):
    assert multi_run.collapse_warning("dev", found, 1e-3) == ""
