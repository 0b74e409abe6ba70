"""Reports of evaluations as JSON values, with a count that is checked."""

import math

import numpy as np
import pytest

from albert_tf.records.sidecar import read_record_set
from albert_tf.training.evaluation import finish_report
from helpers.tiny import write_rows


def test_a_report_has_its_count_first_and_no_nan(tmp_path):
    rows = read_record_set([write_rows(tmp_path / "rows.tfrecord", 3)], {})
    report = {"eval_loss": 0.5, "pearson": math.nan, "rows": 3.0}
    expected = {"eval_rows": 3, "eval_loss": 0.5, "pearson": None}
    assert finish_report(report, rows) == expected
    assert list(finish_report(report, rows)) == list(expected)


def test_a_count_that_is_not_the_sidecars_is_refused(tmp_path):
    rows = read_record_set([write_rows(tmp_path / "rows.tfrecord", 3)], {})
    with pytest.raises(ValueError, match=r"Counted 2 rows of .*, expected 3"):
        finish_report({"rows": 2.0}, rows)


def test_a_sample_says_of_how_many_rows_it_is(tmp_path):
    rows = read_record_set([write_rows(tmp_path / "rows.tfrecord", 5)], {})
    sample = np.array([1, 4])
    found = finish_report({"rows": 2.0}, rows, sample)
    assert found == {"eval_rows": 2, "eval_rows_of": 5}
    with pytest.raises(ValueError, match=r"Counted 5 .* expected 2"):
        finish_report({"rows": 5.0}, rows, sample)
