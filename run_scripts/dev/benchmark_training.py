"""Measures training and evaluation, beside other libraries, in one table.

    python run_scripts/benchmark.py training --output_dir=figures \
        --albert_config_file=configs/albert_base.json \
        --data_dir=glue --spm_model_file=english.model

`step`: a pretraining step and its optimizer alone, and the same step in PyTorch and
tf-models, in turns with matrix products. Each runs in a process of its own, whose peak
memory is measured. `fine_tuning`: epochs of CoLA and RTE beside padding all rows.
`evaluation`: the inference graph beside that of training. It prints the table and
writes training.json and training.md.
"""

import contextlib
import datetime
import importlib.metadata
import os
import platform
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from absl import flags

from albert_tf.config import AlbertConfig, TrainConfig
from albert_tf.file_kinds import check_replaceable
from albert_tf.files import json_bytes, make_folder, write_together
from albert_tf.storage import as_path
from data_prep.fine_tuning import datasets
from dev import benchmark_train, training_contestants, training_table
from dev.benchmark_classifier import make_epoch
from dev.benchmark_train import Case, Times
from dev.processes import Process
from dev.training_contestants import OURS, PEERS, EvaluationCase
from flags import common_flags, performance_flags

FLAGS = flags.FLAGS

MEASURES = ("step", "fine_tuning", "evaluation")
# Task of GLUE -> rows in a step.
_TASKS = {"cola": 16, "rte": 8}
_LONGEST_ROW = 512
_EVALUATION_BATCHES = 4
_PACKAGES = ("tensorflow", "tf-models-official", "torch", "numpy")
# Seconds in which threads of one process stop waiting for work.
_SETTLE = 0.1
# What tells an earlier report from other JSON.
_JSON_SAMPLE = {"date": "", "machine": {}, "versions": {}, "settings": {}}


def define_flags() -> None:
    """Defines the flags."""
    performance_flags.define_training_benchmark_flags(MEASURES, [*PEERS])


def main() -> None:
    """Measures, prints the table and writes both files."""
    config = _check_flags()
    folder = as_path(FLAGS.output_dir)
    files = folder / "training.json", folder / "training.md"
    check_replaceable(files[0], json_bytes(_JSON_SAMPLE))
    check_replaceable(files[1], training_table.SAMPLE)
    report: dict[str, Any] = {**_circumstances(), "missing": {}}
    report |= {"steps": [], "fine_tuning": [], "evaluation": []}
    with tempfile.TemporaryDirectory() as cache_dir:
        tasks = _read_tasks(config, cache_dir)
        make_folder(folder)
        if "fine_tuning" in FLAGS.measures and not tasks:
            report["missing"]["fine_tuning"] = "no --data_dir was given"
        for precision in FLAGS.precisions:
            if "step" in FLAGS.measures:
                case = _step_case(config, precision)
                report["steps"].append(_measure_step(case, report["missing"]))
            for data in tasks:
                summary = _measure_epoch(config, precision, data)
                report["fine_tuning"].append(summary)
            if "evaluation" in FLAGS.measures:
                report["evaluation"].append(_measure_evaluation(config, precision))
    table = training_table.render(report)
    print(table, flush=True)
    contents = json_bytes(report), table.encode()
    write_together(dict(zip(files, contents, strict=True)))
    print(f"Wrote {files[0]} and {files[1]}.")


def _check_flags() -> AlbertConfig:
    """Returns the model's configuration."""
    performance_flags.check_list("measures", MEASURES)
    performance_flags.check_list("peers", [*PEERS])
    performance_flags.check_list("precisions", ["float32", "bfloat16"])
    config = AlbertConfig.from_json(FLAGS.albert_config_file)
    config = config.override(FLAGS.config_override)
    if FLAGS.max_seq_length > config.max_position_embeddings:
        raise flags.Error(
            "--max_seq_length must be at most max_position_embeddings. Received "
            f"{FLAGS.max_seq_length} and {config.max_position_embeddings}: lower it."
        )
    plain = (config.num_hidden_groups, config.inner_group_num, config.hidden_act)
    if FLAGS.peers and plain != (1, 1, "gelu"):
        raise flags.Error(
            "Peers have one block for all layers, with gelu. Received "
            f"num_hidden_groups, inner_group_num and hidden_act {plain}: pass --peers= "
            "to measure without them."
        )
    return config


def _circumstances() -> dict[str, Any]:
    """The date, the machine, the versions of packages, and the flags."""
    versions = {"Python": platform.python_version()}
    for name in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    names = ("optimizer", "benchmark_steps", "max_predictions_per_seq")
    return {
        "date": datetime.date.today().isoformat(),
        "machine": {
            "processor": _processor(),
            "cores": len(os.sched_getaffinity(0)),
        },
        "versions": versions,
        "settings": {
            "model": as_path(FLAGS.albert_config_file).stem,
            "config_override": FLAGS.config_override,
            **{name: FLAGS[name].value for name in names},
        },
    }


def _processor() -> str:
    """Name of the processor, as Linux has it."""
    with contextlib.suppress(OSError):
        found = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
        if found:
            return found[1].strip()
    return platform.processor() or platform.machine()


@contextlib.contextmanager
def _process(make: Callable[..., Callable], *arguments: Any) -> Iterator[Process]:
    process = Process(make, *arguments)
    try:
        yield process
    finally:
        process.close()


# -- steps


