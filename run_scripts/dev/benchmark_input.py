"""Measures how fast workers read training rows, and how soon the first batch comes.

    python run_scripts/benchmark.py input --benchmark_rows=500000 --work_dir=input_rows

It makes a set of rows of 512 tokens, about 1.6 GB, in --work_dir, where it is used
again, or in a temporary folder. One worker of 1, of 8 and of 64 is measured: its own
rows a second, those of all workers if all are as fast, and the seconds to its first
batch at step 0 and near the end of an epoch. The order of earlier releases, in which
every worker reads all rows, stands beside it, and so do rows without masks, which are
masked when they are read.
"""

import dataclasses
import json
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from absl import flags

from albert_tf.config import TrainConfig
from albert_tf.files import make_folder, partial_file
from albert_tf.records import batches
from albert_tf.records.compact import format_metadata, pack_compact
from albert_tf.records.encoding import frame_rows
from albert_tf.records.features import (
    Features,
    Strings,
    compact_features,
    pretraining_features,
)
from albert_tf.records.masking_config import ReadTimeMasks
from albert_tf.records.sidecar import RecordSet, read_record_set, sidecar_path
from albert_tf.records.writer import publish_records
from flags import fields, performance_flags

FLAGS = flags.FLAGS

# What is read: rows with masks, in two orders, and rows that are masked when read.
KINDS, WORKERS = ("lanes", "window", "masks"), (1, 8, 64)
_LENGTHS = {"max_seq_length": 512, "max_predictions_per_seq": 20}
_VOCAB_SIZE = 30_000
_FILES = 8
# Rows that differ; the files repeat them.
_DISTINCT_ROWS = 256
_SEED = 12345
# Share of tokens that start a word, about that of English.
_WORD_STARTS = 0.75
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
        folder = Path(FLAGS.work_dir or temporary)
        static = make_set(folder, FLAGS.benchmark_rows)
        sets = {"masks": make_set(folder, FLAGS.benchmark_rows, with_masks=False)}
        sets |= {"lanes": static, "window": static}
        summary = measure(sets, FLAGS.train_batch_size, FLAGS.benchmark_seconds)
    print(table(summary))
    print(json.dumps(summary))


def make_set(folder: Path, count: int, with_masks: bool = True) -> RecordSet:
    """Returns a set of pretraining rows, made now or in an earlier call.

    Args:
      folder: the folder of its files; made if missing.
      count: number of rows.
      with_masks: False: compact rows, masked as by default when they are read.
    """
    make_folder(folder)
    make = _static_columns if with_masks else _compact_columns
    columns, features, metadata = make(np.random.default_rng(_SEED))
    frames, offsets = frame_rows(columns, features)
    block, paths = frames.tobytes(), []
    edges = np.linspace(0, count, _FILES + 1).astype(int)
    name = "input" if with_masks else "compact"
    for number, size in enumerate(np.diff(edges).tolist()):
        path = folder / f"{name}-{count}.tfrecord-{number:05d}-of-{_FILES:05d}"
        paths.append(str(path))
        if path.is_file() and sidecar_path(path).is_file():
            continue
        with partial_file(path) as file:
            blocks, rest = divmod(size, _DISTINCT_ROWS)
            for _ in range(blocks):
                file.write(block)
            file.write(block[: offsets[rest]])
            file.flush()
            metadata = {"vocab_size": _VOCAB_SIZE, **metadata}
            publish_records(file.name, path, size, features, metadata)
    rows = read_record_set(paths, {"max_seq_length": _LENGTHS["max_seq_length"]})
    if with_masks:
        return rows
    masks = ReadTimeMasks.for_length(_LENGTHS["max_seq_length"])
    return dataclasses.replace(rows, masks=masks)


_Columns = tuple[Mapping[str, np.ndarray | Strings], Features, dict[str, Any]]


