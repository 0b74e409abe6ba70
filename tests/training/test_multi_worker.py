"""Two workers on this machine, each started as a user starts it."""

import itertools
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import tensorflow_files
from albert_tf.config import AlbertConfig
from albert_tf.records import batches
from albert_tf.records.features import pretraining_features
from albert_tf.records.sidecar import read_record_set
from albert_tf.records.writer import write_records
from albert_tf.training.run import run
from helpers.paths import ROOT
from helpers.tiny import random_rows, tiny_config
from helpers.training_jobs import make_job, two_devices

LENGTH, PREDICTIONS, STEPS = 40, 19, 20
# Seconds that a start of TensorFlow may take on a machine with much else to do.
PATIENCE = 240
pytestmark = pytest.mark.slow


def uneven_rows(count, rng):
    """Rows with 1 and with 19 masked pieces in turn."""
    rows = random_rows(10_000, rng, LENGTH, PREDICTIONS)
    for masked in itertools.islice(itertools.cycle((1, PREDICTIONS)), count):
        yield next(row for row in rows if row["masked_lm_weights"].sum() == masked)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Records and a configuration without dropout, whose masks replicas draw alone."""
    folder = tmp_path_factory.mktemp("workers")
    metadata = {
        "max_seq_length": LENGTH,
        "max_predictions_per_seq": PREDICTIONS,
        "vocab_size": tiny_config().vocab_size,
        "lower_case": True,
        "strip_accents": True,
    }
    write_records(
        folder / "rows.tfrecord",
        uneven_rows(23, np.random.default_rng(5)),
        pretraining_features(LENGTH, PREDICTIONS),
        metadata,
    )
    tiny_config(
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        max_position_embeddings=LENGTH,
    ).to_json(folder / "tiny.json")
    return folder


def free_ports(count):
    """Ports that nothing listens on, all different."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def start(folder, output_dir, *arguments, tf_config=None):
    """One process of training, in batches of two rows; its output goes to a file."""
    command = [
        sys.executable,
        str(ROOT / "run_scripts" / "run_pretraining.py"),
        f"--input_file={folder}/rows.tfrecord",
        f"--albert_config_file={folder}/tiny.json",
        f"--output_dir={output_dir}",
        f"--max_seq_length={LENGTH}",
        f"--max_predictions_per_seq={PREDICTIONS}",
        "--train_batch_size=2",
        "--eval_batch_size=4",
        "--learning_rate=0.02",
        "--num_warmup_steps=3",
        "--save_checkpoints_steps=8",
        *arguments,
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    index = 0
    if tf_config:
        environment["TF_CONFIG"] = json.dumps(tf_config)
        index = tf_config["task"]["index"]
    log = Path(f"{output_dir}.{index}.log")
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=file, stderr=file
        )
    process.log = log
    return process


def start_workers(*arguments):
    """The same command twice, with a place of its own for each."""
    hosts = [f"127.0.0.1:{port}" for port in free_ports(2)]
    tasks = [{"type": "worker", "index": index} for index in range(2)]
    return [
        start(*arguments, tf_config={"cluster": {"worker": hosts}, "task": task})
        for task in tasks
    ]


def wait(processes, patience=PATIENCE):
    """Exit codes; a process that hangs fails the test."""
    try:
        return [process.wait(patience) for process in processes]
    finally:
        for process in processes:
            process.kill()


def text(process):
    return process.log.read_text()


def wait_for_step(process, output_dir, step):
    """Waits until the log of a run has a step."""
    deadline, log = time.monotonic() + PATIENCE, Path(output_dir, "train.log")
    while not (log.is_file() and f"step: {step:6d} " in log.read_text()):
        assert process.poll() is None and time.monotonic() < deadline, text(process)
        time.sleep(0.05)


def losses_by_step(output_dir):
    """Step -> masked-language and sentence-order losses, from TensorBoard's events."""
    curve = {}
    for file in Path(output_dir, "train").iterdir():
        for event in tf.compat.v1.train.summary_iterator(str(file)):
            for value in event.summary.value:
                if value.tag in ("masked_lm_loss", "sentence_order_loss"):
                    number = float(tf.make_ndarray(value.tensor))
                    curve.setdefault(event.step, {})[value.tag] = number
    return curve


def weights(output_dir):
    reader = tf.train.load_checkpoint(tensorflow_files.find_checkpoint(output_dir))
    names = [n for n in reader.get_variable_to_shape_map() if n.startswith("weights/")]
    return {name: reader.get_tensor(name) for name in names}


