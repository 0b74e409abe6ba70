"""Predicts the rows and bytes of a run from a sample of the text."""

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from albert_tf.progress import progress_bar
from albert_tf.records.encoding import frame_rows
from albert_tf.storage import as_path, is_local
from data_prep.cluster import start_workers
from data_prep.corpus.files import Part, divide, part_bytes, stat_files
from data_prep.corpus.statistics import Statistics
from data_prep.corpus.tokenize import Encoder, check_text, encode_parts
from data_prep.corpus.tokenized_corpus import TokenizedCorpus
from data_prep.parallel import Call
from data_prep.pretraining.config import ROWS, PretrainingDataConfig
from data_prep.pretraining.job import PretrainingDataJob
from data_prep.pretraining.output_files import padding_shares, table_line
from data_prep.pretraining.rows import make_rows
from data_prep.pretraining.shards import choose_block_size, cut_row_blocks

# Number of groups of parts that are read, spread evenly over the text, and bytes read
# of a file that cannot be divided: 64 MB of a large text, all of a small one.
_SAMPLES = 16
_BYTES_PER_SAMPLE = 1 << 22
# Bytes of text that are made into rows, duplicates included, so that the random draws
# of a few rows do not matter for a short text.
_BYTES_WITH_DUPLICATES = 1 << 22


@dataclass(frozen=True)
class _Sample:
    """Measurements of a part of the text.

    Attributes:
      read: bytes of input.
      statistics: of the text.
      made: statistics of the rows, all duplicates included.
      rows, record_bytes: of one duplicate, on average.
      text_seconds: processor time of tokenization.
      row_seconds: processor time of the rows of one duplicate, on average.
    """

    read: int
    statistics: Statistics
    made: Statistics
    rows: float
    record_bytes: float
    text_seconds: float
    row_seconds: float


class _BlockText:
    """An `OtherText` that draws from the block itself, since only lengths matter."""

    def __init__(self, block: TokenizedCorpus):
        self._ids = block.ids

    def draw(
        self, document: int, tokens: int, inside: bool, rng: np.random.Generator
    ) -> np.ndarray:
        """Returns text of about the wanted length."""
        return self._ids[:tokens]


def estimate(job: PretrainingDataJob) -> dict[str, Any]:
    """Predicts rows and bytes of all outputs of a job; writes nothing.

    Sampled text is read and made into rows as in the job. Only a few of the duplicates
    are made, since they differ by their random draws only.

    Returns:
      JSON values. Counts are of all outputs and rounded.
    Raises:
      ValueError: bad text, or none.
      OSError: a file cannot be read.
    """
    files = stat_files(job.input_paths)
    total = sum(file.size for file in files)
    groups = divide(files, job.text_config.input_format)
    sizes = np.array([part_bytes(group) for group in groups])
    # Bytes of the whole text that each group represents.
    weights = sizes
    if len(groups) > _SAMPLES:
        places = (np.arange(_SAMPLES) + 0.5) * total / _SAMPLES
        drawn = np.searchsorted(np.cumsum(sizes), places, side="right")
        weights = np.bincount(drawn, minlength=len(groups)) * (total / _SAMPLES)
    chosen = np.flatnonzero(weights).tolist()
    samples = _take_samples(job, [groups[place] for place in chosen], total)
    return _project(job, samples, [weights[place] for place in chosen], total)


def _take_samples(
    job: PretrainingDataJob, groups: Sequence[Sequence[Part]], total: int
) -> list[_Sample]:
    calls = iter(
        Call(sample_group, (group, total, len(job.outputs.paths), place), place)
        for place, group in enumerate(groups)
    )
    samples: list = [None] * len(groups)
    with (
        start_workers(min(job.num_workers, len(groups)), job.scheduler) as workers,
        progress_bar(len(groups), "sample", "text") as bar,
    ):

        def done(call: Call, sample: _Sample) -> None:
            samples[call.note] = sample
            bar.update()

        workers.share((job.encoder(folder=""), job.config))
        workers.run(lambda: next(calls, None), done)
    return samples


