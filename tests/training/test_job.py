"""A job names the record sets that it reads."""

from albert_tf.records.sidecar import read_record_set
from helpers.tiny import write_rows
from helpers.training_jobs import make_job


def test_record_sets_are_the_rows_that_a_job_has(tmp_path):
    rows = read_record_set([write_rows(tmp_path / "rows.tfrecord", 3)], {})
    assert make_job(rows, "unused").record_sets == [rows]
    assert make_job(None, "unused", eval_rows=rows).record_sets == [rows]
    assert make_job(rows, "unused", eval_rows=rows).record_sets == [rows, rows]
