"""A tokenized text -> shuffled record files, made by several processes.

Rows are made of blocks of text, each once for every duplicate. A random but even deal
says which shard gets which (block, duplicate) pairs, so a shard is a function of the
text, the settings and its own number: any machine makes the same bytes. Its steps
(`runs.py`) are tasks of their own, so that one shard keeps many processes busy.
"""

import contextlib
import glob
import os
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from albert_tf.files import exclusive, partial_path, writing
from data_prep.corpus.statistics import Statistics
from data_prep.corpus.tokenize import Text
from data_prep.corpus.tokenized_corpus import cut_blocks, load_offsets
from data_prep.parallel import Task, Workers
from data_prep.pretraining.config import ASSIGNMENT, PretrainingDataConfig
from data_prep.pretraining.output_files import Outputs
from data_prep.pretraining.shuffle import (
    RowBlock,
    RowMaker,
    Run,
    make_run,
    publish_shard,
    write_bucket,
)

# Blocks of this many rows are enough for numpy to work on many at once, and few enough
# to stay in the processor's caches.
_ROWS_PER_BLOCK = 128
# Blocks whose rows a process holds at once. A shard is at least so many runs, so that
# several processes can share it.
_BLOCKS_PER_RUN = 32
_RUNS_PER_SHARD = 16
# Rows that are put into random order at once.
_ROWS_PER_BUCKET = 4096


@dataclass(frozen=True)
class RowPlan:
    """Which shard gets rows of what.

    Attributes:
      blocks: int64 [B, 3], segment and half-open range of its sentences.
      rows_per_block: a block fills about so many rows, or fewer.
      dealt: int64 [B * dupe_factor], pairs of a block and a duplicate in random order.
      shards: how many files there are.
      dupe_factor: duplicates of each block.
    """

    blocks: np.ndarray
    rows_per_block: int
    dealt: np.ndarray
    shards: int
    dupe_factor: int

    def row_blocks(self, shard: int) -> list[RowBlock]:
        """What a shard is made of, in text order, so that a segment is read once."""
        pairs = np.sort(self.dealt[shard :: self.shards])
        numbers, duplicates = np.divmod(pairs, self.dupe_factor)
        return [
            RowBlock(*block, number, duplicate)
            for block, number, duplicate in zip(
                self.blocks[numbers].tolist(),
                numbers.tolist(),
                duplicates.tolist(),
                strict=True,
            )
        ]


def plan_rows(text: Text, config: PretrainingDataConfig, shards: int) -> RowPlan:
    """Cuts the text into blocks and deals them to shards.

    Raises:
      ValueError: the text is too short to give each file a row, or has one document
        where another is needed.
    """
    if config.pair_objective == "nsp" and text.statistics.documents < 2:
        raise ValueError(
            "pair_objective=nsp pairs text of two documents, but the input is one: "
            "give more text, or use sop or none."
        )
    rows_per_block = choose_block_size(int(text.pieces.sum()), config, shards)
    blocks = [
        (segment, first, end)
        for segment in range(len(text.names))
        for first, end in cut_blocks(
            *load_offsets(text.path(segment)), config.max_text_pieces, rows_per_block
        )
    ]
    pairs = len(blocks) * config.dupe_factor
    if pairs < shards:
        raise ValueError(
            f"The text is too short for {shards} output files: name at most {pairs}."
        )
    dealt = config.rng(ASSIGNMENT).permutation(pairs)
    return RowPlan(np.array(blocks), rows_per_block, dealt, shards, config.dupe_factor)


