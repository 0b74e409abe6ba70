"""All of making pretraining data: input files in, record files and a report out."""

import functools
import os
import time
from dataclasses import asdict, dataclass, field

from albert_tf.files import write_json
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.corpus.input_splits import InputFile, look_at
from data_prep.corpus.segmenter import SegmentingTokenizer, make_segmenting
from data_prep.corpus.tokenize import (
    Encoder,
    Text,
    TextConfig,
    discard_folder,
    prepare_text,
    text_folder,
)
from data_prep.parallel import Workers, default_count
from data_prep.pretraining.config import PretrainingDataConfig
from data_prep.pretraining.output_files import (
    Outputs,
    check_writable,
    finished_sidecars,
)
from data_prep.pretraining.report import RunFigures, make_report
from data_prep.pretraining.shards import make_shards, plan_rows
from data_prep.pretraining.shuffle import RowMaker
from data_prep.progress import progress_bar


@dataclass(frozen=True)
class Job:
    """What to make of what.

    Attributes:
      input_paths: from `corpus.expand_inputs`.
      text_config: how they are read.
      tokenizer: the vocabulary.
      config: settings of the rows.
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
        """What encodes the text into a folder."""
        return Encoder(
            self.row_tokenizer,
            self.text_config,
            self.config.max_text_pieces,
            folder,
        )

    @functools.cached_property
    def row_tokenizer(self) -> AlbertTokenizer | SegmentingTokenizer:
        """What text becomes ids with, in the work folder."""
        return make_segmenting(self.tokenizer, self.text_config.chinese_segmenter)

    def work_folder(self) -> str:
        """The folder of this set of outputs within `work_dir`."""
        first = self.outputs.paths[0]
        name = f".{os.path.basename(first)}.work"
        return os.path.join(self.work_dir or os.path.dirname(first), name)


def make_pretraining_data(job: Job) -> dict:
    """Makes this run's shards, but for those that are finished, and the report.

    Returns:
      The report; it is also written, as `report.json` beside the first output, or as
      `report-FIRST-END.json` by a run that makes a part of the shards.
    Raises:
      ValueError: bad text; finished shards of other settings; too little text.
      OSError: what cannot be read or written.
    """
    started = time.monotonic()
    files = look_at(job.input_paths)
    settings = _settings(job, files)
    finished = finished_sidecars(job.outputs, settings)
    figures = RunFigures(input_bytes=sum(file.size for file in files))
    figures.shards_kept = len(finished)
    if len(finished) < len(job.outputs.own) or not _older(files, job.outputs):
        folder = job.work_folder()
        check_writable(folder)
        try:
            with (
                text_folder(folder, files, job.encoder(folder)),
                Workers(job.num_workers) as workers,
            ):
                text = _prepare(job, files, folder, workers)
                settings["text_sha256"] = text.sha256
                finished = finished_sidecars(job.outputs, settings)
                figures.text_seconds = time.monotonic() - started
                missing = [n for n in job.outputs.own if n not in finished]
                _make(job, text, missing, workers, settings)
                figures.peak_memory_bytes = workers.peak_memory
        except ValueError:
            # The text or the settings must change, so what was made is of no use.
            discard_folder(folder)
            raise
        if job.outputs.all_finished():
            discard_folder(folder)
    figures.seconds = time.monotonic() - started
    sidecars = finished_sidecars(job.outputs, settings)
    report = make_report(list(sidecars.values()), figures)
    write_json(_report_path(job.outputs), report)
    return report


def _settings(job: Job, files: list[InputFile]) -> dict:
    """What decides the bytes of the output, but for the text's contents."""
    return {
        **job.tokenizer.metadata(),
        **job.config.settings(),
        **asdict(job.text_config),
        "input_files": len(files),
        "input_bytes": sum(file.size for file in files),
        "shards": len(job.outputs.paths),
    }


def _older(files: list[InputFile], outputs: Outputs) -> bool:
    """Whether no input was changed since this run's outputs were made."""
    made = min(os.stat(path).st_mtime_ns for path in outputs.own_paths)
    return all(file.modified < made for file in files)


def _prepare(job: Job, files: list[InputFile], folder: str, workers: Workers) -> Text:
    size = sum(file.size for file in files)
    # Where several runs share the folder, each begins at its own share of the text.
    start_at = job.outputs.first / len(job.outputs.paths)
    with progress_bar(size, "B", "text") as bar:
        return prepare_text(files, job.encoder(folder), workers, bar.update, start_at)


def _make(
    job: Job, text: Text, missing: list[int], workers: Workers, settings: dict
) -> None:
    if not missing:
        return
    maker = RowMaker(job.row_tokenizer, job.config, text)
    plan = plan_rows(text, job.config, len(job.outputs.paths))
    numbers = {k: v for k, v in text.statistics.as_dict().items() if v}
    total = sum(len(plan.row_blocks(number)) for number in missing)
    with progress_bar(total, "block", "rows") as bar:
        make_shards(
            maker,
            plan,
            job.outputs,
            missing,
            workers,
            bar.update,
            {**settings, "text": numbers},
        )


def _report_path(outputs: Outputs) -> str:
    name = "report.json"
    if len(outputs.own) < len(outputs.paths):
        name = f"report-{outputs.first:05d}-{outputs.end:05d}.json"
    return os.path.join(os.path.dirname(outputs.paths[0]), name)
