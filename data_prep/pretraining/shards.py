"""Makes shuffled record files of a tokenized text, with several processes.

Rows are made of blocks of text, each used once for every duplicate. A random but even
deal assigns (block, duplicate) pairs to shards, so a shard depends on the text, the
configuration and its own number only: any machine makes the same bytes. A shard is made
in three stages (`_Shard`) of calls that several processes share (`shuffle.py`).
"""

import contextlib
import secrets
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from albert_tf.files import partial_file
from albert_tf.locks import exclusive
from albert_tf.storage import AnyPath, as_path
from data_prep.corpus.files import map_files
from data_prep.corpus.statistics import Statistics
from data_prep.corpus.tokenized_corpus import (
    TokenizedText,
    cut_blocks,
    load_offsets,
)
from data_prep.corpus.work_folder import remove_folder
from data_prep.parallel import Call, Executor
from data_prep.pretraining.config import ASSIGNMENT, PretrainingDataConfig
from data_prep.pretraining.output_files import Outputs
from data_prep.pretraining.shuffle import (
    RowBlock,
    RowMaker,
    Run,
    gather_shard,
    make_run,
    publish_shard,
    write_bucket,
)

# Rows of a block: enough for numpy to work on many at once, and few enough to stay in
# the processor's caches.
_ROWS_PER_BLOCK = 128
# Blocks whose rows a process holds at once, and the wanted number of runs in a shard,
# which several processes can share.
_BLOCKS_PER_RUN = 32
_RUNS_PER_SHARD = 16
# Rows that are put into random order at once.
_ROWS_PER_BUCKET = 4096


@dataclass(frozen=True)
class RowPlan:
    """The assignment of blocks and duplicates to shards.

    Attributes:
      blocks: int64 [B, 3], segment and half-open range of its sentences.
      rows_per_block: rows that a block fills at most, about.
      dealt: int64 [B * dupe_factor], pairs of a block and a duplicate in random order.
      shards: number of files.
      dupe_factor: duplicates of each block.
    """

    blocks: np.ndarray
    rows_per_block: int
    dealt: np.ndarray
    shards: int
    dupe_factor: int

    def row_blocks(self, shard: int) -> list[RowBlock]:
        """Returns the blocks of a shard in text order: each segment is read once."""
        pairs = np.sort(self.dealt[shard :: self.shards])
        numbers, duplicates = np.divmod(pairs, self.dupe_factor)
        return [
            RowBlock(segment, first, end, number, duplicate)
            for (segment, first, end), number, duplicate in zip(
                self.blocks[numbers].tolist(),
                numbers.tolist(),
                duplicates.tolist(),
                strict=True,
            )
        ]


def plan_rows(
    text: TokenizedText, config: PretrainingDataConfig, shards: int
) -> RowPlan:
    """Cuts the text into blocks and deals them to shards.

    Raises:
      ValueError: the text is too short to give each file a row, or has only one
        document although pairs of two are asked for.
    """
    if config.pair_objective == "nsp" and text.statistics.documents < 2:
        raise ValueError(
            "pair_objective=nsp pairs text of two documents, but the input is one: "
            "give more text, or use sop or none."
        )
    rows_per_block = choose_block_size(int(text.tokens.sum()), config, shards)
    paths = [text.path(segment) for segment in range(len(text.names))]
    blocks = [
        (segment, first, end)
        for segment, offsets in enumerate(map_files(load_offsets, paths, paths))
        for first, end in cut_row_blocks(*offsets, config, rows_per_block)
    ]
    pairs = len(blocks) * config.dupe_factor
    if pairs < shards:
        raise ValueError(
            f"The text is too short for {shards} output files: name at most {pairs}."
        )
    dealt = config.rng(ASSIGNMENT).permutation(pairs)
    return RowPlan(np.array(blocks), rows_per_block, dealt, shards, config.dupe_factor)


