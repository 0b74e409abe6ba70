r"""Compiles the real training step for a TPU on a machine that has none.

    pip install jax libtpu     # or: --compiler_python=/another/environment/bin/python
    python run_scripts/tpu_preflight.py --topology=v3:2x2 --batch_per_core=32 \
        --albert_config_file=configs/albert_base.json --rematerialize=attention

Prints if the step fits a core's memory, its operations and bytes moved, and the least
time that it takes (the longer of computing and moving). For slices of `--cores` cores:
the time of the sum of gradients, the days of 125,000 steps of 4,096 rows, and the rows
that each host must read. Then the largest temporary tensors and the operations that
move most. The compiler sees one core. Of several accumulation steps it counts the work
of one and the memory of all. `--find_batch` finds the largest batch that fits.
"""

import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from absl import flags

from albert_tf.config import AlbertConfig, OptimizerConfig, TrainConfig
from dev import tpu_report
from flags import common_flags, performance_flags

if TYPE_CHECKING:
    import tensorflow as tf

    from albert_tf.training.step import TrainStep

FLAGS = flags.FLAGS


def main() -> None:
    """Prints a line for each compilation; for each topology tables and JSON."""
    # The step is lowered and never run, so no GPU is needed.
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    from albert_tf.model.precision import check_tpu_precision

    config = AlbertConfig.from_json(FLAGS.albert_config_file)
    if FLAGS.max_seq_length > config.max_position_embeddings:
        raise ValueError(
            "max_seq_length must be at most max_position_embeddings. Received "
            f"{FLAGS.max_seq_length} and {config.max_position_embeddings}: lower "
            "--max_seq_length or use a model made for longer input."
        )
    cores = performance_flags.whole_numbers("cores")
    topologies = [tpu_report.check_topology(name, cores) for name in FLAGS.topology]
    check_tpu_precision(FLAGS.precision)
    tpu_report.check_compiler(FLAGS.compiler_python)
    step = _build_step(config)
    sums = _summed_and_read(step)
    print(tpu_report.HEADER, flush=True)
    with tempfile.TemporaryDirectory() as folder:

        def measure(topology: str, rows: int) -> tpu_report.Report:
            file = Path(folder) / f"step_{rows}.mlir"
            if not file.exists():
                file.write_text(_lower(step, rows), encoding="utf-8")
            figures = tpu_report.compile_step(file, topology, FLAGS.compiler_python)
            report = tpu_report.Report(topology, rows, cores, figures | sums)
            print(report.line(), flush=True)
            return report

        rows = FLAGS.batch_per_core
        for topology in topologies:
            report = measure(topology, rows)
            if FLAGS.find_batch:
                report = tpu_report.find_largest(measure, report)
                rows = report.rows  # a good start for the next topology
            if tables := report.tables():
                print(tables)
            print(json.dumps(report.values()), flush=True)


def _build_step(config: AlbertConfig) -> "TrainStep":
    from albert_tf.analysis.step_lowering import build_step
    from albert_tf.tasks.pretraining import PRETRAINING

    train_config = TrainConfig(
        output_dir="unused",
        precision=FLAGS.precision,
        rematerialize=FLAGS.rematerialize,
        gradient_accumulation_steps=FLAGS.gradient_accumulation_steps,
    )
    optimizer_config = OptimizerConfig(optimizer=FLAGS.optimizer)
    return build_step(PRETRAINING, config, optimizer_config, train_config)


def _summed_and_read(step: "TrainStep") -> dict[str, int]:
    """Bytes of gradients that a step sums over cores, and of a row that it reads."""
    from albert_tf.analysis.step_lowering import batch_bytes, gradient_bytes

    return {
        "gradient_bytes": gradient_bytes(step),
        "row_bytes": batch_bytes(_specs(rows=1)),
    }


def _lower(step: "TrainStep", rows: int) -> str:
    from albert_tf.analysis.step_lowering import lower_step

    return lower_step(step, _specs(rows * FLAGS.gradient_accumulation_steps))


def _specs(rows: int) -> "dict[str, tf.TensorSpec]":
    from albert_tf.analysis.step_lowering import batch_specs
    from albert_tf.records.features import pretraining_features

    features = pretraining_features(FLAGS.max_seq_length, FLAGS.max_predictions_per_seq)
    return batch_specs(features, rows)


if __name__ == "__main__":
    performance_flags.define_preflight_flags()
    common_flags.run(main)