def _static_columns(rng: np.random.Generator) -> _Columns:
    """Returns the values of rows with masks, their features, and their sidecar."""
    features = pretraining_features(*_LENGTHS.values())
    columns = {
        name: rng.integers(0, 2, (_DISTINCT_ROWS, *feature.shape)).astype(feature.dtype)
        for name, feature in features.items()
    }
    for name in ("input_ids", "masked_lm_ids"):
        columns[name] = rng.integers(0, _VOCAB_SIZE, columns[name].shape)
    return columns, features, dict(_LENGTHS)


def _compact_columns(rng: np.random.Generator) -> _Columns:
    """Returns the values of full rows without masks, as `_static_columns`."""
    tokens = _LENGTHS["max_seq_length"] - 3
    begins = np.arange(_DISTINCT_ROWS) * tokens
    middle = begins + rng.integers(1, tokens, _DISTINCT_ROWS)
    size = _DISTINCT_ROWS * tokens
    columns = pack_compact(
        rng.integers(5, _VOCAB_SIZE, size),
        rng.random(size) < _WORD_STARTS,
        np.stack([begins, middle], axis=1),
        np.stack([middle, begins + tokens], axis=1),
        _VOCAB_SIZE,
    )
    special = {"pad_id": 0, "cls_id": 2, "sep_id": 3, "mask_id": 4}
    metadata = format_metadata(_VOCAB_SIZE, np.arange(5, _VOCAB_SIZE), special)
    labels = np.zeros((_DISTINCT_ROWS, 1), np.int64)
    return (
        {**columns, "next_sentence_labels": labels},
        compact_features(),
        {**metadata, "max_seq_length": tokens + 3, "pair_objective": "sop"},
    )


class Stream(NamedTuple):
    """The batches of one worker.

    Attributes:
      rows: the set.
      batch_size: rows of a global batch.
      kind: of `KINDS`.
      workers: number of workers.
    """

    rows: RecordSet
    batch_size: int
    kind: str
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
                order="window" if self.kind == "window" else "lanes",
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


def measure(
    sets: Mapping[str, RecordSet], batch_size: int, seconds: float
) -> dict[str, Any]:
    """Measures one worker of runs of several sizes.

    Args:
      sets: the rows of each of `KINDS`.
      batch_size: rows of a global batch.
      seconds: time for which each worker reads.
    Returns:
      JSON values.
    """
    rows = sets[KINDS[0]]
    last_step = max(0, rows.total_rows // batch_size - 2)
    found = []
    for kind in KINDS:
        for workers in WORKERS:
            stream = Stream(sets[kind], batch_size, kind, workers)
            own = stream.own_rows_per_second(seconds)
            starts = [
                (stream.seconds_to_first(0), stream.seconds_to_first(last_step))
                for _ in range(_STARTS)
            ]
            first, late = map(statistics.median, zip(*starts, strict=True))
            found.append(
                {
                    "kind": kind,
                    "bytes_per_row": _bytes_per_row(sets[kind]),
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


def _bytes_per_row(rows: RecordSet) -> float:
    return sum(Path(path).stat().st_size for path in rows.paths) / rows.total_rows


def table(summary: dict[str, Any]) -> str:
    """The numbers as text."""
    lines = [
        f"{summary['rows']:,} rows of 512 tokens in {summary['files']} files, batches "
        f"of {summary['batch_size']:,}",
        f"{'':<18}{'rows a second':>30}{'seconds to first batch':>26}",
        f"{'kind':<8}{'workers':>10}{'own':>15}{'of all':>15}{'step 0':>13}"
        f"{'step ' + format(summary['late_step'], ','):>13}",
    ]
    lines += [
        f"{row['kind']:<8}{row['workers']:>10}{row['own_rows_per_second']:>15,.0f}"
        f"{row['global_rows_per_second']:>15,.0f}{row['seconds_to_first_batch']:>13.2f}"
        f"{row['seconds_to_first_batch_late']:>13.2f}"
        for row in summary["streams"]
    ]
    return "\n".join(lines)