def choose_block_size(pieces: int, config: PretrainingDataConfig, shards: int) -> int:
    """Rows that a block fills: fewer for short text, so that each file gets some."""
    rows_per_shard = pieces * config.dupe_factor // config.max_text_pieces // shards
    return min(_ROWS_PER_BLOCK, max(1, rows_per_shard // 2))


def make_shards(
    maker: RowMaker,
    plan: RowPlan,
    outputs: Outputs,
    numbers: Iterable[int],
    workers: Workers,
    progress: Callable[[int], object],
    metadata: dict,
) -> None:
    """Makes shards, in order, several at a time where workers would be idle.

    Args:
      maker, plan, outputs: of all shards.
      numbers: of the shards to make.
      workers: the processes that do it.
      progress: called with the number of blocks of which rows were made.
      metadata: for all sidecars.
    Raises:
      ValueError: a shard has no row.
      OSError: a file cannot be written.
    """
    workers.share(maker)
    ready: deque[Task] = deque()
    unfinished: set[Generator] = set()
    waiting = iter(numbers)

    def advance(steps: Generator, results: list | None) -> None:
        try:
            tasks = steps.send(results)
        except StopIteration:
            unfinished.remove(steps)
            return
        stage = _Stage(steps, [None] * len(tasks), len(tasks))
        noted = [
            task._replace(note=(stage, index, task.note))
            for index, task in enumerate(tasks)
        ]
        # To the front: a shard that is begun is finished before the next one.
        ready.extendleft(reversed(noted))

    def next_task() -> Task | None:
        if not ready and (number := next(waiting, None)) is not None:
            steps = _shard_steps(maker, plan, outputs.paths[number], number, metadata)
            unfinished.add(steps)
            advance(steps, None)
        return ready.popleft() if ready else None

    def done(task: Task, result: Any) -> None:
        stage, index, blocks = task.note
        progress(blocks)
        stage.results[index] = result
        stage.missing -= 1
        if not stage.missing:
            advance(stage.steps, stage.results)

    try:
        workers.run(next_task, done)
    finally:
        for steps in unfinished:
            steps.close()


@dataclass
class _Stage:
    """Tasks of a shard that may be done in any order, and their results so far."""

    steps: Generator
    results: list
    missing: int


def _shard_steps(
    maker: RowMaker, plan: RowPlan, path: str, number: int, metadata: dict
) -> Generator[list[Task], list, None]:
    """Yields the tasks of one stage after the other and is sent their results."""
    row_blocks = plan.row_blocks(number)
    buckets = -(-len(row_blocks) * plan.rows_per_block // _ROWS_PER_BUCKET)
    size = min(max(len(row_blocks) // _RUNS_PER_SHARD, 1), _BLOCKS_PER_RUN)
    with _work_place(maker.text.folder, path, number) as (folder, partial):
        starts = range(0, len(row_blocks), size)
        batches = [row_blocks[start : start + size] for start in starts]
        runs: list[Run] = yield [
            Task(make_run, (f"{folder}/{i:05d}", batch, buckets), len(batch))
            for i, batch in enumerate(batches)
        ]
        statistics = Statistics()
        for run in runs:
            statistics.merge(run.statistics)
        if not statistics.rows:
            raise ValueError(
                f"No row for {path}: every document is a single word or there are more "
                "files than rows. Give longer text or fewer files."
            )
        tasks, offset = [], 0
        for bucket, slices in enumerate(
            zip(*(run.slices for run in runs), strict=True)
        ):
            task = (slices, partial, offset, (number, bucket))
            tasks.append(Task(write_bucket, task, 0))
            offset += sum(part.end - part.begin for part in slices)
        yield tasks
        numbers = {k: v for k, v in statistics.as_dict().items() if v}
        sidecar = {**metadata, "shard": number, "statistics": numbers}
        yield [Task(publish_shard, (partial, path, statistics.rows, sidecar), 0)]


@contextlib.contextmanager
def _work_place(text_folder: str, path: str, number: int) -> Iterator[tuple[str, str]]:
    """A folder for a shard's runs, and a file beside its path; removed in the end."""
    runs = os.path.join(text_folder, f"rows-{number:05d}")
    partial = str(partial_path(path))
    with exclusive(f"{runs}.lock", f"making {path}"):
        # What a killed run left. Its names are not used again, since a worker of it
        # may still be about to write.
        for left in glob.glob(glob.escape(runs) + "-*"):
            shutil.rmtree(left, ignore_errors=True)
        for left in glob.glob(glob.escape(partial) + "-*"):
            os.unlink(left)
        runs = tempfile.mkdtemp(prefix=f"{os.path.basename(runs)}-", dir=text_folder)
        partial = f"{partial}-{runs.rpartition('-')[2]}"
        try:
            with writing(path), open(partial, "xb"):
                pass
            yield runs, partial
        finally:
            shutil.rmtree(runs, ignore_errors=True)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(partial)
