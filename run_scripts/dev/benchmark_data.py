"""Measures how fast pretraining data is made, compared with a yardstick.

The yardstick is sentencepiece, encoding the same text on one thread. On a machine where
it encodes 13.9 MB/s, the original ALBERT script makes 408 rows/s (512 tokens, 20
predictions, dupe factor 10, the official vocabulary, English novels). So the original's
speed on any machine follows from the yardstick's. The two are measured in turn.

Speeds are given by the clock and by processor time, which other programs hardly affect.
"""

import dataclasses
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

import sentencepiece
from tqdm import tqdm

from albert_tf.storage import as_path, check_local
from data_prep.corpus.files import open_bytes, stat_files
from data_prep.pretraining.job import PretrainingDataJob, make_pretraining_data
from data_prep.pretraining.output_files import expand_outputs

# Measured together on one core.
_ORIGINAL_ROWS_PER_SECOND = 408.0
_ORIGINAL_YARDSTICK = 13.9e6
# The goal for this pipeline, per core.
_WANTED_TIMES = 25.0

# The yardstick encodes at least this many bytes each time.
_YARDSTICK_BYTES = 4_000_000


def benchmark_data(
    job: PretrainingDataJob,
    spm_model_file: str,
    max_workers: int,
    repeats: int,
    work_dir: str = "",
) -> dict[str, Any]:
    """Makes the records of a job several times, with one worker and with more.

    Args:
      job: what to make; its outputs and number of workers are replaced.
      spm_model_file: its vocabulary, for the yardstick.
      max_workers: number of processes to compare with one.
      repeats: runs of each kind; the fastest counts, since other programs only add to
        the time.
      work_dir: folder for temporary outputs; empty: the system's default. It
        is local, for what is measured is the work on a disk.
    Returns:
      JSON values; rows and bytes per second are those of the fastest runs.
    """
    # Temporary outputs on a bucket would measure the network.
    check_local(work_dir)
    text = _read(job.input_paths)
    counts = sorted({1, max_workers})
    yardsticks: list[tuple[float, float]] = []
    runs: dict[int, list[dict]] = {count: [] for count in counts}
    for _ in tqdm(range(repeats), desc="benchmark", unit="round", disable=None):
        yardsticks.append(yardstick(text, spm_model_file))
        for count in counts:
            runs[count].append(_run(job, count, work_dir))
    size = sum(file.size for file in stat_files(job.input_paths))
    return _summary(yardsticks, runs, size)


def _read(paths: Sequence[str]) -> list[str]:
    lines = []
    for path in paths:
        with open_bytes(path) as file:
            text = file.read(_YARDSTICK_BYTES).decode("utf-8", "replace")
        lines.extend(text.splitlines())
    return lines


def yardstick(lines: Sequence[str], spm_model_file: str) -> tuple[float, float]:
    """Bytes that sentencepiece encodes on one thread.

    Returns:
      (bytes per second by the clock, bytes per second of processor time).
    """
    content = as_path(spm_model_file).read_bytes()
    processor = sentencepiece.SentencePieceProcessor(model_proto=content)
    size = sum(len(line.encode()) for line in lines)
    rounds = max(1, -(-_YARDSTICK_BYTES // size))
    began, used = time.perf_counter(), time.process_time()
    for _ in range(rounds):
        processor.encode(lines, out_type=int, num_threads=1)
    total = rounds * size
    return total / (time.perf_counter() - began), total / (time.process_time() - used)


def _run(job: PretrainingDataJob, workers: int, work_dir: str) -> dict[str, Any]:
    """One run in a process of its own, so that its memory is measured alone."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(dir=work_dir or None) as folder:
        outputs = expand_outputs(f"{folder}/rows.tfrecord@4")
        job = dataclasses.replace(job, outputs=outputs, num_workers=workers)
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_measure, args=(sender, job))
        process.start()
        sender.close()
        try:
            report = receiver.recv()
        except EOFError:
            raise OSError("A run of the benchmark died.") from None
        finally:
            process.join()
    if isinstance(report, Exception):
        raise report
    return report


def _measure(sender: Connection, job: PretrainingDataJob) -> None:
    before = _processor_seconds()
    try:
        report = make_pretraining_data(job)
    except (ValueError, OSError) as error:
        sender.send(error)
        return
    report["processor_seconds"] = _processor_seconds() - before
    sender.send(report)


def _processor_seconds() -> float:
    """Processor time of this process and of those that it has waited for."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(use.ru_utime + use.ru_stime for use in used)


def _summary(
    yardsticks: Sequence[tuple[float, float]],
    runs: dict[int, list[dict]],
    input_bytes: int,
) -> dict[str, Any]:
    by_clock, by_processor = (max(speeds) for speeds in zip(*yardsticks, strict=True))
    rows = runs[1][0]["rows"]
    seconds, processor_seconds = (
        {n: min(report[key] for report in reports) for n, reports in runs.items()}
        for key in ("seconds", "processor_seconds")
    )
    original = _ORIGINAL_ROWS_PER_SECOND / _ORIGINAL_YARDSTICK
    return {
        "input_megabytes": input_bytes / 1e6,
        "rows": rows,
        "yardstick_megabytes_per_second": by_clock / 1e6,
        "yardstick_megabytes_per_processor_second": by_processor / 1e6,
        "original_rows_per_second": original * by_clock,
        "wanted_rows_per_second": _WANTED_TIMES * original * by_clock,
        "times_the_original": rows / seconds[1] / (original * by_clock),
        "times_the_original_by_processor_time": (
            rows / processor_seconds[1] / (original * by_processor)
        ),
        "workers": {
            str(count): {
                "seconds": seconds[count],
                "processor_seconds": processor_seconds[count],
                "rows_per_second": rows / seconds[count],
                "rows_per_processor_second": rows / processor_seconds[count],
                "input_megabytes_per_second": input_bytes / 1e6 / seconds[count],
                "peak_memory_megabytes": max(
                    report["peak_memory_megabytes"] for report in reports
                ),
                "times_one_worker": seconds[1] / seconds[count],
            }
            for count, reports in runs.items()
        },
    }


def benchmark_table(summary: dict[str, Any]) -> str:
    """The numbers as text, one on each line."""
    lines = [
        f"{name.replace('_', ' '):<42}{value:>12,.1f}"
        for name, value in summary.items()
        if name != "workers"
    ]
    for count, numbers in summary["workers"].items():
        lines.append(f"{count} worker{'s' if count != '1' else ''}")
        lines.extend(
            f"  {name.replace('_', ' '):<40}{value:>12,.2f}"
            for name, value in numbers.items()
        )
    return "\n".join(lines)
