"""The options of fine-tuning and their defaults, those of the original's classifier."""

import dataclasses
import difflib
import math
from collections.abc import Mapping
from typing import Any

from albert_tf.config import OptimizerConfig, TrainConfig

OPTIMIZER = OptimizerConfig(
    "adamw", learning_rate=5e-5, num_train_steps=1000, num_warmup_steps=0
)
# Settings of `TrainConfig` that differ from those of pretraining.
TRAIN = {"train_batch_size": 32, "eval_batch_size": 8, "save_checkpoints_steps": 1000}

LOSS_SETTINGS = ("class_weights", "label_smoothing", "focal_gamma")


@dataclasses.dataclass(frozen=True)
class FineTuningConfig:
    """Options of fine-tuning beside those of the optimizer and of the loop.

    Attributes:
      num_runs: number of runs, each from its own seed.
      num_train_epochs: training epochs; if above 0, they decide instead of
        num_train_steps. On a command line, steps that are given alone replace a
        script's default of epochs.
      warmup_proportion: share of the steps that warm up; used with num_train_epochs
        only, instead of num_warmup_steps.
      classifier_dropout: probability of dropping a value of the head's input.
      class_weights: weights of the examples of each label in training: "balanced", so
        that all labels count as much as their share of equal ones would
        (scikit-learn's formula; of several labels a text, rows without the label by
        rows with it), or "label:weight,..." for those that differ from 1. Evaluations
        are not weighted.
      label_smoothing: classifiers: share of the target that is spread evenly over the
        labels in training.
      focal_gamma: classifiers: exponent of the focal loss of training; 0: plain
        cross-entropy.
      unshare: allow layers that share weights in the start model to start as copies of
        them; a model that shares all parameters gets its own for every layer.
      null_threshold: SQuAD v2.0: threshold in the place of the task's; None: the
        task's.
      tune_threshold: SQuAD v2.0: find the threshold of the best F1 on the split "dev"
        and store it with the model. Several labels a text: find that of each label;
        training always does.
    """

    num_runs: int = 1
    num_train_epochs: float = 0.0
    warmup_proportion: float = 0.1
    classifier_dropout: float = 0.1
    class_weights: str = ""
    label_smoothing: float = 0.0
    focal_gamma: float = 0.0
    unshare: bool = False
    null_threshold: float | None = None
    tune_threshold: bool = False

    def __post_init__(self):
        if self.num_runs < 1:
            raise ValueError(f"num_runs must be at least 1. Received {self.num_runs}.")
        if not (math.isfinite(self.num_train_epochs) and self.num_train_epochs >= 0):
            raise ValueError(
                "num_train_epochs must be a number of at least 0. Received "
                f"{self.num_train_epochs}."
            )
        if not 0 <= self.warmup_proportion <= 1:
            raise ValueError(
                f"warmup_proportion must be in [0, 1]. Received "
                f"{self.warmup_proportion}."
            )
        if not 0 <= self.classifier_dropout < 1:
            raise ValueError(
                "classifier_dropout must be at least 0 and below 1. Received "
                f"{self.classifier_dropout}."
            )
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(
                "label_smoothing must be at least 0 and below 1. Received "
                f"{self.label_smoothing}."
            )
        if not (math.isfinite(self.focal_gamma) and self.focal_gamma >= 0):
            raise ValueError(
                "focal_gamma must be a number of at least 0. Received "
                f"{self.focal_gamma}."
            )

    @property
    def loss_settings(self) -> dict[str, Any]:
        """The settings of a classifier's loss."""
        return {name: getattr(self, name) for name in LOSS_SETTINGS}

    def schedule(
        self, optimizer_config: OptimizerConfig, rows: int, batch_size: int
    ) -> OptimizerConfig:
        """Returns the optimizer's configuration with the steps of num_train_epochs."""
        if not self.num_train_epochs:
            return optimizer_config
        steps = max(1, round(rows * self.num_train_epochs / batch_size))
        return dataclasses.replace(
            optimizer_config,
            num_train_steps=steps,
            num_warmup_steps=int(steps * self.warmup_proportion),
        )


def split_settings(
    output_dir: str, settings: Mapping[str, Any]
) -> tuple[FineTuningConfig, OptimizerConfig, TrainConfig]:
    """Returns the three configurations that settings by name describe.

    Args:
      output_dir: folder of the run.
      settings: values of fields of the three classes; the rest keep the defaults of
        fine-tuning.
    Raises:
      ValueError: no such field, or a value out of range.
    """
    classes = (FineTuningConfig, OptimizerConfig, TrainConfig)
    names = [{field.name for field in dataclasses.fields(cls)} for cls in classes]
    known = set().union(*names)
    for name in settings:
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            hint = f" Did you mean {close[0]}?" if close else ""
            raise ValueError(
                f"Fine-tuning has no setting {name!r}.{hint} Settings are the fields "
                "of FineTuningConfig, OptimizerConfig and TrainConfig."
            )
    values = [{n: v for n, v in settings.items() if n in fields} for fields in names]
    train_config = TrainConfig(**{**TRAIN, **values[2], "output_dir": output_dir})
    if not train_config.eval_steps:
        steps = train_config.save_checkpoints_steps
        train_config = dataclasses.replace(train_config, eval_steps=steps)
    return (
        FineTuningConfig(**values[0]),
        dataclasses.replace(OPTIMIZER, **values[1]),
        train_config,
    )
