"""Makes pretraining data: input files in, record files and a report out."""

import dataclasses
import functools
import secrets
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from albert_tf.files import write_json, write_shared
from albert_tf.progress import progress_bar
from albert_tf.records.compact import SPECIAL_TOKENS, format_metadata
from albert_tf.storage import AnyPath, as_path, is_local
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.cluster import ClusterWorkers, start_workers
from data_prep.corpus.files import (
    FileSnapshot,
    absolute,
    make_writable_folder,
    stat_files,
)
from data_prep.corpus.segmenter import RowTokenizer, make_segmenting
from data_prep.corpus.tokenize import Encoder, TextConfig, prepare_text
from data_prep.corpus.tokenized_corpus import TokenizedText
from data_prep.corpus.work_folder import check_folder, discard_folder, hold_folder
from data_prep.parallel import Executor, default_count
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
      input_paths: from `inputs.expand_inputs`.
      text_config: how they are read.
      tokenizer: the vocabulary.
      config: configuration of the rows.
      outputs: the files to write.
      num_workers: processes; 1 does all in this one.
      work_dir: folder for tokenized text and unshuffled rows; empty: beside the first
        output. Runs on several machines may share it.
      scheduler: address of a Dask cluster whose workers do all; empty: the processes of
        this machine do.
    """

    input_paths: list[str]
    text_config: TextConfig
    tokenizer: AlbertTokenizer
    config: PretrainingDataConfig
    outputs: Outputs
    num_workers: int = field(default_factory=default_count)
    work_dir: str = ""
    scheduler: str = ""

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

    def work_folder(self) -> AnyPath:
        """Returns the folder of these outputs within `work_dir`."""
        first = as_path(self.outputs.paths[0])
        parent = as_path(self.work_dir) if self.work_dir else first.parent
        return parent / f".{first.name}.work"

    def with_absolute_paths(self) -> "PretrainingDataJob":
        """Returns the same job for processes that work in other folders."""
        paths = tuple(map(absolute, self.outputs.paths))
        return dataclasses.replace(
            self,
            input_paths=list(map(absolute, self.input_paths)),
            outputs=dataclasses.replace(self.outputs, paths=paths),
            work_dir=self.work_dir and absolute(self.work_dir),
        )


def make_pretraining_data(job: PretrainingDataJob) -> dict[str, Any]:
    """Makes this run's shards, except for finished ones, and the report.

    Returns:
      The report; it is also written, as `report.json` beside the first output, or as
      `report-FIRST-END.json` by a run that makes a part of the shards.
    Raises:
      ValueError: bad text; finished shards of another configuration; too little text;
        several processes for files that only one sees.
      OSError: a file cannot be read or written.
    """
    started = time.monotonic()
    _check_memory(job)
    if job.scheduler:
        job = job.with_absolute_paths()
    files = stat_files(job.input_paths)
    identity = _identity(job, files)
    finished = finished_sidecars(job.outputs, identity)
    figures = RunFigures(input_bytes=sum(file.size for file in files))
    figures.shards_kept = len(finished)
    if len(finished) < len(job.outputs.own) or not _are_older(files, job.outputs):
        folder = job.work_folder()
        check_folder(folder)
        try:
            with start_workers(job.num_workers, job.scheduler) as workers:
                flag = "work_dir" if job.work_dir else "output_file"
                make_writable_folder(folder, flag)
                _make_missing(job, files, folder, workers, identity, figures)
        except ValueError:
            # The text or the configuration must change, so the folder is of no use.
            discard_folder(folder, is_done=False)
            raise
        if job.outputs.all_finished():
            discard_folder(folder, is_done=True)
    figures.seconds = time.monotonic() - started
    sidecars = finished_sidecars(job.outputs, identity)
    report = make_report(list(sidecars.values()), figures)
    write_json(job.outputs.report_path, report)
    return report


def _check_memory(job: PretrainingDataJob) -> None:
    """Raises ValueError if several processes would have files in memory."""
    paths = (*job.input_paths, *job.outputs.paths, job.work_dir)
    in_memory = [path for path in paths if path.startswith("memory:")]
    if in_memory and (job.num_workers > 1 or job.scheduler):
        raise ValueError(
            f"{in_memory[0]} is seen by one process alone: set num_workers to 1, or "
            "name files of a disk or a bucket."
        )


def _make_missing(
    job: PretrainingDataJob,
    files: Sequence[FileSnapshot],
    folder: AnyPath,
    workers: Executor,
    identity: dict[str, Any],
    figures: RunFigures,
) -> None:
    """Makes the shards that are not there; completes `identity` and `figures`."""
    started = time.monotonic()
    encoder = job.encoder(str(folder))
    with hold_folder(folder, encoder.text_identity(files)) as text_folder:
        if isinstance(workers, ClusterWorkers):
            _check_paths(job, text_folder, workers)
        encoder = dataclasses.replace(encoder, folder=text_folder)
        try:
            text = _prepare(job, files, encoder, workers)
            identity["text_sha256"] = text.sha256
            finished = finished_sidecars(job.outputs, identity)
            figures.text_seconds = time.monotonic() - started
            missing = [n for n in job.outputs.own if n not in finished]
            _make(job, text, missing, workers, identity)
        except FileNotFoundError as error:
            if as_path(text_folder).exists():
                raise
            raise OSError(
                f"{text_folder} was removed, perhaps by another run that has made all "
                "files: start again."
            ) from error
        figures.peak_memory_bytes = workers.peak_memory


def _check_paths(
    job: PretrainingDataJob, text_folder: str, workers: ClusterWorkers
) -> None:
    """Checks that the workers of a cluster see the files of this machine."""
    probe = as_path(text_folder) / f".probe-{secrets.token_hex(4)}"
    write_shared(probe, b"probe")
    try:
        folder = as_path(job.outputs.paths[0]).parent
        # A folder of a bucket is there once it holds a file.
        outputs = [str(folder)] if is_local(folder) else []
        workers.check_paths([str(probe), job.input_paths[0], *outputs])
    finally:
        probe.unlink(missing_ok=True)


def _identity(job: PretrainingDataJob, files: Sequence[FileSnapshot]) -> dict[str, Any]:
    """Returns the values that decide the output's bytes, besides the text itself."""
    rows = {}
    if job.config.masking is None:
        rows = format_metadata(
            job.tokenizer.vocab_size,
            job.tokenizer.ordinary_ids,
            {name: getattr(job.tokenizer, name) for name in SPECIAL_TOKENS},
        )
    return {
        **job.tokenizer.metadata(),
        **job.config.to_dict(),
        **rows,
        **asdict(job.text_config),
        "input_files": len(files),
        "input_bytes": sum(file.size for file in files),
        "shards": len(job.outputs.paths),
    }


def _are_older(files: Sequence[FileSnapshot], outputs: Outputs) -> bool:
    """Tells whether no input was changed since this run's outputs were made."""
    made = min(file.modified for file in stat_files(outputs.own_paths))
    # 0: a bucket does not say it.
    return all(0 < file.modified < made for file in files)


def _prepare(
    job: PretrainingDataJob,
    files: Sequence[FileSnapshot],
    encoder: Encoder,
    workers: Executor,
) -> TokenizedText:
    size = sum(file.size for file in files)
    # Runs that share the folder begin at different places of the text.
    count = len(job.outputs.paths)
    own_share = job.outputs.first / count, job.outputs.end / count
    with progress_bar(size, "B", "text") as bar:
        return prepare_text(files, encoder, workers, bar.update, own_share)


def _make(
    job: PretrainingDataJob,
    text: TokenizedText,
    missing: Sequence[int],
    workers: Executor,
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