def choose_block_size(tokens: int, config: PretrainingDataConfig, shards: int) -> int:
    """Chooses the rows of a block: fewer for a short text, so that each shard has some.

    Args:
      tokens: of the whole text.
      config: lengths and duplicates.
      shards: number of files.
    """
    rows_per_shard = tokens * config.dupe_factor // config.max_text_tokens // shards
    return min(_ROWS_PER_BLOCK, max(1, rows_per_shard // 2))


def cut_row_blocks(
    sentence_offsets: np.ndarray,
    document_offsets: np.ndarray,
    config: PretrainingDataConfig,
    rows_per_block: int,
) -> list[tuple[int, int]]:
    """Cuts a corpus into blocks of so many rows; see `cut_blocks`.

    A short document takes a part of a packed row.
    """
    parts = config.documents_per_row
    tokens_per_part = max(1, config.max_text_tokens // parts)
    offsets = sentence_offsets, document_offsets
    return cut_blocks(*offsets, tokens_per_part, rows_per_block * parts)


def make_shards(
    maker: RowMaker,
    plan: RowPlan,
    outputs: Outputs,
    numbers: Iterable[int],
    workers: Executor,
    progress: Callable[[int], object],
    metadata: Mapping[str, Any],
) -> None:
    """Makes shards in order, several at a time if workers would be idle otherwise.

    Args:
      maker, plan, outputs: of all shards.
      numbers: of the shards to make.
      workers: the processes that make them.
      progress: called with the number of blocks of which rows were made.
      metadata: for all sidecars.
    Raises:
      ValueError: a shard has no row.
      OSError: a file cannot be written.
    """
    workers.share(maker)
    waiting = iter(numbers)
    in_work: set[_Shard] = set()
    ready: deque[Call] = deque()

    def prepare(shard: _Shard) -> None:
        if calls := shard.next_stage():
            # In front, so that a shard in work is finished before the next one.
            ready.extendleft(reversed(calls))
        else:
            in_work.remove(shard)
            shard.close()

    def next_call() -> Call | None:
        if not ready and (number := next(waiting, None)) is not None:
            path = outputs.paths[number]
            place = _work_place(maker.text.folder, path, number, workers.is_remote)
            shard = _Shard(plan, number, path, place, metadata)
            in_work.add(shard)
            prepare(shard)
        return ready.popleft() if ready else None

    def done(call: Call, result: Any) -> None:
        shard, index, blocks = call.note
        progress(blocks)
        if shard.is_stage_done(index, result):
            prepare(shard)

    try:
        workers.run(next_call, done)
    finally:
        for shard in in_work:
            shard.close()


class _Shard:
    """A shard in work: three stages, each of calls that may be done in any order.

    1. Runs: each call makes the rows of some blocks.
    2. Buckets: each call puts a bucket's rows of all runs in random order.
    3. Publication: a call renames the file and writes its sidecar.
    """

    def __init__(
        self,
        plan: RowPlan,
        number: int,
        path: str,
        place: contextlib.AbstractContextManager["_WorkPlace"],
        metadata: Mapping[str, Any],
    ):
        """Makes the places of the shard's temporary files.

        Args:
          plan: assigns blocks to the shard.
          number: of the shard.
          path: the record file to make.
          place: of `_work_place`.
          metadata: for the sidecar.
        Raises:
          OSError: another process makes the shard, or its disk is full.
        """
        self._plan, self._number, self._path = plan, number, path
        self._metadata = metadata
        self._statistics = Statistics()
        self._stages = iter((self._runs, self._buckets, self._publication))
        self._results: list[Any] = []
        self._missing = 0
        self._buckets_made = 0
        self._cleaning = contextlib.ExitStack()
        self._place = self._cleaning.enter_context(place)

    def close(self) -> None:
        """Removes temporary files."""
        self._cleaning.close()

    def next_stage(self) -> list[Call]:
        """Begins the next stage.

        Returns:
          Its calls, with (shard, index, blocks made) as notes; none after the last.
        Raises:
          OSError: another process makes the shard since.
        """
        self._place.check()
        stage = next(self._stages, None)
        calls = stage() if stage else []
        self._results, self._missing = [None] * len(calls), len(calls)
        return [
            call._replace(note=(self, index, call.note or 0))
            for index, call in enumerate(calls)
        ]

    def is_stage_done(self, index: int, result: Any) -> bool:
        """Keeps the result of a call; tells whether all of its stage are done."""
        self._results[index] = result
        self._missing -= 1
        return not self._missing

    def _runs(self) -> list[Call]:
        row_blocks = self._plan.row_blocks(self._number)
        buckets = -(-len(row_blocks) * self._plan.rows_per_block // _ROWS_PER_BUCKET)
        size = min(max(len(row_blocks) // _RUNS_PER_SHARD, 1), _BLOCKS_PER_RUN)
        starts = range(0, len(row_blocks), size)
        batches = [row_blocks[start : start + size] for start in starts]
        return [
            Call(make_run, (self._place.run(i), batch, buckets), len(batch))
            for i, batch in enumerate(batches)
        ]

    def _buckets(self) -> list[Call]:
        runs: list[Run] = self._results
        for run in runs:
            self._statistics.merge(run.statistics)
        if not self._statistics.rows:
            raise ValueError(
                f"No row for {self._path}: every document is a single word or there "
                "are more files than rows. Give longer text or fewer files."
            )
        calls, offset = [], 0
        buckets = zip(*(run.slices for run in runs), strict=True)
        for bucket, slices in enumerate(buckets):
            place = self._place.bucket(bucket, offset)
            calls.append(Call(write_bucket, (slices, *place, (self._number, bucket))))
            offset += sum(part.end - part.begin for part in slices)
        self._buckets_made = len(calls)
        return calls

    def _publication(self) -> list[Call]:
        sidecar = {
            **self._metadata,
            "shard": self._number,
            "statistics": self._statistics.nonzero(),
        }
        arguments = self._path, self._statistics.rows, sidecar
        if self._place.partial:
            return [Call(publish_shard, (self._place.partial, *arguments))]
        buckets = [self._place.bucket(i, 0)[0] for i in range(self._buckets_made)]
        return [Call(gather_shard, (buckets, *arguments))]


@dataclass(frozen=True)
class _WorkPlace:
    """The temporary files of a shard.

    Attributes:
      folder: the files of its runs.
      partial: a local file that all calls can write, which becomes the shard; empty:
        each bucket gets a file of its own in `folder`.
      check: raises OSError if another process makes the shard since.
    """

    folder: AnyPath
    partial: str
    check: Callable[[], None]

    def run(self, number: int) -> str:
        """Returns the file of a run."""
        return str(self.folder / f"{number:05d}")

    def bucket(self, number: int, offset: int) -> tuple[str, int | None]:
        """Returns the file of a bucket, and its place in it."""
        if self.partial:
            return self.partial, offset
        return str(self.folder / f"bucket-{number:05d}"), None


@contextlib.contextmanager
def _work_place(
    text_folder: str, path: str, number: int, is_remote: bool
) -> Iterator[_WorkPlace]:
    """Yields the places of a shard's temporary files, and removes these at the end.

    Args:
      text_folder: folder of the tokenized text.
      path: the shard's.
      number: the shard's.
      is_remote: True if calls are carried out on other machines.
    """
    parent, name = as_path(text_folder), f"rows-{number:05d}"
    lock = parent / f"{name}.lock"
    with exclusive(lock, f"making {path}", announce=False) as check:
        if isinstance(parent, Path):
            # Left by a killed run. Its names are not used again, since one of its
            # workers may still be about to write.
            for left in parent.glob(f"{name}-*"):
                remove_folder(left)
        folder = parent / f"{name}-{secrets.token_hex(4)}"
        if isinstance(folder, Path):
            folder.mkdir()
        try:
            if is_remote:
                yield _WorkPlace(folder, "", check)
            else:
                with partial_file(path) as file:
                    yield _WorkPlace(folder, file.name, check)
        finally:
            remove_folder(folder)
