"""Measures the speed of training steps, compared with that of matrix products.

    python run_scripts/benchmark.py train --precisions=float32,bfloat16 \
        --albert_config_files=configs/albert_base.json --batch_sizes=8

Every combination of the lists is a line of the table. `share` is the operations per
second of the step, divided by those of a product of two 2048-square matrices that is
timed in turn with it, in the same precision. The operations of a step are those of all
its matrix products, and of nothing else (three times `costs.forward_operations`).
`by CPU time` is the same by processor seconds, which other programs affect less.

If bert_large.json is among the configurations, `speed` is rows per processor second,
divided by those of BERT-large, and `paper` the value in Table 2 of the paper, for TPUs.
"""

import dataclasses
import itertools
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from absl import flags
from tqdm import tqdm

from albert_tf.config import AlbertConfig, OptimizerConfig, TrainConfig
from albert_tf.records.features import pretraining_features
from dev.processes import Process
from flags import performance_flags

FLAGS = flags.FLAGS

# Size of the square matrices whose product is the yardstick.
_YARDSTICK_SIDE = 2048

# Table 2 of the paper: data throughput divided by BERT-large's, on TPUs.
_PAPER_SPEEDS = {
    "bert_base": 4.7,
    "bert_large": 1.0,
    "albert_base": 5.6,
    "albert_large": 1.7,
    "albert_xlarge": 0.6,
    "albert_xxlarge": 0.3,
}

# Seconds by the wall clock and of processors.
Times = tuple[float, float]

_COLUMNS = (
    ("model", 16),
    ("precision", 10),
    ("rematerialize", 14),
    ("rows", 5),
    ("steps/s", 8),
    ("examples/s", 11),
    ("GFLOP/s", 8),
    ("matmul GFLOP/s", 15),
    ("share", 6),
    ("by CPU time", 12),
    ("speed", 6),
    ("paper", 6),
    ("peak MB", 8),
)


@dataclasses.dataclass(frozen=True)
class Case:
    """One kind of step.

    Attributes:
      config_file: file of the model's configuration, for tables.
      train_config: rows in a step, precision, recomputation, compilation.
      optimizer: "lamb" or "adamw".
      max_seq_length: tokens in a row.
      max_predictions_per_seq: masked tokens in a row.
      steps: number of steps that are timed.
      config: the model's configuration, the file's unless overridden.
    """

    config_file: str
    train_config: TrainConfig
    optimizer: str
    max_seq_length: int
    max_predictions_per_seq: int
    steps: int
    config: AlbertConfig


def main() -> None:
    """Prints the table."""
    print(benchmark_table(benchmark_train(_cases_of_flags())))


def _cases_of_flags() -> list[Case]:
    sizes = performance_flags.whole_numbers("batch_sizes")
    choices = (FLAGS.precisions, FLAGS.rematerializations, sizes)
    cases = []
    for file in FLAGS.albert_config_files:
        config = AlbertConfig.from_json(file)
        longest = config.max_position_embeddings
        if FLAGS.max_seq_length > longest:
            raise ValueError(
                f"max_seq_length must be at most max_position_embeddings of {file}. "
                f"Received {FLAGS.max_seq_length} and {longest}: lower it."
            )
        for precision, rematerialize, size in itertools.product(*choices):
            train_config = TrainConfig(
                output_dir="unused",
                train_batch_size=size,
                precision=precision,
                rematerialize=rematerialize,
                jit_compile=FLAGS.jit_compile,
            )
            cases.append(
                Case(
                    file,
                    train_config,
                    FLAGS.optimizer,
                    FLAGS.max_seq_length,
                    FLAGS.max_predictions_per_seq,
                    FLAGS.benchmark_steps,
                    config,
                )
            )
    return cases


def benchmark_train(cases: Sequence[Case]) -> list[dict[str, Any]]:
    """Measures each case in a process of its own, so that its memory is measured alone.

    Returns:
      JSON values of each case.
    Raises:
      ValueError: a case that cannot be built.
    """
    results = []
    for case in tqdm(cases, desc="benchmark", unit="case", disable=None):
        process = Process(_measurement, case)
        try:
            result = process()
        finally:
            process.close()
        results.append({**result, "peak_memory_megabytes": process.peak_megabytes})
    return results


def _measurement(case: Case) -> Callable[[], dict[str, Any]]:
    return lambda: _measure(case)


def _measure(case: Case) -> dict[str, Any]:
    """Times steps and matrix products in turn, so that other programs slow both."""
    train = case.train_config
    run_step, multiply = make_step(case), make_product(train.precision)
    for _ in range(2):
        step_seconds, product_seconds = run_step()[0], multiply(1)[0]
    repeats = product_repeats(step_seconds, product_seconds)
    times = [(*run_step(), *multiply(repeats)) for _ in range(case.steps)]
    # Other programs only add to a time, so the minimum is the machine's own.
    fastest, busy, fastest_product, busy_product = map(min, zip(*times, strict=True))
    flops, product_flops = step_operations(case), product_operations(repeats)
    work = flops / product_flops
    return {
        "model": case.config_file,
        "precision": train.precision,
        "rematerialize": train.rematerialize,
        "jit_compile": train.jit_compile,
        "rows": train.train_batch_size,
        "max_seq_length": case.max_seq_length,
        "steps_per_second": 1 / fastest,
        "median_steps_per_second": 1 / statistics.median(t[0] for t in times),
        "examples_per_second": train.train_batch_size / fastest,
        "examples_per_processor_second": train.train_batch_size / busy,
        "gflops_per_second": flops / fastest / 1e9,
        "matmul_gflops_per_second": product_flops / fastest_product / 1e9,
        "share_of_matmul": work * fastest_product / fastest,
        "share_of_matmul_by_processor_time": work * busy_product / busy,
    }


