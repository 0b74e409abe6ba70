"""Flags of what looks at a training step from outside: preflight and benchmark."""

import sys
from collections.abc import Sequence

from absl import flags

from albert_tf.config import TrainConfig
from flags import common_flags, data_flags, fields, optimizer_flags

FLAGS = flags.FLAGS


def define_preflight_flags() -> None:
    """For which TPU a step is compiled, and how."""
    common_flags.define_config_file_flag()
    flags.DEFINE_list(
        "topology",
        ["v3:2x2"],
        "Generation and shape of the TPU, one or several: v3:2x2,v4:2x2x1,v5e:2x2.",
    )
    flags.DEFINE_integer(
        "batch_per_core", 32, "Rows that a core computes at once.", lower_bound=1
    )
    flags.DEFINE_list(
        "cores",
        ["8"],
        "Cores that train together, one or several numbers: each is a slice.",
    )
    flags.DEFINE_bool(
        "find_batch",
        False,
        "Search, from --batch_per_core, for the most rows a core that fit.",
    )
    flags.DEFINE_string(
        "compiler_python",
        sys.executable,
        "Python that has jax and libtpu, if this one has not.",
    )
    common_flags.define_max_seq_length_flag(512)
    common_flags.define_max_predictions_flag()
    common_flags.define_step_flags(precision="bfloat16")
    optimizer_flags.define_choice("lamb")


def define_train_benchmark_flags() -> None:
    """Defines the training steps to measure: every combination of the lists."""
    flags.DEFINE_list(
        "albert_config_files",
        None,
        "Shapes of models, JSON; see configs/.",
        required=True,
    )
    define_precisions_flag()
    flags.DEFINE_list("rematerializations", ["none"], "As --rematerialize.")
    flags.DEFINE_list("batch_sizes", ["8"], "Rows in a step.")
    define_benchmark_steps_flag(20)
    common_flags.define_jit_compile_flag()
    _define_row_flags()


def define_training_benchmark_flags(
    measures: Sequence[str], peers: Sequence[str]
) -> None:
    """Defines what of training and evaluation is measured, and beside what."""
    common_flags.define_output_dir_flag("Folder for training.json and training.md.")
    common_flags.define_config_file_flag()
    common_flags.define_config_override_flag()
    flags.DEFINE_list("measures", [*measures], "What is measured.")
    define_peers_flag(peers, "Libraries that take the same step.")
    define_precisions_flag()
    define_benchmark_steps_flag(12)
    fields.define(
        TrainConfig,
        "train_batch_size",
        "eval_batch_size",
        train_batch_size=8,
        eval_batch_size=16,
    )
    _define_row_flags()
    common_flags.define_data_dir_flag(
        "Folder of GLUE with CoLA and RTE, for fine_tuning. Empty: left out."
    )
    common_flags.define_tokenizer_flags()
    define_padding_flags()


def _define_row_flags() -> None:
    common_flags.define_max_seq_length_flag(128)
    common_flags.define_max_predictions_flag()
    optimizer_flags.define_choice("lamb")


def define_input_benchmark_flags() -> None:
    """Defines the set of `benchmark.py input` and how long it is read."""
    flags.DEFINE_integer(
        "benchmark_rows", 500_000, "Rows of 512 tokens that are made.", lower_bound=64
    )
    flags.DEFINE_float(
        "benchmark_seconds",
        5.0,
        "Seconds for which each worker reads.",
        lower_bound=0.0,
    )
    data_flags.define_work_dir_flag(
        "Folder of the rows, which are kept and used again. Default: a temporary one."
    )


def define_precisions_flag() -> None:
    """Defines `--precisions`."""
    flags.DEFINE_list("precisions", ["float32", "bfloat16"], "As --precision.")


def define_benchmark_steps_flag(default: int) -> None:
    """Defines `--benchmark_steps`."""
    flags.DEFINE_integer(
        "benchmark_steps", default, "Steps of each kind that are timed.", lower_bound=1
    )


def define_padding_flags() -> None:
    """Defines the steps of fine-tuning that are timed."""
    flags.DEFINE_integer(
        "short_steps",
        40,
        "Steps timed with batches padded to their longest row.",
        lower_bound=2,
    )
    flags.DEFINE_integer(
        "padded_steps",
        4,
        "Of these, steps that are also timed with full padding.",
        lower_bound=1,
    )


def define_peers_flag(names: Sequence[str], meaning: str) -> None:
    """Defines `--peers`, some of the names."""
    flags.DEFINE_list("peers", [*names], f"{meaning} Empty: none.")


def whole_numbers(name: str) -> list[int]:
    """The numbers that a flag lists.

    Raises:
      flags.Error: one is not a whole number.
    """
    values = FLAGS[name].value
    try:
        return [int(value) for value in values]
    except ValueError:
        raise flags.Error(
            f"--{name} are whole numbers. Received {','.join(values)}."
        ) from None


def check_list(name: str, known: Sequence[str]) -> None:
    """Raises flags.Error if a flag lists something unknown."""
    unknown = set(FLAGS[name].value) - {*known}
    if unknown:
        raise flags.Error(
            f"--{name} are of {', '.join(known)}. Received "
            f"{', '.join(sorted(unknown))}."
        )
