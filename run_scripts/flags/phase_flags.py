"""Flags of pretraining in phases, whose rows differ in length."""

from collections.abc import Mapping
from typing import Any

from absl import flags

from albert_tf.records.file_names import expand_paths
from albert_tf.records.length_sets import read_sets_by_length
from albert_tf.records.sidecar import RecordSet, read_record_set
from albert_tf.training.phases import Phase, parse

FLAGS = flags.FLAGS


def define() -> None:
    """Defines `--phases`."""
    flags.DEFINE_string(
        "phases",
        "",
        "Train on rows of several lengths, one after the other: STEPS:LENGTH:BATCH, "
        "separated by commas, as 112500:128:4096,12500:512:1024. Without :BATCH a "
        "phase takes --train_batch_size. The steps are --num_train_steps together. A "
        "phase reads those files of --input_file whose rows have its length; if there "
        "are none, it cuts longer rows.",
    )


def phases() -> tuple[Phase, ...]:
    """Returns what `--phases` describes; empty: there are none.

    Raises:
      flags.Error: they are given without --do_train.
    """
    if FLAGS.phases and not FLAGS.do_train:
        raise flags.Error("--phases is for training: leave it out, or pass --do_train.")
    return parse(FLAGS.phases, FLAGS.train_batch_size)


def train_steps() -> dict[str, int]:
    """Returns `num_train_steps` if only the phases say it."""
    if not FLAGS.phases or FLAGS["num_train_steps"].present:
        return {}
    return {"num_train_steps": sum(phase.steps for phase in phases())}


def read_rows(expected: Mapping[str, Any]) -> list[RecordSet]:
    """Returns the rows of `--input_file`: with `--phases`, a set for each length.

    Args:
      expected: as for `read_record_set`.
    """
    paths = expand_paths(FLAGS.input_file)
    if FLAGS.phases:
        return read_sets_by_length(paths, expected)
    return [read_record_set(paths, expected)]
