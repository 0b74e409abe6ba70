"""A job names the record sets that it reads, and refuses depths that do not fit it."""

import dataclasses

import pytest

from albert_tf.records.sidecar import read_record_set
from albert_tf.tasks.pretraining import PRETRAINING
from helpers.tiny import tiny_config, write_rows
from helpers.training_jobs import make_job


def test_record_sets_are_the_rows_that_a_job_has(tmp_path):
    rows = read_record_set([write_rows(tmp_path / "rows.tfrecord", 3)], {})
    assert make_job(rows, "unused").record_sets == [rows]
    assert make_job(None, "unused", eval_rows=rows).record_sets == [rows]
    assert make_job(rows, "unused", eval_rows=rows).record_sets == [rows, rows]


def test_depths_that_the_job_cannot_have_are_refused(tmp_path):
    rows = read_record_set([write_rows(tmp_path / "rows.tfrecord", 3)], {})
    job = make_job(rows, "unused", depth_schedule="7:1,4:3")
    assert job.depths.ends == [7, 11]
    for wrong, message in (
        ({"depth_schedule": "7:1,5:3"}, "its steps, 12, must be below num_train_steps"),
        ({"depth_schedule": "7:4"}, "must rise and stay below num_hidden_layers, 4"),
        ({"model_config": tiny_config(ffn_groups=2)}, "ffn_groups, 2, must divide"),
        ({"task": dataclasses.replace(PRETRAINING, can_grow=False)}, "is for pretrain"),
    ):
        with pytest.raises(ValueError, match=message):
            dataclasses.replace(job, **wrong)
    # Without training it has no meaning.
    job = make_job(None, "unused", eval_rows=rows, depth_schedule="99:9")
    assert job.depths.ends == [99]
