"""The work on one shard of records: makes runs of rows and shuffles them.

A shard may be larger than memory, so its rows are shuffled in two steps, each of which
holds a few thousand rows. `make_run` draws a bucket for each row and writes the rows
grouped by bucket. `write_bucket` gathers a bucket's rows from all runs and writes them
in random order to their place in the shard's file. All orders of the rows are equally
likely.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from upath import UPath

from albert_tf.files import make_folder, partial_file, write_shared, writing
from albert_tf.records.encoding import frame_rows, split_frames
from albert_tf.records.features import Strings
from albert_tf.records.writer import publish_records
from albert_tf.storage import as_path
from data_prep.corpus.files import map_files
from data_prep.corpus.segmenter import RowTokenizer
from data_prep.corpus.statistics import Statistics
from data_prep.corpus.tokenized_corpus import TokenizedCorpus, TokenizedText
from data_prep.pretraining.config import ROWS, SHUFFLE, PretrainingDataConfig
from data_prep.pretraining.pairs import OtherDocuments
from data_prep.pretraining.rows import make_rows


class RowBlock(NamedTuple):
    """A block of text to make rows of, and the key of its random generator.

    Attributes:
      segment: number of the segment of the text.
      first, end: half-open range of sentences of the segment.
      block: number of the block in the whole text.
      duplicate: number of the duplicate, from 0.
    """

    segment: int
    first: int
    end: int
    block: int
    duplicate: int


class Slice(NamedTuple):
    """A half-open range of bytes of a file."""

    path: str
    begin: int
    end: int


@dataclass(frozen=True)
class RowMaker:
    """Values that a process needs to make rows."""

    tokenizer: RowTokenizer
    config: PretrainingDataConfig
    text: TokenizedText


@dataclass(frozen=True)
class Run:
    """Rows of some blocks in a file, grouped by bucket.

    Attributes:
      slices: the bytes of each bucket's rows.
      statistics: of the rows.
    """

    slices: list[Slice]
    statistics: Statistics


def make_run(
    maker: RowMaker, path: str, blocks: Sequence[RowBlock], buckets: int
) -> Run:
    """Makes the rows of blocks and writes them to `path`, grouped by bucket.

    Args:
      maker: shared by all calls.
      path: a new file.
      blocks: in text order.
      buckets: number of buckets to draw from.
    Raises:
      OSError: the file cannot be written.
    """
    statistics = Statistics()
    frames: list[memoryview] = []
    chosen: list[np.ndarray] = []
    segment, corpus = -1, None
    for block in blocks:
        if corpus is None or block.segment != segment:
            segment, corpus = block.segment, maker.text.load(block.segment)
        rng = maker.config.rng(ROWS, block.block, block.duplicate)
        columns = block_rows(maker, corpus, block, rng, statistics)
        content, offsets = frame_rows(columns, maker.config.features)
        view, bounds = content.data, offsets.tolist()
        frames.extend(view[begin:end] for begin, end in itertools.pairwise(bounds))
        chosen.append(rng.integers(buckets, size=len(offsets) - 1))
    bucket_of_row = np.concatenate(chosen)
    order = np.argsort(bucket_of_row, kind="stable")
    write_shared(path, b"".join([frames[row] for row in order.tolist()]))
    sizes = np.array([len(frame) for frame in frames], np.int64)
    bytes_per_bucket = np.bincount(bucket_of_row, sizes, buckets).astype(np.int64)
    ends = np.cumsum(bytes_per_bucket)
    slices = [
        Slice(path, begin, end)
        for begin, end in zip(
            (ends - bytes_per_bucket).tolist(), ends.tolist(), strict=True
        )
    ]
    return Run(slices, statistics)


def block_rows(
    maker: RowMaker,
    corpus: TokenizedCorpus,
    block: RowBlock,
    rng: np.random.Generator,
    statistics: Statistics,
) -> dict[str, np.ndarray | Strings]:
    """Makes the rows of a block of a segment; see `rows.make_rows`."""
    others = None
    if maker.config.pair_objective == "nsp":
        # The number of the document that holds the block's first sentence.
        place = np.searchsorted(corpus.document_offsets, block.first, side="right") - 1
        others = OtherDocuments(
            maker.text,
            int(maker.text.first_documents[block.segment] + place),
            maker.tokenizer.word_start_table,
            rng,
        )
    text = corpus.block(block.first, block.end)
    return make_rows(text, maker.tokenizer, maker.config, rng, statistics, others)


def write_bucket(
    maker: RowMaker,
    slices: Sequence[Slice],
    path: str,
    offset: int | None,
    key: tuple[int, int],
) -> None:
    """Writes a bucket's rows in random order to its place in a shard's file.

    Args:
      maker: shared by all calls; gives the random generator.
      slices: the bytes of the rows, in runs.
      path: a local file that exists.
      offset: first byte of the bucket in that file. None: the bucket gets a file of its
        own, in the place of `path`.
      key: numbers of the shard and the bucket.
    Raises:
      OSError: the file cannot be written.
    """
    parts = map_files(_read_slice, slices, [part.path for part in slices])
    frames = split_frames(b"".join(parts))
    order = maker.config.rng(SHUFFLE, *key).permutation(len(frames))
    content = b"".join([frames[row] for row in order.tolist()])
    if offset is None:
        write_shared(path, content)
        return
    with writing(path), open(path, "r+b") as file:
        file.seek(offset)
        file.write(content)


def _read_slice(part: Slice) -> bytes:
    path = as_path(part.path)
    if part.begin == part.end:
        return b""
    if isinstance(path, UPath):
        return path.fs.cat_file(path.path, start=part.begin, end=part.end)
    with path.open("rb") as file:
        file.seek(part.begin)
        return file.read(part.end - part.begin)


def publish_shard(
    maker: RowMaker, partial: str, path: str, rows: int, metadata: Mapping[str, Any]
) -> None:
    """Renames the finished file of a shard and writes its sidecar."""
    make_folder(as_path(path).parent)
    publish_records(partial, path, rows, maker.config.features, metadata)


def gather_shard(
    maker: RowMaker,
    buckets: Sequence[str],
    path: str,
    rows: int,
    metadata: Mapping[str, Any],
) -> None:
    """Joins the files of a shard's buckets, and publishes the shard."""
    make_folder(as_path(path).parent)
    with partial_file(path) as file:
        for bucket in buckets:
            content = as_path(bucket).read_bytes()
            with writing(path):
                file.write(content)
        with writing(path):
            file.flush()
        publish_records(file.name, path, rows, maker.config.features, metadata)
