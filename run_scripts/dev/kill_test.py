"""Kills a tiny pretraining run many times and checks that it loses nothing.

One run is left alone. Another one with the same settings is killed with SIGKILL at
random moments of its start, its steps, its checkpoints and its evaluations, and is
started again each time. After each kill every checkpoint and JSON file must be
complete. In the end weights, optimizer moments and the best checkpoint of both runs
must be equal to the last bit. A kill takes some seconds, most of them TensorFlow's
start. The command is `run_scripts/kill_test.py`.
"""

import contextlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from absl import flags

from albert_tf.checkpoints.output_names import LOG_FILE
from albert_tf.config import AlbertConfig
from albert_tf.files import make_folder, read_json
from albert_tf.records.features import pretraining_features
from albert_tf.records.writer import write_records
from albert_tf.storage import check_local
from flags import common_flags, data_flags

FLAGS = flags.FLAGS

_LENGTH, _PREDICTIONS, _VOCABULARY = 16, 4, 97
_SETTINGS = {
    "max_seq_length": _LENGTH,
    "max_predictions_per_seq": _PREDICTIONS,
    "train_batch_size": 5,
    "eval_batch_size": 8,
    "learning_rate": 0.01,
    "num_warmup_steps": 7,
    # Frequent checkpoints and evaluations, so that kills come during them, too.
    "iterations_per_loop": 4,
    "save_checkpoints_steps": 8,
    "eval_steps": 12,
}
# Share of the kills that come while a run starts; the others come later.
_SHARE_AT_START = 0.25
# Steps of the run for each kill, and the most steps before it is killed: the run must
# not end before the last kill.
_STEPS_A_KILL, _STEPS_THAT_PASS = 20, 12
# A run has this in its log after each loop of steps.
_REPORT = re.compile(r"train \| step: +(\d+) \| steps/sec")
# Counters of time and of saved checkpoints are not part of the result.
_NOT_COMPARED = re.compile(r"^(train_seconds|save_counter)/|^_CHECKPOINTABLE")


def define_flags() -> None:
    """Defines the flags of the kill test."""
    flags.DEFINE_integer("kills", 20, "Number of times that the run is killed.")
    flags.DEFINE_float(
        "max_minutes", 60.0, "Give up, with exit code 1, after so many minutes."
    )
    data_flags.define_work_dir_flag(
        "New folder for the runs, which is kept. Default: a temporary folder."
    )
    common_flags.define_random_seed_flag("Draws the rows and the moments of the kills.")


def main() -> None:
    """Runs the test.

    Raises:
      ValueError: a run failed, left a damaged file, or ended with other numbers.
      TimeoutError: the test took longer than --max_minutes.
    """
    rng = np.random.default_rng(FLAGS.random_seed)
    # The logs of runs are read while they are written, which no bucket allows.
    check_local(FLAGS.work_dir)
    with contextlib.ExitStack() as stack:
        work_dir = Path(
            FLAGS.work_dir or stack.enter_context(tempfile.TemporaryDirectory())
        )
        make_folder(work_dir)
        write_inputs(work_dir, rng)
        runs = Runs(work_dir, 100 + _STEPS_A_KILL * FLAGS.kills)
        whole, killed = work_dir / "whole", work_dir / "killed"
        start_seconds, loop_seconds = runs.run(whole)
        for number in range(1, FLAGS.kills + 1):
            if rng.random() < _SHARE_AT_START:
                moment = runs.kill_start(killed, rng.uniform(0, start_seconds))
            else:
                steps = rng.integers(0, _STEPS_THAT_PASS)
                # The kill comes in a loop, or in the checkpoint or evaluation after it.
                moment = runs.kill_steps(killed, steps, rng.uniform(0, loop_seconds))
            print(f"Kill {number:2}: {moment}; {check_files(killed)}", flush=True)
        runs.run(killed)
        compared = compare(whole, killed) + compare(whole / "best", killed / "best")
    print(
        f"{FLAGS.kills} kills: {compared:,} numbers of weights, moments and the best "
        "checkpoint are equal to the last bit."
    )


class Runs:
    """Runs with the same settings, each in a process that the user's command starts."""

    def __init__(self, work_dir: Path, steps: int):
        self._work_dir, self._steps = work_dir, steps
        self._deadline = time.monotonic() + 60 * FLAGS.max_minutes

    def run(self, output_dir: Path) -> tuple[float, float]:
        """Runs to the end; returns seconds until the first steps, and of a loop."""
        began = time.monotonic()
        with self._start(output_dir) as (process, log):
            self._wait(process, log, steps=0)
            stepping = time.monotonic()
            while process.poll() is None:
                self._pause()
            if process.returncode:
                raise ValueError(f"A run has failed: {log.read_text()[-2000:]}")
        seconds = time.monotonic() - stepping
        loops = self._steps / _SETTINGS["iterations_per_loop"]
        return stepping - began, seconds / loops

    def kill_start(self, output_dir: Path, seconds: float) -> str:
        """Kills a run some seconds after its start, or at its first steps."""
        began = time.monotonic()
        with self._start(output_dir) as (process, log):
            self._wait(process, log, steps=0, seconds=seconds)
            process.kill()
        return f"{time.monotonic() - began:5.2f} s after its start"

    def kill_steps(self, output_dir: Path, steps: int, seconds: float) -> str:
        """Kills a run some seconds after a number of its steps."""
        with self._start(output_dir) as (process, log):
            self._wait(process, log, steps=steps)
            time.sleep(seconds)
            process.kill()
            done = reported_steps(log)
        return f"{seconds:5.2f} s or more after step {done[-1]}"

    @contextlib.contextmanager
    def _start(self, output_dir: Path) -> Iterator[tuple[subprocess.Popen, Path]]:
        """Starts a process; yields it and its log file, and kills it at the end."""
        settings = {**_SETTINGS, "num_train_steps": self._steps}
        command = [
            sys.executable,
            str(Path(__file__).parents[1] / "run_pretraining.py"),
            f"--input_file={self._work_dir}/train-*.tfrecord",
            f"--eval_input_file={self._work_dir}/eval.tfrecord",
            f"--albert_config_file={self._work_dir}/albert_config.json",
            f"--output_dir={output_dir}",
            "--do_eval",
            *(f"--{name}={value}" for name, value in settings.items()),
        ]
        log = output_dir.with_suffix(".log")
        with log.open("wb") as file:
            process = subprocess.Popen(command, stdout=file, stderr=file)
        try:
            yield process, log
        finally:
            process.kill()
            process.wait()

    def _wait(
        self,
        process: subprocess.Popen,
        log: Path,
        steps: int,
        seconds: float = float("inf"),
    ) -> None:
        """Waits until a run has reported a number of steps, or for some seconds."""
        end = time.monotonic() + seconds
        before = len(reported_steps(log))
        while time.monotonic() < end:
            done = reported_steps(log)[before:]
            if done and done[-1] - done[0] >= steps:
                return
            if process.poll() is not None:
                raise ValueError(f"A run has ended early: {log.read_text()[-2000:]}")
            self._pause()

    def _pause(self) -> None:
        if time.monotonic() > self._deadline:
            raise TimeoutError(
                f"Not done within --max_minutes={FLAGS.max_minutes}: allow more, or "
                "less --kills."
            )
        time.sleep(0.01)


