"""The loss of classifiers, by the options of fine-tuning."""

import numpy as np
import pytest
from sklearn.utils.class_weight import compute_sample_weight

from albert_tf.records.features import classifier_features, multi_label_features
from albert_tf.records.sidecar import read_record_set
from albert_tf.records.writer import write_records
from albert_tf.task_config import Classification, MultiLabel, Regression
from albert_tf.tasks.losses import PLAIN
from albert_tf.training.class_weights import create_loss, parse
from albert_tf.training.fine_tuning_config import FineTuningConfig

LABELS = ["a", "b: c", "d"]
BALANCED = FineTuningConfig(class_weights="balanced")


def write(path, labels, features):
    tokens = {"input_ids": [5], "segment_ids": [0], "index": b"0"}
    rows = [{**tokens, "label_ids": each} for each in labels]
    write_records(path, rows, features, {"vocab_size": 7})
    return read_record_set([str(path)], {})


def test_balanced_weights_are_those_of_scikit_learn(tmp_path):
    ids = [0] * 11 + [1] * 5 + [2]
    rows = write(tmp_path / "a.tfrecord", ids, classifier_features("int64"))
    found = create_loss(BALANCED, Classification("toy", LABELS), rows).class_weights
    expected = compute_sample_weight("balanced", ids)
    assert found == pytest.approx([expected[0], expected[11], expected[16]])


def test_balanced_label_sets_weigh_rows_without_by_rows_with_the_label(tmp_path):
    sets = [[1, 1, 0]] * 3 + [[0, 1, 0]] * 4 + [[0, 0, 1]]
    rows = write(tmp_path / "a.tfrecord", sets, multi_label_features(3))
    found = create_loss(BALANCED, MultiLabel("toy", LABELS), rows).class_weights
    assert found == pytest.approx([5 / 3, 1 / 7, 7 / 1])
    counts = np.array(sets).sum(axis=0)
    assert (counts * found == pytest.approx(8 - counts)) is True


def test_weights_are_given_by_name():
    assert parse("d:0.5", LABELS) == [1.0, 1.0, 0.5]
    assert parse("b: c:3,a:2", LABELS) == [2.0, 3.0, 1.0]
    for wrong in ("x:1", "a", "a:0", "a:-1", "a:nan", "a:1,a:2", "a:inf", "a:2,"):
        with pytest.raises(ValueError, match=r"balanced.*labels are 'a', 'b: c', 'd'"):
            parse(wrong, LABELS)


def test_what_cannot_be_weighed_is_refused(tmp_path):
    rows = write(tmp_path / "a.tfrecord", [0, 0, 2], classifier_features("int64"))
    with pytest.raises(ValueError, match="No row to train on has the label 'b: c'"):
        create_loss(BALANCED, Classification("toy", LABELS), rows)
    with pytest.raises(ValueError, match="not for toy"):
        create_loss(BALANCED, Regression("toy"), rows)
    assert create_loss(BALANCED, Classification("toy", LABELS), None) is PLAIN


@pytest.mark.parametrize(
    "wrong",
    [{"label_smoothing": 1.0}, {"label_smoothing": -0.1}, {"focal_gamma": -1.0}],
)
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        FineTuningConfig(**wrong)
