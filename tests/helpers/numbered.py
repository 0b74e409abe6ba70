"""Sets whose rows are their own numbers, for tests of the order of rows."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from albert_tf.records import batches
from albert_tf.records.features import Feature
from albert_tf.records.sidecar import RecordSet, read_record_set, sidecar_path
from albert_tf.records.writer import write_records

ONE = tf.distribute.InputContext(1, 0, 1)


def numbered_set(folder: Path, rows_per_file: Sequence[int]) -> RecordSet:
    """Writes the rows 0, 1, 2, ... to files; rows differ in size."""
    folder.mkdir(exist_ok=True)
    starts = [0, *itertools.accumulate(rows_per_file)]
    paths = []
    for index, (begin, end) in enumerate(itertools.pairwise(starts)):
        path = folder / f"{index:03d}.tfrecord"
        rows = ({"number": number} for number in range(begin, end))
        write_records(path, rows, {"number": Feature(())}, {})
        paths.append(str(path))
    return read_record_set(paths, {})


def read_again(rows: RecordSet) -> RecordSet:
    """The set as its files are now."""
    return read_record_set(rows.paths, {})


def change_sidecar(path: str | Path, **changes: object) -> None:
    """Replaces values of a file's sidecar; those of None are removed."""
    sidecar = sidecar_path(path)
    values = {**json.loads(sidecar.read_text()), **changes}
    kept = {name: value for name, value in values.items() if value is not None}
    sidecar.write_text(json.dumps(kept))


def training(
    rows: RecordSet,
    size: int,
    steps: int,
    first_step: int = 0,
    seed: int = 5,
    context: tf.distribute.InputContext = ONE,
    order: str = "",
) -> np.ndarray:
    """Numbers of the rows of some batches of a replica, [steps, rows]."""
    stream = batches.training_batches(
        rows, size, seed, first_step, context, order=order
    )
    found = [batch["number"] for batch in stream.take(steps).as_numpy_iterator()]
    return np.array(found)


def evaluation(
    rows: RecordSet,
    size: int,
    context: tf.distribute.InputContext = ONE,
    sample: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Numbers and weights of the rows of all batches of a replica, [steps, rows]."""
    stream = batches.evaluation_batches(rows, size, context, sample=sample)
    found = [*stream.as_numpy_iterator()]
    return tuple(
        np.array([batch[name] for batch in found]) for name in ("number", "row_weight")
    )


def contexts(workers: int, per_worker: int) -> list[tf.distribute.InputContext]:
    """The contexts that tf.distribute gives to the workers of a strategy."""
    replicas = workers * per_worker
    return [tf.distribute.InputContext(workers, w, replicas) for w in range(workers)]


def together(parts: Sequence[np.ndarray], per_worker: int) -> np.ndarray:
    """Global batches [steps, B] from each worker's per-replica values."""
    shape = len(parts[0]) // per_worker, -1
    return np.concatenate([part.reshape(shape) for part in parts], axis=1)