def _step_case(config: AlbertConfig, precision: str) -> Case:
    return Case(
        FLAGS.albert_config_file,
        TrainConfig(
            "unused", train_batch_size=FLAGS.train_batch_size, precision=precision
        ),
        FLAGS.optimizer,
        FLAGS.max_seq_length,
        FLAGS.max_predictions_per_seq,
        FLAGS.benchmark_steps,
        config,
    )


def _measure_step(case: Case, missing: dict[str, str]) -> dict[str, Any]:
    """Times steps of all contestants in turns with matrix products.

    Args:
      case: the step.
      missing: gets the name of a contestant that cannot be had, and the reason.
    """
    precision = case.train_config.precision
    wanted = [OURS, *(PEERS[name] for name in PEERS if name in FLAGS.peers)]
    with contextlib.ExitStack() as stack:

        def start(make, *arguments):
            return stack.enter_context(_process(make, *arguments))

        steps = {}
        for name in wanted:
            if name in missing:
                continue
            try:
                steps[name] = start(training_contestants.STEPS[name], case)
            except ImportError as error:
                missing[name] = f"{error.name} is not installed (extra `peers`)"
                print(f"Without {name}: {missing[name]}.", flush=True)
        multiply = start(benchmark_train.make_product, precision)
        optimizer = start(training_contestants.make_optimizer_step, case)
        for _ in range(2):
            seconds = {name: step()[0] for name, step in steps.items()}
            optimizer()
            product_seconds = multiply(1)[0]
        repeats = benchmark_train.product_repeats(seconds[OURS], product_seconds)
        todo = {"": lambda: multiply(repeats), "optimizer": optimizer, **steps}
        times = time_in_turns(todo, case.steps)
        memory = {name: step.peak_megabytes for name, step in steps.items()}
    product = benchmark_train.product_operations(repeats) / _fastest(times[""])
    return {
        "precision": precision,
        "rows": case.train_config.train_batch_size,
        "max_seq_length": case.max_seq_length,
        "matmul_gflops_per_second": product / 1e9,
        "step_ms": 1e3 * _fastest(times[OURS]),
        "optimizer_ms": 1e3 * _fastest(times["optimizer"]),
        "contestants": {
            name: {
                **_speeds(case, times[name], product),
                "peak_memory_megabytes": memory[name],
            }
            for name in steps
        },
    }


def time_in_turns(
    todo: Mapping[str, Callable[[], Times]], rounds: int
) -> dict[str, list[Times]]:
    """Name -> the times that a function returns, in so many rounds of all of them."""
    times: dict[str, list[Times]] = {name: [] for name in todo}
    for _ in range(rounds):
        for name, function in todo.items():
            time.sleep(_SETTLE)
            times[name].append(function())
    return times


def _fastest(times: list[Times]) -> float:
    """The least wall-clock time: other programs only add to it."""
    return min(seconds for seconds, _ in times)


def _speeds(case: Case, times: list[Times], product: float) -> dict[str, float]:
    rows, fastest = case.train_config.train_batch_size, _fastest(times)
    median = statistics.median(seconds for seconds, _ in times)
    return {
        "examples_per_second": rows / fastest,
        "median_examples_per_second": rows / median,
        "examples_per_processor_second": rows / min(busy for _, busy in times),
        "share_of_matmul": benchmark_train.step_operations(case) / fastest / product,
    }


# -- fine-tuning and evaluation


def _read_tasks(config: AlbertConfig, cache_dir: str) -> list[datasets.TaskData]:
    """The rows of the tasks; none without `--data_dir`."""
    if "fine_tuning" not in FLAGS.measures:
        return []
    if not FLAGS.data_dir:
        print("Without fine_tuning: no --data_dir was given.", flush=True)
        return []
    tokenizer = common_flags.make_tokenizer()
    if tokenizer.vocab_size > config.vocab_size:
        raise flags.Error(
            f"The vocabulary has {tokenizer.vocab_size} tokens, the model's vocab_size "
            f"is {config.vocab_size}: pass the ones that belong together."
        )
    return [
        datasets.glue(
            name,
            FLAGS.data_dir,
            tokenizer,
            ["train"],
            max_seq_length=min(_LONGEST_ROW, config.max_position_embeddings),
            cache_dir=cache_dir,
        )
        for name in _TASKS
    ]


def _measure_epoch(
    config: AlbertConfig, precision: str, data: datasets.TaskData
) -> dict[str, Any]:
    batch = _TASKS[data.task_config.task_name]
    train_config = TrainConfig("unused", train_batch_size=batch, precision=precision)
    arguments = (config, data.task_config, data.train, train_config)
    numbers = (FLAGS.short_steps, FLAGS.padded_steps)
    with _process(make_epoch, *arguments, *numbers) as measure:
        summary = measure()
    length = data.task_config.max_seq_length
    known = {"precision": precision, "batch": batch, "max_seq_length": length}
    return {**summary, **known}


def _measure_evaluation(config: AlbertConfig, precision: str) -> dict[str, Any]:
    case = EvaluationCase(
        config,
        precision,
        rows=FLAGS.eval_batch_size,
        length=min(_LONGEST_ROW, config.max_position_embeddings),
        batches=_EVALUATION_BATCHES,
        repeats=max(1, FLAGS.benchmark_steps // _EVALUATION_BATCHES),
    )
    with _process(training_contestants.make_evaluation, case) as measure:
        speeds = measure()
    return {
        "precision": precision,
        "rows": case.rows,
        "length": case.length,
        "rows_per_second": speeds,
    }
