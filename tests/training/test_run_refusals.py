"""The loop refuses damaged rows, folders of others, and runs that cannot go on."""

import json

import pytest

from albert_tf import locks
from albert_tf.checkpoints.load import weights_checkpoint
from albert_tf.model.heads import PretrainingModel
from albert_tf.records.sidecar import read_record_set, sidecar_path
from albert_tf.training import run as training_run
from albert_tf.training import run_folder
from helpers.tiny import tiny_config, write_rows
from helpers.training_jobs import make_job, one_device, two_devices


def test_a_corrupt_record_is_named_with_file_and_byte(tmp_path):
    path = write_rows(tmp_path / "rows.tfrecord", 9)
    rows = read_record_set([path], {})
    content = bytearray(path.read_bytes())
    lengths = [int.from_bytes(content[:8], "little")]
    second = lengths[0] + 16
    content[second + 40] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"rows\.tfrecord at byte {second:,}"):
        training_run.run(make_job(rows, tmp_path / "out"), one_device())


@pytest.mark.parametrize("reader", ["train_rows", "eval_rows"])
def test_a_file_of_fewer_rows_than_its_sidecar_says_is_named(reader, tmp_path):
    whole = read_record_set([write_rows(tmp_path / "whole.tfrecord", 4)], {})
    path = write_rows(tmp_path / "rows.tfrecord", 5)
    sidecar = sidecar_path(path)
    sidecar.write_text(json.dumps(json.loads(sidecar.read_text()) | {"rows": 9}))
    short = {reader: read_record_set([path], {})}
    job = make_job(**{"rows": whole, "output_dir": tmp_path / "out"} | short)
    with pytest.raises(ValueError, match=r"rows\.tfrecord has 5 rows.* says 9"):
        training_run.run(job, one_device())


def test_a_folder_that_another_run_trains_into_is_refused(tmp_path, rows):
    job = make_job(rows, tmp_path)
    with (
        locks.exclusive(str(tmp_path / run_folder.LOCK_FILE), "training"),
        pytest.raises(OSError, match=f"is training into {tmp_path}"),
    ):
        training_run.run(job, one_device())
    assert training_run.run(job, one_device())["status"] == "finished"


def test_a_run_replaces_no_results_of_others(tmp_path, rows):
    (tmp_path / "results.json").write_text('{"race": "2nd", "place": {}}')
    # They are found before anything is computed.
    job = make_job(rows, tmp_path)
    evaluation = make_job(None, tmp_path, eval_rows=rows, init_checkpoint="nowhere")
    for each in (job, evaluation):
        with pytest.raises(FileExistsError, match=r"results\.json is there already"):
            training_run.run(each, one_device())
    assert [path.name for path in tmp_path.iterdir() if path.name[0] != "."] == [
        "results.json"
    ]


@pytest.mark.parametrize("path", ["s4://bucket/out", "hdfs://host"])
def test_an_output_dir_of_another_scheme_is_refused(path, tmp_path, rows, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=f"{path} is not a path .*gs://"):
        training_run.run(make_job(rows, path), one_device())
    assert not list(tmp_path.iterdir())


def test_an_output_dir_that_is_a_file_is_refused_with_the_way_out(tmp_path, rows):
    file = tmp_path / "file"
    file.touch()
    for path in (file, file / "below"):
        with pytest.raises(OSError, match=rf"--output_dir {path} .*give a folder"):
            training_run.run(make_job(rows, path), one_device())


def test_a_batch_that_replicas_cannot_share_is_refused(tmp_path, rows):
    job = make_job(rows, tmp_path, train_batch_size=3)
    with pytest.raises(ValueError, match="3 rows cannot be shared by 2 replicas"):
        training_run.run(job, two_devices())


def test_evaluation_with_a_head_that_was_never_trained_is_refused(tmp_path, rows):
    model = PretrainingModel(tiny_config(), seed=3)
    prefix = weights_checkpoint(model.encoder).write(str(tmp_path / "bare"))
    job = make_job(None, tmp_path / "out", eval_rows=rows, init_checkpoint=prefix)
    with pytest.raises(ValueError, match=r"missing .cls/predictions/output_bias"):
        training_run.run(job, one_device())


def test_a_run_without_its_checkpoints_is_not_begun_anew(tmp_path, rows):
    training_run.run(make_job(rows, tmp_path, steps=2), one_device())
    (tmp_path / "model.ckpt-2.index").rename(tmp_path / "away")
    with pytest.raises(ValueError, match=r"checkpoint names checkpoint model\.ckpt-2"):
        training_run.run(make_job(None, tmp_path, eval_rows=rows), one_device())
    (tmp_path / "away").rename(tmp_path / "model.ckpt-2.index")
    for index in tmp_path.glob("model.ckpt-*.index"):
        index.unlink()
    with pytest.raises(ValueError, match="no whole checkpoint"):
        training_run.run(make_job(rows, tmp_path, steps=2), one_device())
