"""Measures what batches of about one length save, beside padding all to the longest.

    python run_scripts/benchmark.py classifier --task_name=rte --data_dir=glue \
        --albert_config_file=configs/albert_base.json --spm_model_file=english.model

Training steps of batches drawn from an epoch are timed twice, padded as far as they
need and padded to --max_seq_length, with the same rows and weights; the first, being
faster, on more batches. An epoch's time is its number of steps times the mean.
"""

import json
import tempfile
import time

import numpy as np
from absl import flags

from flags import classifier_data, common_flags, fine_tuning_flags

FLAGS = flags.FLAGS

_LENGTH_MULTIPLE = 8


def define_flags() -> None:
    """The task, the model, and how much of an epoch is timed."""
    classifier_data.define_flags()
    fine_tuning_flags.define_fine_tuning_flags()
    flags.DEFINE_integer("short_steps", 40, "Steps timed as far padded as needed.")
    flags.DEFINE_integer("padded_steps", 4, "Of these, steps timed fully padded too.")
    FLAGS.set_default("from_scratch", True)
    FLAGS.set_default("output_dir", "")


def main():
    with tempfile.TemporaryDirectory() as folder:
        FLAGS.output_dir = folder
        _measure()


def _measure():
    from albert_tf.analysis.step_lowering import build_step
    from albert_tf.config import OptimizerConfig
    from albert_tf.records.bucketing import LengthBatches

    model = fine_tuning_flags.read_model()
    data = classifier_data.from_flags(model)
    rows = data.train_rows()
    config = model.config.replace(
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    # A rate that moves nothing, so that both kinds of batches meet the same weights.
    optimizer = OptimizerConfig("adamw", learning_rate=1e-12, num_warmup_steps=0)
    train_config = common_flags.train_config()
    step = build_step(data.task(0.0), config, optimizer, train_config)
    size = train_config.train_batch_size
    narrow = LengthBatches(rows, size, _LENGTH_MULTIPLE)
    wide = LengthBatches(rows, size, 0)
    every = max(1, rows.total_rows // size // FLAGS.short_steps)
    chosen = narrow.training(1, 0).shard(every, 0).take(FLAGS.short_steps)
    run = _timed_step(step)
    times, losses, pieces = {"needed": [], "full": []}, {"needed": [], "full": []}, []
    for place, batch in enumerate(chosen):
        kinds = {"needed": narrow.pad(*batch)}
        pieces.append(int(kinds["needed"]["input_mask"].numpy().sum()))
        if place <= FLAGS.padded_steps:
            kinds["full"] = wide.pad(*batch)
        for kind, padded in kinds.items():
            seconds, loss = run(padded)
            if place:  # the first one's time is that of making the graph
                times[kind].append(seconds)
            if len(kinds) == 2:
                losses[kind].append(loss)
    summary = _summary(data.name, rows.total_rows, size, times, pieces)
    differences = np.subtract(losses["full"], losses["needed"])
    summary["largest_loss_difference"] = float(abs(differences).max())
    for name, value in summary.items():
        print(f"{name.replace('_', ' '):26} {value}")
    print(json.dumps(summary))


def _summary(name, rows, size, times, pieces):
    means = {kind: float(np.mean(values)) for kind, values in times.items()}
    per_step = float(np.mean(pieces))
    return {
        "task": name,
        "rows": rows,
        "mean_pieces": per_step / size,
        "epoch_seconds": {kind: mean * rows / size for kind, mean in means.items()},
        "rows_per_second": {kind: size / mean for kind, mean in means.items()},
        "pieces_per_second": {kind: per_step / mean for kind, mean in means.items()},
        "times_faster": means["full"] / means["needed"],
    }


def _timed_step(step):
    """A function of a batch that takes an optimizer step: (seconds, loss)."""
    import tensorflow as tf

    seed = tf.constant([1, 2])
    function = tf.function(
        lambda batch: step(batch, seed)["loss"][0], reduce_retracing=True
    )

    def run(batch):
        began = time.perf_counter()
        loss = float(function(batch))
        return time.perf_counter() - began, loss

    return run
