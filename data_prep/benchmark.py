"""How fast pretraining data is made, beside a yardstick that travels between machines.

The yardstick is sentencepiece, encoding the same text on one thread. Where it does 13.9
MB/s the original ALBERT script makes 408 rows/s (512 pieces, 20 predictions, dupe
factor 10, the official vocabulary, English novels); so its speed here follows from the
yardstick's, and the two are measured in turn, in the same minutes.
"""

import dataclasses
import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import sentencepiece
from tqdm import tqdm

from data_prep.job import Job, make_pretraining_data
from data_prep.outputs import expand_outputs

# Measured together, on one core.
_ORIGINAL_ROWS_PER_SECOND = 408.0
_ORIGINAL_YARDSTICK = 13.9e6
# What is asked of this pipeline, per core.
_WANTED_TIMES = 25.0

# The yardstick encodes at least so many bytes a time.
_YARDSTICK_BYTES = 4_000_000


def benchmark_data(
    job: Job, spm_model_file: str, max_workers: int, repeats: int, work_dir: str = ""
) -> dict[str, Any]:
    """Makes a job's records several times, with one and with more workers.

    Args:
      job: what to make; its outputs and workers are replaced.
      spm_model_file: its vocabulary, for the yardstick.
      max_workers: processes to compare with one.
      repeats: runs of each kind; the best counts, since others only add to the time.
      work_dir: where temporary outputs go; empty: the system's place.
    Returns:
      JSON values; rows and bytes a second are of the best runs.
    """
    text = _read(job.input_paths)
    counts = sorted({1, max_workers})
    yardsticks: list[float] = []
    runs: dict[int, list[dict]] = {count: [] for count in counts}
    for _ in tqdm(range(repeats), desc="benchmark", unit="round", disable=None):
        yardsticks.append(yardstick(text, spm_model_file))
        for count in counts:
            runs[count].append(_run(job, count, work_dir))
    return _summary(max(yardsticks), runs, sum(map(os.path.getsize, job.input_paths)))


def _read(paths: Sequence[str]) -> list[str]:
    lines = []
    for path in paths:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines.extend(file.read(_YARDSTICK_BYTES).splitlines())
    return lines


def yardstick(lines: Sequence[str], spm_model_file: str) -> float:
    """Bytes a second that sentencepiece encodes on one thread."""
    processor = sentencepiece.SentencePieceProcessor(model_file=spm_model_file)
    size = sum(len(line.encode()) for line in lines)
    rounds = max(1, -(-_YARDSTICK_BYTES // size))
    began = time.perf_counter()
    for _ in range(rounds):
        processor.encode(lines, out_type=int, num_threads=1)
    return rounds * size / (time.perf_counter() - began)


def _run(job: Job, workers: int, work_dir: str) -> dict[str, Any]:
    """One run in a process of its own, so that its memory can be told from ours."""
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


def _measure(sender, job: Job) -> None:
    try:
        report = make_pretraining_data(job)
    except (ValueError, OSError) as error:
        sender.send(error)
        return
    used = [resource.getrusage(who) for who in _EVERY_PROCESS]
    report["processor_seconds"] = sum(use.ru_utime + use.ru_stime for use in used)
    sender.send(report)


_EVERY_PROCESS = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)


def _summary(
    yardstick_speed: float, runs: dict[int, list[dict]], input_bytes: int
) -> dict[str, Any]:
    original = _ORIGINAL_ROWS_PER_SECOND * yardstick_speed / _ORIGINAL_YARDSTICK
    best = {
        count: min(reports, key=lambda report: report["seconds"])
        for count, reports in runs.items()
    }
    rows_per_second = {
        n: report["rows"] / report["seconds"] for n, report in best.items()
    }
    summary = {
        "input_megabytes": input_bytes / 1e6,
        "rows": best[1]["rows"],
        "yardstick_megabytes_per_second": yardstick_speed / 1e6,
        "original_rows_per_second": original,
        "wanted_rows_per_second": _WANTED_TIMES * original,
        "times_the_original": rows_per_second[1] / original,
        "workers": {
            str(count): {
                "rows_per_second": rows_per_second[count],
                "input_megabytes_per_second": input_bytes / 1e6 / report["seconds"],
                "record_megabytes_per_second": (
                    report["record_bytes"] / 1e6 / report["seconds"]
                ),
                "rows_per_processor_second": (
                    report["rows"] / min(r["processor_seconds"] for r in runs[count])
                ),
                "peak_memory_megabytes": report["peak_memory_megabytes"],
                "times_one_worker": rows_per_second[count] / rows_per_second[1],
            }
            for count, report in best.items()
        },
    }
    return summary


def benchmark_table(summary: dict[str, Any]) -> str:
    """The numbers as text, a line each."""
    lines = [
        f"{name.replace('_', ' '):<34}{value:>12,.1f}"
        for name, value in summary.items()
        if name != "workers"
    ]
    for count, numbers in summary["workers"].items():
        lines.append(f"{count} worker{'s' if count != '1' else ''}")
        lines.extend(
            f"  {name.replace('_', ' '):<32}{value:>12,.2f}"
            for name, value in numbers.items()
        )
    return "\n".join(lines)