def reported_steps(printed: Path) -> list[int]:
    """The steps that a run has reported, one for each loop, resumptions included.

    Args:
      printed: what it prints; OUTPUT_DIR.log, beside OUTPUT_DIR with the run's log.
    """
    log = printed.with_suffix("") / LOG_FILE
    if not log.is_file():
        return []
    return [int(step) for step in _REPORT.findall(log.read_text(encoding="utf-8"))]


def check_files(folder: Path) -> str:
    """Reads all files of a killed run; returns a summary.

    Raises:
      ValueError: a checkpoint or a JSON file is not complete.
    """
    import tensorflow as tf

    steps = []
    for index in sorted(folder.rglob("*.index")):
        tensors(index.with_suffix(""))
        steps.append(int(index.stem.split("-")[1]))
    latest = tf.train.latest_checkpoint(folder)
    for file in folder.rglob("*.json"):
        read_json(file)
    resumes = Path(latest).name if latest else "the start"
    return f"{len(steps)} checkpoints, all whole; resumes from {resumes}"


def tensors(checkpoint: Path | str) -> dict[str, np.ndarray]:
    """Name -> array of the part of a checkpoint that is compared.

    Raises:
      ValueError: the checkpoint is not complete.
    """
    import tensorflow as tf

    try:
        reader = tf.train.load_checkpoint(str(checkpoint))
        names = reader.get_variable_to_shape_map()
        read = {name: reader.get_tensor(name) for name in names}
    except (tf.errors.OpError, RuntimeError, ValueError) as error:
        raise ValueError(f"Checkpoint {checkpoint} is not whole: {error}") from error
    return {name: read[name] for name in read if not _NOT_COMPARED.match(name)}


def compare(expected_dir: Path, found_dir: Path) -> int:
    """Compares the latest checkpoints of two folders.

    Returns:
      How many numbers they hold.
    Raises:
      ValueError: their steps, their names or a number differ.
    """
    import tensorflow as tf

    latest = [
        tf.train.latest_checkpoint(folder) for folder in (expected_dir, found_dir)
    ]
    names = [Path(path).name for path in latest]
    expected, found = map(tensors, latest)
    if names[0] != names[1] or expected.keys() != found.keys():
        raise ValueError(f"{latest[0]} and {latest[1]} hold different names or steps.")
    for name, value in expected.items():
        if value.tobytes() != found[name].tobytes():
            raise ValueError(f"{latest[0]} and {latest[1]} differ in {name}.")
    return sum(value.size for value in expected.values())


def write_inputs(work_dir: Path, rng: np.random.Generator) -> None:
    """Writes random rows and a model with dropout; a step takes milliseconds."""
    AlbertConfig(
        vocab_size=_VOCABULARY,
        embedding_size=8,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=40,
        max_position_embeddings=_LENGTH,
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
    ).to_json(work_dir / "albert_config.json")
    metadata = {
        "max_seq_length": _LENGTH,
        "max_predictions_per_seq": _PREDICTIONS,
        "vocab_size": _VOCABULARY,
        "lower_case": True,
        "strip_accents": True,
    }
    features = pretraining_features(_LENGTH, _PREDICTIONS)
    for name, count in {"train-0": 61, "train-1": 42, "eval": 19}.items():
        rows = (random_row(rng) for _ in range(count))
        write_records(work_dir / f"{name}.tfrecord", rows, features, metadata)


def random_row(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """A pretraining row of random tokens, with the shapes of `pretraining_features`."""
    ids = rng.integers(5, _VOCABULARY, _LENGTH)
    positions = np.sort(rng.choice(_LENGTH, _PREDICTIONS, replace=False))
    return {
        "input_ids": ids,
        "input_mask": np.ones(_LENGTH, np.int64),
        "segment_ids": np.repeat([0, 1], _LENGTH // 2),
        "token_boundary": np.ones(_LENGTH, np.int64),
        "masked_lm_positions": positions,
        "masked_lm_ids": ids[positions],
        "masked_lm_weights": rng.integers(0, 2, _PREDICTIONS).astype(np.float32),
        "next_sentence_labels": rng.integers(0, 2, 1),
    }
