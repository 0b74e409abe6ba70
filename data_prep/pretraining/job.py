"""Makes pretraining data: input files in, record files and a report out."""

import functools
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from albert_tf.files import write_json
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.corpus.files import FileSnapshot, make_writable_folder, stat_files
from data_prep.corpus.segmenter import RowTokenizer, make_segmenting
from data_prep.corpus.tokenize import Encoder, TextConfig, prepare_text
from data_prep.corpus.tokenized_corpus import TokenizedText
from data_prep.corpus.work_folder import check_folder, discard_folder, hold_folder
from data_prep.parallel import Workers, default_count, progress_bar
from data_prep.pretraining.config import PretrainingDataConfig
from data_prep.pretraining.output_files import (
    Outputs,
    RunFigures,
    finished_sidecars,
    make_report,
)
from data_prep.pretraining.shards import make_shards, plan_rows
from data_prep.pretraining.shuffle import RowMaker


@dataclass(frozen=True)
class PretrainingDataJob:
    """All inputs, outputs and configuration of making pretraining data.

    Attributes:
      input_paths: from `reader.expand_inputs`.
      text_config: how they are read.
      tokenizer: the vocabulary.
      config: configuration of the rows.
      outputs: the files to write.
      num_workers: processes; 1 does all in this one.
      work_dir: folder for tokenized text and unshuffled rows; empty: beside the first
        output. Runs on several machines may share it.
    """

    input_paths: list[str]
    text_config: TextConfig
    tokenizer: AlbertTokenizer
    config: PretrainingDataConfig
    outputs: Outputs
    num_workers: int = field(default_factory=default_count)
    work_dir: str = ""

    def encoder(self, folder: str) -> Encoder:
        """Returns the values that encode the text into a folder."""
        return Encoder(
            self.row_tokenizer,
            self.text_config,
            self.config.max_text_tokens,
            folder,
        )

    @functools.cached_property
    def row_tokenizer(self) -> RowTokenizer:
        """The tokenizer of the text in the work folder; it may find Chinese words."""
        return make_segmenting(self.tokenizer, self.text_config.chinese_segmenter)

    def work_folder(self) -> str:
        """Returns the folder of these outputs within `work_dir`."""
        first = self.outputs.paths[0]
        name = f".{os.path.basename(first)}.work"
        return os.path.join(self.work_dir or os.path.dirname(first), name)


def make_pretraining_data(job: PretrainingDataJob) -> dict[str, Any]:
    """Makes this run's shards, except for finished ones, and the report.

    Returns:
      The report; it is also written, as `report.json` beside the first output, or as
      `report-FIRST-END.json` by a run that makes a part of the shards.
    Raises:
      ValueError: bad text; finished shards of another configuration; too little text.
      OSError: a file cannot be read or written.
    """
    started = time.monotonic()
    files = stat_files(job.input_paths)
    identity = _identity(job, files)
    finished = finished_sidecars(job.outputs, identity)
    figures = RunFigures(input_bytes=sum(file.size for file in files))
    figures.shards_kept = len(finished)
    if len(finished) < len(job.outputs.own) or not _are_older(files, job.outputs):
        folder = job.work_folder()
        check_folder(folder)
        make_writable_folder(folder, "work_dir" if job.work_dir else "output_file")
        encoder = job.encoder(folder)
        try:
            with (
                hold_folder(folder, encoder.text_identity(files)),
                Workers(job.num_workers) as workers,
            ):
                text = _prepare(job, files, encoder, workers)
                identity["text_sha256"] = text.sha256
                finished = finished_sidecars(job.outputs, identity)
                figures.text_seconds = time.monotonic() - started
                missing = [n for n in job.outputs.own if n not in finished]
                _make(job, text, missing, workers, identity)
                figures.peak_memory_bytes = workers.peak_memory
        except ValueError:
            # The text or the configuration must change, so the folder is of no use.
            discard_folder(folder)
            raise
        if job.outputs.all_finished():
            discard_folder(folder)
    figures.seconds = time.monotonic() - started
    sidecars = finished_sidecars(job.outputs, identity)
    report = make_report(list(sidecars.values()), figures)
    write_json(job.outputs.report_path, report)
    return report


def _identity(job: PretrainingDataJob, files: Sequence[FileSnapshot]) -> dict[str, Any]:
    """Returns the values that decide the output's bytes, besides the text itself."""
    return {
        **job.tokenizer.metadata(),
        **job.config.to_dict(),
        **asdict(job.text_config),
        "input_files": len(files),
        "input_bytes": sum(file.size for file in files),
        "shards": len(job.outputs.paths),
    }


def _are_older(files: Sequence[FileSnapshot], outputs: Outputs) -> bool:
    """Tells whether no input was changed since this run's outputs were made."""
    made = min(os.stat(path).st_mtime_ns for path in outputs.own_paths)
    return all(file.modified < made for file in files)


def _prepare(
    job: PretrainingDataJob,
    files: Sequence[FileSnapshot],
    encoder: Encoder,
    workers: Workers,
) -> TokenizedText:
    size = sum(file.size for file in files)
    # Runs that share the folder begin at different places of the text.
    start_at = job.outputs.first / len(job.outputs.paths)
    with progress_bar(size, "B", "text") as bar:
        return prepare_text(files, encoder, workers, bar.update, start_at)


def _make(
    job: PretrainingDataJob,
    text: TokenizedText,
    missing: Sequence[int],
    workers: Workers,
    identity: dict[str, Any],
) -> None:
    if not missing:
        return
    maker = RowMaker(job.row_tokenizer, job.config, text)
    plan = plan_rows(text, job.config, len(job.outputs.paths))
    total = sum(len(plan.row_blocks(number)) for number in missing)
    metadata = {**identity, "text": text.statistics.nonzero()}
    with progress_bar(total, "block", "rows") as bar:
        make_shards(maker, plan, job.outputs, missing, workers, bar.update, metadata)
