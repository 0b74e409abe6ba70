"""Flags of what looks at a training step from outside: preflight and benchmark."""

import sys

from absl import flags

from flags import common_flags


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
    flags.DEFINE_integer(
        "cores", 8, "Cores that train together, for the days.", lower_bound=1
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
    common_flags.define_optimizer_choice_flag("lamb")


def define_train_benchmark_flags() -> None:
    """Defines the training steps to measure: every combination of the lists."""
    flags.DEFINE_list(
        "albert_config_files",
        None,
        "Shapes of models, JSON; see configs/.",
        required=True,
    )
    flags.DEFINE_list("precisions", ["float32", "bfloat16"], "As --precision.")
    flags.DEFINE_list("rematerializations", ["none"], "As --rematerialize.")
    flags.DEFINE_list("batch_sizes", ["8"], "Rows in a step.")
    flags.DEFINE_integer(
        "benchmark_steps", 20, "Steps of each kind that are timed.", lower_bound=1
    )
    common_flags.define_jit_compile_flag()
    common_flags.define_max_seq_length_flag(128)
    common_flags.define_max_predictions_flag()
    common_flags.define_optimizer_choice_flag("lamb")