def sample_group(
    shared: tuple[Encoder, PretrainingDataConfig],
    parts: Sequence[Part],
    total_bytes: int,
    shards: int,
    number: int,
) -> _Sample:
    """Reads parts of files, or the beginning of a packed one, and makes their rows.

    Args:
      shared: (Encoder, PretrainingDataConfig).
      parts: the parts to read.
      total_bytes: of the whole text.
      shards: number of files to be written.
      number: of the sample, for its random draws.
    """
    encoder, config = shared
    duplicates = max(1, min(config.dupe_factor, _BYTES_WITH_DUPLICATES // total_bytes))
    text, rows, record_bytes, read = Statistics(), Statistics(), 0, 0
    row_seconds, started = 0.0, time.process_time()

    def count(size: int) -> None:
        nonlocal read
        read += size

    rng = config.rng(ROWS, number)
    for segment in encode_parts(encoder, parts, text, count):
        began = time.process_time()
        tokens = text.pieces * total_bytes // max(read, 1)
        rows_per_block = choose_block_size(tokens, config, shards)
        for block in _blocks(segment.corpus, config, rows_per_block):
            for _ in range(duplicates):
                others = _BlockText(block)
                made = make_rows(block, encoder.tokenizer, config, rng, rows, others)
                record_bytes += len(frame_rows(made, config.features)[0])
        row_seconds += time.process_time() - began
        if read >= _BYTES_PER_SAMPLE:
            break
    text_seconds = time.process_time() - started - row_seconds
    return _Sample(
        read,
        text,
        rows,
        rows.rows / duplicates,
        record_bytes / duplicates,
        text_seconds,
        row_seconds / duplicates,
    )


def _blocks(
    corpus: TokenizedCorpus, config: PretrainingDataConfig, rows_per_block: int
) -> Iterator[TokenizedCorpus]:
    offsets = corpus.sentence_offsets, corpus.document_offsets
    for bounds in cut_row_blocks(*offsets, config, rows_per_block):
        yield corpus.block(*bounds)


def _project(
    job: PretrainingDataJob,
    samples: Sequence[_Sample],
    weights: Sequence[float],
    total: int,
) -> dict[str, Any]:
    """Projects samples onto the whole text; see `estimate`."""
    text, made = Statistics(), Statistics()
    for sample in samples:
        text.merge(sample.statistics)
        made.merge(sample.made)
    check_text(text, job.text_config)

    def projected(value: Callable[[_Sample], float]) -> float:
        return sum(
            value(sample) * weight / max(sample.read, 1)
            for sample, weight in zip(samples, weights, strict=True)
        )

    duplicates = job.config.dupe_factor
    rows = duplicates * projected(lambda sample: sample.rows)
    record_bytes = duplicates * projected(lambda sample: sample.record_bytes)
    seconds = projected(lambda sample: sample.text_seconds)
    seconds += duplicates * projected(lambda sample: sample.row_seconds)
    documents = projected(lambda sample: sample.statistics.documents)
    if job.text_config.input_format == "raw":
        documents = len(job.input_paths)
    return {
        "input_bytes": total,
        "sampled_bytes": sum(sample.read for sample in samples),
        "documents": round(documents),
        "sentences": round(projected(lambda sample: sample.statistics.sentences)),
        "pieces": round(projected(lambda sample: sample.statistics.pieces)),
        "unknown_share": text.unknown_pieces / text.pieces,
        "shards": len(job.outputs.paths),
        "rows": round(rows),
        "record_bytes": round(record_bytes),
        **(padding_shares(made, True) if job.config.pack_documents else {}),
        **_free_disk(job.outputs.paths[0]),
        "minutes_of_one_processor": round(seconds / 60, 2),
    }


def _free_disk(path: str) -> dict[str, int]:
    """The free bytes of a file's disk; a bucket has no such number."""
    if not is_local(path):
        return {}
    folder = as_path(path).absolute().parent
    while not folder.exists():
        folder = folder.parent
    return {"free_disk_bytes": shutil.disk_usage(str(folder)).free}


def estimate_table(prediction: Mapping[str, Any]) -> str:
    """Formats a prediction as text, a line a number."""
    return "\n".join(table_line(*item) for item in prediction.items())
