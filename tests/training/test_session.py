"""The parts of a run: one loop, one evaluation for each step, one checkpoint."""

import pytest

from albert_tf.records.sidecar import read_record_set
from albert_tf.training import run_checkpoints
from albert_tf.training.run_folder import RunFolder
from albert_tf.training.session import Session
from helpers.tiny import write_rows
from helpers.training_jobs import make_job, one_device


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    path = write_rows(tmp_path_factory.mktemp("rows") / "rows.tfrecord", 7)
    return read_record_set([path], {})


def test_loops_evaluations_and_checkpoints_follow_the_step(rows, tmp_path, capsys):
    job = make_job(rows, tmp_path, eval_rows=rows)
    with one_device().scope():
        session = Session(job, RunFolder(tmp_path, tmp_path))
    assert session.step == 0 and session.latest_checkpoint() is None
    assert "from step 0" in capsys.readouterr().out

    report = session.train(3)
    assert "masked_lm_loss" in report and "loss_scale" not in report
    assert session.step == 3 and session.train_seconds > 0
    report = session.evaluate()
    assert report["eval_rows"] == 7 and session.evaluate() is report
    session.save()
    session.save()
    assert run_checkpoints.step_of(session.latest_checkpoint()) == 3
    assert capsys.readouterr().out.count("Saved checkpoint") == 1

    with one_device().scope():
        resumed = Session(job, RunFolder(tmp_path, tmp_path))
    assert resumed.step == 3
    assert f"resumed from {tmp_path}/model.ckpt-3" in capsys.readouterr().out
    again = resumed.evaluate()
    assert again["masked_lm_loss"] == report["masked_lm_loss"]
