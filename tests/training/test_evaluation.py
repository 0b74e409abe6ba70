"""Reports of evaluations as JSON values, with a count that is checked."""

import math

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
    with pytest.raises(ValueError, match="Counted 2 rows, the sidecars say 3"):
        finish_report({"rows": 2.0}, rows)
    # An evaluation that is limited counts fewer rows on purpose.
    assert finish_report({"rows": 2.0}, None) == {"eval_rows": 2}
