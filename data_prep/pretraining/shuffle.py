"""What workers do for a shard of records: runs of rows, and buckets in random order.

A shard may be larger than memory, so its rows are shuffled in two steps, each of which
holds a few thousand rows: `make_run` makes rows and writes them grouped by a bucket
drawn for each; `write_bucket` gathers a bucket's rows from all runs and writes them, in
random order, to their place in the shard's file. Any order of all rows is as likely.
"""

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from albert_tf.files import writing
from albert_tf.records.encoding import frame_rows, split_frames
from albert_tf.records.features import Features, pretraining_features
from albert_tf.records.writer import publish_records
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.corpus.segmenter import SegmentingTokenizer
from data_prep.corpus.statistics import Statistics
from data_prep.corpus.tokenize import Text
from data_prep.pretraining.config import ROWS, SHUFFLE, PretrainingDataConfig
from data_prep.pretraining.random_documents import OtherDocuments
from data_prep.pretraining.rows import make_rows


class RowBlock(NamedTuple):
    """Text of which rows are made, and the key of its random generator.

    Attributes:
      segment: of the text.
      first, end: sentences of the segment, half-open.
      block: number of the block in the whole text.
      duplicate: how often rows have been made of it before.
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
    """What a process needs to make rows; `text` may be None to make a sample."""

    tokenizer: AlbertTokenizer | SegmentingTokenizer
    config: PretrainingDataConfig
    text: Text | None

    @property
    def features(self) -> Features:
        """The spec of the rows."""
        return pretraining_features(
            self.config.max_seq_length, self.config.masking.max_predictions_per_seq
        )

    def frame(self, rows: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """`records.frame_rows`."""
        return frame_rows(rows, self.features)


@dataclass(frozen=True)
class Run:
    """Rows of some blocks in a file, grouped by bucket.

    Attributes:
      slices: where each bucket's rows are.
      statistics: of the rows.
    """

    slices: list[Slice]
    statistics: Statistics


def make_run(
    maker: RowMaker, path: str, blocks: Sequence[RowBlock], buckets: int
) -> Run:
    """Makes the rows of blocks and writes them to `path`, grouped by bucket."""
    statistics = Statistics()
    frames, chosen = [], []
    segment, corpus = None, None
    for block in blocks:
        if block.segment != segment:
            segment, corpus = block.segment, maker.text.load(block.segment)
        rng = maker.config.rng(ROWS, block.block, block.duplicate)
        columns = block_rows(maker, corpus, block, rng, statistics)
        content, offsets = maker.frame(columns)
        view, bounds = memoryview(content), offsets.tolist()
        frames.extend(view[begin:end] for begin, end in itertools.pairwise(bounds))
        chosen.append(rng.integers(buckets, size=len(offsets) - 1))
    bucket_of_row = np.concatenate(chosen)
    order = np.argsort(bucket_of_row, kind="stable")
    with writing(path), open(path, "wb") as file:
        file.write(b"".join([frames[row] for row in order.tolist()]))
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
    corpus,
    block: RowBlock,
    rng: np.random.Generator,
    statistics: Statistics,
) -> dict[str, np.ndarray]:
    """`pretraining.make_rows` of a block of a segment."""
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
    offset: int,
    key: tuple[int, int],
) -> None:
    """Writes a bucket's rows in random order to its place in a shard's file.

    Args:
      maker: gives the random generator.
      slices: where the rows are, in runs.
      path: a file that exists.
      offset: where in it the bucket begins, in bytes.
      key: numbers of the shard and the bucket.
    """
    parts = []
    for part in slices:
        with open(part.path, "rb") as file:
            file.seek(part.begin)
            parts.append(file.read(part.end - part.begin))
    frames = split_frames(b"".join(parts))
    order = maker.config.rng(SHUFFLE, *key).permutation(len(frames))
    content = b"".join([frames[row] for row in order.tolist()])
    with writing(path), open(path, "r+b") as file:
        file.seek(offset)
        file.write(content)


def publish_shard(
    maker: RowMaker, partial: str, path: str, rows: int, metadata: dict
) -> None:
    """Gives a shard's file its name and its sidecar."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    publish_records(partial, path, rows, maker.features, metadata)
