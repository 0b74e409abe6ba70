"""Flags of the optimizer and its schedule."""

from typing import Any

from albert_tf.config import OptimizerConfig
from flags import fields


def define(**defaults: Any) -> None:
    """Defines the optimizer and its schedule.

    Args:
      **defaults: by flag name, in place of those of `OptimizerConfig`.
    """
    fields.define(
        OptimizerConfig,
        "optimizer",
        "learning_rate",
        "lr_schedule",
        "poly_power",
        "num_train_steps",
        "num_warmup_steps",
        "start_warmup_step",
        "num_decay_steps",
        "lr_schedule_by",
        "ema_decay",
        "layer_decay",
        "head_learning_rate",
        "freeze",
        **defaults,
    )


def define_choice(default: str) -> None:
    """Defines `--optimizer` alone."""
    fields.define(OptimizerConfig, "optimizer", optimizer=default)


def config(**values: Any) -> OptimizerConfig:
    """Returns what `define` describes; `values` replace flags."""
    return fields.read(OptimizerConfig, **values)
