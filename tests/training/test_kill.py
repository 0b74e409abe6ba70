"""A run survives kills, signals, full disks, damaged files."""

import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

from albert_tf.records.sidecar import read_record_set
from albert_tf.training import run as training_run
from albert_tf.training.best_checkpoint import BestWeights
from helpers.disks import full_disk
from helpers.paths import ROOT
from helpers.tiny import tiny_config, write_rows
from helpers.training_jobs import make_job, one_device, train_until, weights

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    path = write_rows(tmp_path_factory.mktemp("rows") / "rows.tfrecord", 17)
    return read_record_set([path], {})


@pytest.fixture(scope="module")
def whole(rows, tmp_path_factory):
    """The weights and moments of a run that nothing happens to."""
    folder = tmp_path_factory.mktemp("whole")
    training_run.run(make_job(rows, folder), one_device())
    return weights(folder)


def assert_equal_runs(output_dir, whole):
    found = weights(output_dir)
    assert found.keys() == whole.keys()
    for name in whole:
        if not name.startswith(("train_seconds", "save_counter")):
            assert np.array_equal(found[name], whole[name]), name


@pytest.mark.slow
def test_sigterm_ends_the_script_well(rows, tmp_path):
    tiny_config().to_json(tmp_path / "tiny.json")
    command = [
        sys.executable,
        str(ROOT / "run_scripts" / "run_pretraining.py"),
        f"--input_file={rows.paths[0]}",
        f"--albert_config_file={tmp_path}/tiny.json",
        f"--output_dir={tmp_path}/out",
        "--max_seq_length=10",
        "--max_predictions_per_seq=3",
        "--train_batch_size=4",
        "--learning_rate=0.01",
        "--iterations_per_loop=10",
    ]
    with subprocess.Popen(
        command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        for line in process.stdout:
            if line.startswith(b"Step "):
                process.send_signal(signal.SIGTERM)
                break
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert b"ERROR" not in errors and b"Traceback" not in errors
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["status"] == "pre-empted" and results["global_step"] > 0
    for name in ("curves.html", "curves.png"):
        assert (tmp_path / "out" / name).is_file()
    assert (tmp_path / "out" / f"model.ckpt-{results['global_step']}.index").is_file()


def test_a_full_disk_leaves_the_last_checkpoint_and_room(rows, tmp_path, whole):
    train_until(make_job(rows, tmp_path / "out"), 6)
    job = make_job(rows, tmp_path / "out")
    before = set((tmp_path / "out").iterdir())
    with full_disk(20_000), pytest.raises(OSError) as caught:
        training_run.run(job, one_device())
    message = str(caught.value)
    assert re.search(rf"Checkpoint 12 cannot be written to {tmp_path}/out \(", message)
    assert f"resumes from {tmp_path}/out/model.ckpt-6" in message
    left = {file.name for file in set((tmp_path / "out").iterdir()) - before}
    assert not any(name.startswith("model.ckpt") for name in left), left
    assert training_run.run(job, one_device())["global_step"] == 12
    assert_equal_runs(tmp_path / "out", whole)


DAMAGE = {
    "model.ckpt-9.data-00000-of-00001": lambda content: content[:700],
    "model.ckpt-9.index": lambda content: content[:700],
    "model.ckpt-9.data-00000-of-00001 altered": lambda content: (
        content[:5000] + bytes([content[5000] ^ 1]) + content[5001:]
    ),
}


def test_a_damaged_checkpoint_is_named_and_the_one_before_resumes(
    rows, tmp_path, whole
):
    out = tmp_path / "out"
    train_until(make_job(rows, out), 9)
    message = rf"{out}/model\.ckpt-9 cannot be read: delete {out}/model\.ckpt-9\.\* "
    for name, damage in DAMAGE.items():
        file = out / name.split()[0]
        content = file.read_bytes()
        file.write_bytes(damage(content))
        with pytest.raises(ValueError, match=message):
            training_run.run(make_job(rows, out), one_device())
        file.write_bytes(content)
    for file in out.glob("model.ckpt-9.*"):
        file.unlink()
    results = training_run.run(make_job(rows, out), one_device())
    assert results["global_step"] == 12
    assert_equal_runs(out, whole)
    steps = sorted(int(p.stem.split("-")[1]) for p in out.glob("*.index"))
    assert steps == [0, 6, 12]


def test_a_run_without_any_of_its_checkpoints_starts_anew(rows, tmp_path, whole):
    train_until(make_job(rows, tmp_path / "out"), 6)
    for file in (tmp_path / "out").glob("model.ckpt*"):
        file.unlink()
    training_run.run(make_job(rows, tmp_path / "out"), one_device())
    assert_equal_runs(tmp_path / "out", whole)


def test_a_checkpoint_that_is_cut_off_while_written_is_not_taken(rows, tmp_path, whole):
    """The data are there and the index is not, as a kill may leave them."""
    train_until(make_job(rows, tmp_path / "out"), 6)
    data = (tmp_path / "out" / "model.ckpt-6.data-00000-of-00001").read_bytes()
    (tmp_path / "out" / "model.ckpt-12.data-00000-of-00001").write_bytes(data[:999])
    training_run.run(make_job(rows, tmp_path / "out"), one_device())
    assert_equal_runs(tmp_path / "out", whole)


def test_an_evaluation_that_a_kill_took_is_made_up_for(rows, tmp_path, monkeypatch):
    """Stopped between the checkpoint of step 6 and its evaluation."""
    job = make_job(rows, tmp_path / "out", steps=8, eval_rows=rows, eval_steps=6)
    train_until(job, 6)
    assert not (tmp_path / "out" / "best").exists()
    evaluated = []
    offer = BestWeights.offer

    def recording_offer(best, model, report, step):
        evaluated.append(step)
        offer(best, model, report, step)

    monkeypatch.setattr(BestWeights, "offer", recording_offer)
    training_run.run(job, one_device())
    assert evaluated == [6, 8]


def test_a_corrupt_record_of_the_evaluation_is_named_too(rows, tmp_path):
    path = write_rows(tmp_path / "eval.tfrecord", 5)
    bad = read_record_set([path], {})
    content = bytearray(path.read_bytes())
    content[40] ^= 1
    path.write_bytes(content)
    job = make_job(rows, tmp_path / "out", steps=2, eval_rows=bad)
    with pytest.raises(ValueError, match=r"eval\.tfrecord at byte 0\. "):
        training_run.run(job, one_device())
