"""Measures the time that batches of rows of similar length save.

    python run_scripts/benchmark.py classifier --task_name=rte --data_dir=glue \
        --albert_config_file=configs/albert_base.json --spm_model_file=english.model

Training steps on batches of an epoch are timed with two paddings of the same rows: to
the longest row of the batch, and to --max_seq_length. Few batches are timed with both,
since the second is slow. An epoch's time is its number of steps times the mean.
"""

import json
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from absl import flags

from albert_tf.config import AlbertConfig, OptimizerConfig, TrainConfig
from albert_tf.records.sidecar import RecordSet
from albert_tf.task_config import TaskConfig
from flags import (
    classifier_data,
    common_flags,
    fine_tuning_flags,
    performance_flags,
)

if TYPE_CHECKING:
    from albert_tf.training.step import TrainStep

FLAGS = flags.FLAGS


def define_flags() -> None:
    """Defines the flags of the task, the model, and the number of steps."""
    classifier_data.define_flags()
    fine_tuning_flags.define_fine_tuning_flags()
    performance_flags.define_padding_flags()
    FLAGS.set_default("from_scratch", True)
    FLAGS.set_default("output_dir", "")


def main() -> None:
    """Measures in a temporary output folder."""
    with tempfile.TemporaryDirectory() as folder:
        FLAGS.output_dir = folder
        _measure()


def _measure() -> None:
    model, tokenizer = fine_tuning_flags.read_model()
    data = classifier_data.read_data(tokenizer, model.task_config)
    summary = make_epoch(
        model.config,
        data.task_config,
        data.train,
        common_flags.train_config(),
        FLAGS.short_steps,
        FLAGS.padded_steps,
    )()
    for name, value in summary.items():
        print(f"{name.replace('_', ' '):26} {value}")
    print(json.dumps(summary))


def make_epoch(
    config: AlbertConfig,
    task_config: TaskConfig,
    rows: RecordSet,
    train_config: TrainConfig,
    short_steps: int,
    padded_steps: int,
) -> Callable[[], dict[str, Any]]:
    """Returns a function that times steps of an epoch.

    Args:
      config: the model's configuration; nothing is dropped.
      task_config: the task.
      rows: its rows to train on.
      train_config: rows in a step, precision and padding.
      short_steps: steps timed with batches padded to their longest row.
      padded_steps: of these, steps that are also timed with full padding.
    """
    import tensorflow as tf

    from albert_tf.analysis.step_lowering import build_step
    from albert_tf.records.batches import length_multiple
    from albert_tf.records.bucketing import LengthBatches
    from albert_tf.tasks.create import create_task

    config = config.replace(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    # The rate changes no weight, so both paddings are timed with the same weights.
    optimizer = OptimizerConfig("adamw", learning_rate=1e-12, num_warmup_steps=0)
    step = build_step(create_task(task_config), config, optimizer, train_config)
    size = train_config.train_batch_size
    multiple = length_multiple(train_config, tf.distribute.get_strategy())
    narrow = LengthBatches(rows, size, multiple)
    wide = LengthBatches(rows, size, 0)
    every = max(1, rows.total_rows // size // short_steps)
    chosen = narrow.training(1, 0).shard(every, 0).take(short_steps)
    # As a run has them: the length of a batch is not known when the graph is built.
    runs = {
        kind: _timed_step(step, way.training(1, 0).map(way.pad).element_spec)
        for kind, way in {"needed": narrow, "full": wide}.items()
    }

    def measure():
        times, losses, tokens = {"needed": [], "full": []}, [], []
        for place, batch in enumerate(chosen):
            kinds = {"needed": narrow.pad(*batch)}
            tokens.append(int(kinds["needed"]["input_mask"].numpy().sum()))
            if place <= padded_steps:
                kinds["full"] = wide.pad(*batch)
            found = {kind: runs[kind](padded) for kind, padded in kinds.items()}
            if place:  # the first call also traces the graph
                for kind, (seconds, _) in found.items():
                    times[kind].append(seconds)
            if len(kinds) == 2:
                losses.append([loss for _, loss in found.values()])
        name = task_config.task_name
        summary = _summary(name, rows.total_rows, size, times, tokens)
        difference = float(np.abs(np.diff(losses)).max())
        return {**summary, "largest_loss_difference": difference}

    return measure


def _summary(
    name: str,
    rows: int,
    size: int,
    times: Mapping[str, list[float]],
    tokens: list[int],
) -> dict[str, Any]:
    """JSON values.

    Args:
      name: of the task.
      rows: in an epoch.
      size: rows in a batch.
      times: padding -> seconds of each step.
      tokens: without padding, in each batch.
    """
    means = {kind: float(np.mean(values)) for kind, values in times.items()}
    per_step = float(np.mean(tokens))
    return {
        "task": name,
        "rows": rows,
        "mean_pieces": per_step / size,
        "epoch_seconds": {kind: mean * rows / size for kind, mean in means.items()},
        "rows_per_second": {kind: size / mean for kind, mean in means.items()},
        "pieces_per_second": {kind: per_step / mean for kind, mean in means.items()},
        "times_faster": means["full"] / means["needed"],
    }


def _timed_step(
    step: "TrainStep", spec: Mapping[str, Any]
) -> Callable[[Mapping], tuple[float, float]]:
    """A function that takes an optimizer step on a batch: (seconds, loss)."""
    import tensorflow as tf

    seed = tf.constant([1, 2])
    function = tf.function(
        lambda batch: step(batch, seed)["loss"][0], input_signature=[spec]
    )

    def run(batch):
        began = time.perf_counter()
        loss = float(function(batch))
        return time.perf_counter() - began, loss

    return run