@pytest.fixture(scope="module")
def runs(folder):
    """Folders of one process's run and of two workers' that are stopped once."""
    one, two = folder / "one", folder / "two"
    settings = (f"--num_train_steps={STEPS}", "--iterations_per_loop=1", "--do_eval")
    # The same rows again, as a file of its own: rows that are trained on are refused.
    for suffix in ("", ".json"):
        copy = (folder / f"rows.tfrecord{suffix}").read_bytes()
        (folder / f"eval.tfrecord{suffix}").write_bytes(copy)
    settings = (*settings, f"--eval_input_file={folder}/eval.tfrecord")
    cut_off = start_workers(folder, two, *settings, "--max_train_hours=1e-9")
    alone = start(folder, one, *settings)
    assert wait([*cut_off, alone]) == [0, 0, 0], [text(p) for p in cut_off]
    assert tf.train.latest_checkpoint(two).endswith("model.ckpt-1")
    resumed = start_workers(folder, two, *settings)
    assert wait(resumed) == [0, 0], [text(process) for process in resumed]
    for worker in resumed:
        assert f"2 replicas, float32, resumed from {two}/model.ckpt-1" in text(worker)
    return one, two


def test_rows_of_a_step_differ_in_masked_pieces(folder):
    rows = read_record_set([str(folder / "rows.tfrecord")], {})
    one = tf.distribute.InputContext(1, 0, 1)
    stream = batches.training_batches(rows, 2, 12345, 0, one).take(STEPS)
    counts = [batch["masked_lm_weights"].numpy().sum(axis=1) for batch in stream]
    assert sum(set(pair) == {1, PREDICTIONS} for pair in counts) >= STEPS // 4


def test_two_workers_train_as_one(runs):
    one, two = map(losses_by_step, runs)
    assert len(one) == STEPS and one.keys() == two.keys()
    for step, expected in one.items():
        assert two[step] == pytest.approx(expected, rel=1e-5), step
    expected, found = map(weights, runs)
    assert expected.keys() == found.keys() and len(found) > 20
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-3, atol=1e-5)


def train_two_replicas(folder, output_dir):
    """The run of `runs` as two replicas of this process, which TensorFlow starts in."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    two = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(cpu, two)
    job = make_job(
        read_record_set([str(folder / "rows.tfrecord")], {}),
        output_dir,
        STEPS,
        model_config=AlbertConfig.from_json(folder / "tiny.json"),
        train_batch_size=2,
        iterations_per_loop=1,
    )
    run(job, two_devices())


def test_two_workers_are_two_replicas_of_one_bit_for_bit(folder, runs):
    replicas = folder / "replicas"
    # A process of its own, as the workers are: TensorFlow of a process that ran other
    # tests may round otherwise.
    process = multiprocessing.get_context("spawn").Process(
        target=train_two_replicas, args=(folder, replicas)
    )
    process.start()
    process.join(PATIENCE)
    assert process.exitcode == 0
    assert losses_by_step(replicas) == losses_by_step(runs[1])
    expected, found = weights(replicas), weights(runs[1])
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_two_workers_count_each_evaluation_row_once(runs):
    expected, found = [json.loads((run / "results.json").read_text()) for run in runs]
    assert found["eval_rows"] == expected["eval_rows"] == 23
    for name in ("masked_lm_accuracy", "masked_lm_loss", "sentence_order_loss"):
        assert found[name] == pytest.approx(expected[name], rel=1e-4)


def test_only_the_chief_writes(runs):
    """The same files as of one process, and events of one process a run."""
    names = [
        {p.name for p in run.iterdir() if not p.name.startswith("model.ckpt-")}
        for run in runs
    ]
    assert names[0] == names[1]
    assert [len(list((run / "train").iterdir())) for run in runs] == [1, 2]


def test_a_worker_that_is_told_to_stop_stops_all_and_one_that_dies_too(folder):
    endless = ("--num_train_steps=1000000", "--iterations_per_loop=20")
    output = folder / "stopped"
    workers = start_workers(folder, output, *endless)
    wait_for_step(workers[0], output, 40)
    workers[1].send_signal(signal.SIGTERM)
    assert wait(workers) == [0, 0], [text(worker) for worker in workers]
    results = json.loads((output / "results.json").read_text())
    assert results["status"] == "pre-empted"
    assert (output / f"model.ckpt-{results['global_step']}.index").is_file()

    workers = start_workers(folder, output, *endless)
    wait_for_step(workers[0], output, results["global_step"] + 16)
    workers[1].kill()
    assert wait(workers, patience=60) == [1, -signal.SIGKILL], text(workers[0])
    errors = [line for line in text(workers[0]).splitlines() if "ERROR" in line]
    assert len(errors) == 1
    assert "ERROR: Lost worker 1 of TF_CONFIG (" in errors[0]
    assert "Traceback" not in text(workers[0])
