"""Measures how fast workers read training rows, and how soon the first batch comes.

    python run_scripts/benchmark.py input --benchmark_rows=500000 --work_dir=input_rows

It makes a set of rows of 512 tokens, about 1.6 GB, in --work_dir, where it is used
again, or in a temporary folder. One worker of 1, of 8 and of 64 is measured: its own
rows a second, those of all workers if all are as fast, and the seconds to its first
batch at step 0 and near the end of an epoch. The order of earlier releases, in which
every worker reads all rows, stands beside it.
"""

import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from absl import flags

from albert_tf.config import TrainConfig
from albert_tf.files import make_folder, partial_file
from albert_tf.records import batches
from albert_tf.records.encoding import frame_rows
from albert_tf.records.features import pretraining_features
from albert_tf.records.sidecar import RecordSet, read_record_set, sidecar_path
from albert_tf.records.writer import publish_records
from flags import fields, performance_flags

FLAGS = flags.FLAGS

ORDERS, WORKERS = ("lanes", "window"), (1, 8, 64)
_LENGTHS = {"max_seq_length": 512, "max_predictions_per_seq": 20}
_VOCAB_SIZE = 30_000
_FILES = 8
# Rows that differ; the files repeat them.
_DISTINCT_ROWS = 256
_SEED = 12345
# Starts of a stream that are timed, in turns.
_STARTS = 3


def define_flags() -> None:
    """Defines the flags."""
    performance_flags.define_input_benchmark_flags()
    fields.define(TrainConfig, "train_batch_size")


def main() -> None:
    """Makes the set, measures, and prints the table and JSON values."""
    wrong = [count for count in WORKERS if FLAGS.train_batch_size % count]
    if wrong:
        raise flags.Error(
            f"--train_batch_size must be a multiple of {max(WORKERS)}, the number of "
            f"workers. Received {FLAGS.train_batch_size}."
        )
    with tempfile.TemporaryDirectory() as temporary:
        rows = make_set(Path(FLAGS.work_dir or temporary), FLAGS.benchmark_rows)
        summary = measure(rows, FLAGS.train_batch_size, FLAGS.benchmark_seconds)
    print(table(summary))
    print(json.dumps(summary))


def make_set(folder: Path, count: int) -> RecordSet:
    """Returns a set of pretraining rows, made now or in an earlier call.

    Args:
      folder: the folder of its files; made if missing.
      count: number of rows.
    """
    make_folder(folder)
    features = pretraining_features(*_LENGTHS.values())
    rng = np.random.default_rng(_SEED)
    columns = {
        name: rng.integers(0, 2, (_DISTINCT_ROWS, *feature.shape)).astype(feature.dtype)
        for name, feature in features.items()
    }
    for name in ("input_ids", "masked_lm_ids"):
        columns[name] = rng.integers(0, _VOCAB_SIZE, columns[name].shape)
    frames, offsets = frame_rows(columns, features)
    block, paths = frames.tobytes(), []
    edges = np.linspace(0, count, _FILES + 1).astype(int)
    for number, size in enumerate(np.diff(edges).tolist()):
        path = folder / f"input-{count}.tfrecord-{number:05d}-of-{_FILES:05d}"
        paths.append(str(path))
        if path.is_file() and sidecar_path(path).is_file():
            continue
        with partial_file(path) as file:
            blocks, rest = divmod(size, _DISTINCT_ROWS)
            for _ in range(blocks):
                file.write(block)
            file.write(block[: offsets[rest]])
            file.flush()
            metadata = {**_LENGTHS, "vocab_size": _VOCAB_SIZE}
            publish_records(file.name, path, size, features, metadata)
    return read_record_set(paths, _LENGTHS)


class Stream(NamedTuple):
    """The batches of one worker.

    Attributes:
      rows: the set.
      batch_size: rows of a global batch.
      order: of rows, as `TrainConfig.row_order`.
      workers: number of workers.
    """

    rows: RecordSet
    batch_size: int
    order: str
    workers: int

    def open(self, first_step: int) -> Any:
        """Returns an iterator over the batches of worker 3, or of the only one."""
        context = tf.distribute.InputContext(
            self.workers, min(3, self.workers - 1), self.workers
        )
        return iter(
            batches.training_batches(
                self.rows,
                self.batch_size,
                _SEED,
                first_step,
                context,
                order=self.order,
            )
        )

    def seconds_to_first(self, first_step: int) -> float:
        """Seconds until the first batch is there, from the sidecars on."""
        began = time.perf_counter()
        next(self.open(first_step))
        return time.perf_counter() - began

    def own_rows_per_second(self, seconds: float) -> float:
        """Rows of the worker's own that it reads in a second, after its first batch."""
        batches_of_worker = self.open(0)
        next(batches_of_worker)
        began, steps, elapsed = time.perf_counter(), 0, 0.0
        while not steps or elapsed < seconds:
            next(batches_of_worker)
            steps += 1
            elapsed = time.perf_counter() - began
        return steps * self.batch_size / self.workers / elapsed


def measure(rows: RecordSet, batch_size: int, seconds: float) -> dict[str, Any]:
    """Measures one worker of runs of several sizes.

    Args:
      rows: the set.
      batch_size: rows of a global batch.
      seconds: time for which each worker reads.
    Returns:
      JSON values.
    """
    last_step = max(0, rows.total_rows // batch_size - 2)
    found = []
    for order in ORDERS:
        for workers in WORKERS:
            stream = Stream(rows, batch_size, order, workers)
            own = stream.own_rows_per_second(seconds)
            starts = [
                (stream.seconds_to_first(0), stream.seconds_to_first(last_step))
                for _ in range(_STARTS)
            ]
            first, late = map(statistics.median, zip(*starts, strict=True))
            found.append(
                {
                    "order": order,
                    "workers": workers,
                    "own_rows_per_second": own,
                    "global_rows_per_second": own * workers,
                    "seconds_to_first_batch": first,
                    "seconds_to_first_batch_late": late,
                }
            )
    return {
        "rows": rows.total_rows,
        "files": len(rows.paths),
        "batch_size": batch_size,
        "late_step": last_step,
        "streams": found,
    }


def table(summary: dict[str, Any]) -> str:
    """The numbers as text."""
    lines = [
        f"{summary['rows']:,} rows of 512 tokens in {summary['files']} files, batches "
        f"of {summary['batch_size']:,}",
        f"{'':<18}{'rows a second':>30}{'seconds to first batch':>26}",
        f"{'order':<8}{'workers':>10}{'own':>15}{'of all':>15}{'step 0':>13}"
        f"{'step ' + format(summary['late_step'], ','):>13}",
    ]
    lines += [
        f"{row['order']:<8}{row['workers']:>10}{row['own_rows_per_second']:>15,.0f}"
        f"{row['global_rows_per_second']:>15,.0f}{row['seconds_to_first_batch']:>13.2f}"
        f"{row['seconds_to_first_batch_late']:>13.2f}"
        for row in summary["streams"]
    ]
    return "\n".join(lines)
