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
import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from absl import flags
from tqdm import tqdm

from albert_tf.config import AlbertConfig, OptimizerConfig, TrainConfig

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
      config_file: the model's configuration.
      train_config: rows in a step, precision, recomputation, compilation.
      optimizer: "lamb" or "adamw".
      max_seq_length: tokens in a row.
      max_predictions_per_seq: masked tokens in a row.
      steps: number of steps that are timed.
    """

    config_file: str
    train_config: TrainConfig
    optimizer: str
    max_seq_length: int
    max_predictions_per_seq: int
    steps: int


def main() -> None:
    """Prints the table."""
    print(benchmark_table(benchmark_train(_cases_of_flags())))


def _cases_of_flags() -> list[Case]:
    try:
        sizes = [int(size) for size in FLAGS.batch_sizes]
    except ValueError:
        raise flags.Error(
            f"--batch_sizes are whole numbers. Received {','.join(FLAGS.batch_sizes)}."
        ) from None
    choices = (FLAGS.precisions, FLAGS.rematerializations, sizes)
    cases = []
    for file in FLAGS.albert_config_files:
        longest = AlbertConfig.from_json(file).max_position_embeddings
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
    context = multiprocessing.get_context("spawn")
    results = []
    for case in tqdm(cases, desc="benchmark", unit="case", disable=None):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_send_measurement, args=(sender, case))
        process.start()
        sender.close()
        try:
            result = receiver.recv()
        except EOFError:
            raise ValueError(
                f"The process that measured {case} died, of memory most likely: use "
                "fewer rows."
            ) from None
        finally:
            process.join()
        if isinstance(result, Exception):
            raise result
        results.append(result)
    return results


def _send_measurement(sender: Connection, case: Case) -> None:
    try:
        sender.send(_measure(case))
    except (ValueError, OSError) as error:
        sender.send(error)


def _measure(case: Case) -> dict[str, Any]:
    """Times steps and matrix products in turn, so that other programs slow both."""
    import tensorflow as tf

    from albert_tf.analysis import costs
    from albert_tf.analysis.step_lowering import batch_specs, build_step
    from albert_tf.records.features import pretraining_features
    from albert_tf.tasks.pretraining import PRETRAINING

    train, config = case.train_config, AlbertConfig.from_json(case.config_file)
    optimizer = OptimizerConfig(optimizer=case.optimizer)
    step = build_step(PRETRAINING, config, optimizer, train)
    features = pretraining_features(case.max_seq_length, case.max_predictions_per_seq)
    specs = batch_specs(features, train.train_batch_size)
    batch = _random_batch(specs, config, case.max_seq_length)
    seed = tf.constant([train.random_seed, 0])
    run_step = tf.function(lambda: step(batch, seed)["gradient_norm"][0])

    shape = [_YARDSTICK_SIDE] * 2
    matrix = tf.cast(tf.random.stateless_normal(shape, [1, 2]), train.precision)
    multiply = tf.function(lambda: tf.matmul(matrix, matrix))
    _seconds(run_step), _seconds(multiply)
    # As many products as take the time of a step: the minimum of both must be as rare.
    repeats = max(1, round(_seconds(run_step)[0] / _seconds(multiply)[0]))
    times = [
        (*_seconds(run_step), *_seconds(multiply, repeats)) for _ in range(case.steps)
    ]

    forward = costs.forward_operations(
        config, case.max_seq_length, case.max_predictions_per_seq
    )
    # The backward pass multiplies for the inputs and for the weights.
    step_flops = 3 * forward * train.train_batch_size
    product_flops = 2 * _YARDSTICK_SIDE**3 * repeats
    # Other programs only add to a time, so the minimum is the machine's own.
    fastest, busy, fastest_product, busy_product = map(min, zip(*times, strict=True))
    work = step_flops / product_flops
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
        "gflops_per_second": step_flops / fastest / 1e9,
        "matmul_gflops_per_second": product_flops / fastest_product / 1e9,
        "share_of_matmul": work * fastest_product / fastest,
        "share_of_matmul_by_processor_time": work * busy_product / busy,
        "peak_memory_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        / 1e3,
    }


def _random_batch(
    specs: Mapping[str, Any], config: AlbertConfig, max_seq_length: int
) -> dict[str, Any]:
    """Rows of random tokens without padding; all predictions are used."""
    import tensorflow as tf

    bounds = {
        "input_ids": config.vocab_size,
        "masked_lm_ids": config.vocab_size,
        "masked_lm_positions": max_seq_length,
        "segment_ids": config.type_vocab_size,
        "next_sentence_labels": 2,
    }
    return {
        name: tf.random.stateless_uniform(
            spec.shape, [3, place], maxval=bounds[name], dtype=spec.dtype
        )
        if name in bounds
        else tf.ones(spec.shape, spec.dtype)
        for place, (name, spec) in enumerate(specs.items())
    }


def _seconds(function: Callable, repeats: int = 1) -> tuple[float, float]:
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