def make_step(case: Case) -> Callable[[], Times]:
    """Builds a training step of the case; returns a function that times one."""
    import tensorflow as tf

    from albert_tf.analysis.step_lowering import build_step
    from albert_tf.tasks.pretraining import PRETRAINING

    train = case.train_config
    optimizer = OptimizerConfig(optimizer=case.optimizer)
    step = build_step(PRETRAINING, case.config, optimizer, train)
    batch = {name: tf.constant(rows) for name, rows in random_batch(case).items()}
    seed = tf.constant([train.random_seed, 0])
    run_step = tf.function(lambda: step(batch, seed)["gradient_norm"][0])
    return timed(run_step)


def make_product(precision: str) -> Callable[[int], Times]:
    """Makes the yardstick; returns a function that times a number of products."""
    import tensorflow as tf

    shape = [_YARDSTICK_SIDE] * 2
    matrix = tf.cast(tf.random.stateless_normal(shape, [1, 2]), precision)
    multiply = tf.function(lambda: tf.matmul(matrix, matrix))
    return lambda repeats: _seconds(multiply, repeats)


def product_repeats(step_seconds: float, product_seconds: float) -> int:
    """As many products as take the time of a step: the minimum of both must be as
    rare."""
    return max(1, round(step_seconds / product_seconds))


def product_operations(repeats: int) -> int:
    """Floating-point operations of a number of the yardstick's products."""
    return 2 * _YARDSTICK_SIDE**3 * repeats


def step_operations(case: Case) -> int:
    """Floating-point operations of a step's matrix products."""
    from albert_tf.analysis import costs

    forward = costs.forward_operations(
        case.config, case.max_seq_length, case.max_predictions_per_seq
    )
    # The backward pass multiplies for the inputs and for the weights.
    return 3 * forward * case.train_config.train_batch_size


def random_batch(case: Case) -> dict[str, np.ndarray]:
    """Random tokens without padding, int32 or float32; all predictions count."""
    config = case.config
    bounds = {
        "input_ids": config.vocab_size,
        "masked_lm_ids": config.vocab_size,
        "masked_lm_positions": case.max_seq_length,
        "segment_ids": config.type_vocab_size,
        "next_sentence_labels": 2,
    }
    rng = np.random.default_rng(3)
    features = pretraining_features(case.max_seq_length, case.max_predictions_per_seq)
    batch = {}
    for name, feature in features.items():
        shape = (case.train_config.train_batch_size, *feature.shape)
        dtype = np.int32 if feature.dtype == "int64" else np.float32
        values = rng.integers(bounds[name], size=shape) if name in bounds else 1
        batch[name] = np.broadcast_to(values, shape).astype(dtype)
    return batch


def timed(function: Callable[[], Any]) -> Callable[[], Times]:
    """Makes a function that times another one, whose result is one number."""
    return lambda: _seconds(function)


def _seconds(function: Callable, repeats: int = 1) -> Times:
    """Wall clock and processor time until the results are computed."""
    began, busy = time.perf_counter(), time.process_time()
    for _ in range(repeats):
        result = function()
    # One number waits for the result; reading all of it would take time, too.
    float(result[(0,) * result.shape.rank])
    return time.perf_counter() - began, time.process_time() - busy


def _model_name(result: dict[str, Any]) -> str:
    return Path(result["model"]).stem


def _speed(result: dict[str, Any], results: Sequence[dict[str, Any]]) -> float | None:
    """Rows per processor second, divided by BERT-large's in the same kind of step."""

    def kind(other: dict[str, Any]) -> list:
        names = ("precision", "rematerialize", "jit_compile", "rows")
        return [other[name] for name in names]

    for other in results:
        if _model_name(other) == "bert_large" and kind(other) == kind(result):
            name = "examples_per_processor_second"
            return result[name] / other[name]
    return None


def benchmark_table(results: Sequence[dict[str, Any]]) -> str:
    """The results as text, one on each line, and as a line of JSON."""
    rows = [[name for name, _ in _COLUMNS]]
    for result in results:
        model = _model_name(result)
        speed = _speed(result, results)
        rows.append(
            [
                model,
                result["precision"],
                result["rematerialize"] + ("+XLA" if result["jit_compile"] else ""),
                result["rows"],
                f"{result['steps_per_second']:.3f}",
                f"{result['examples_per_second']:.2f}",
                f"{result['gflops_per_second']:.0f}",
                f"{result['matmul_gflops_per_second']:.0f}",
                f"{result['share_of_matmul']:.0%}",
                f"{result['share_of_matmul_by_processor_time']:.0%}",
                f"{speed:.2f}" if speed else "-",
                _PAPER_SPEEDS.get(model, "-"),
                f"{result['peak_memory_megabytes']:,.0f}",
            ]
        )
    lines = [
        " ".join(
            f"{cell:>{width}}" for cell, (_, width) in zip(row, _COLUMNS, strict=True)
        )
        for row in rows
    ]
    return "\n".join([*lines, json.dumps(list(results))])
