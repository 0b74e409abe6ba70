"""Rules for the steps of a learning-rate schedule, whichever it is.

The rates themselves are computed in `optimization`.
"""

from collections.abc import Mapping
from typing import Any

from albert_tf import field_rules
from albert_tf.config import OptimizerConfig

# Settings that change no learning rate before the decay.
_OF_DECAY = ("lr_schedule", "num_train_steps", "num_decay_steps", "end_learning_rate")
SECONDS_PER_HOUR = 3600
_STABLE = ("constant", "wsd")


def warmup_end(config: OptimizerConfig) -> int:
    """The first step after warm-up."""
    warmup = config.num_warmup_steps
    return config.start_warmup_step + warmup if warmup else 0


def check_steps(config: OptimizerConfig) -> None:
    """Checks that warm-up and decay fit into the steps of training.

    A polynomial decay runs during warm-up too, and a constant rate has none: these give
    a warning instead.

    Raises:
      ValueError: warm-up ends after the decay begins, or leaves cosine no step.
    """
    schedule, steps, warmup = config.lr_schedule, config.num_train_steps, "warm-up"
    if config.start_warmup_step:
        warmup = "start_warmup_step and warm-up"
    end, decay = warmup_end(config), config.num_decay_steps
    if schedule == "wsd" and end + decay > steps:
        raise ValueError(
            f"lr_schedule=wsd: {warmup}, {end} steps, and num_decay_steps, {decay}, "
            f"are {end + decay} steps, above num_train_steps, {steps}: change one of "
            "them."
        )
    if schedule == "cosine" and end >= steps:
        raise ValueError(
            f"lr_schedule=cosine: {warmup}, {end} steps, must be below "
            f"num_train_steps, {steps}: change one of them."
        )


def check_budget(config: OptimizerConfig, max_train_hours: float) -> None:
    """Checks that a decay by time has a time in which it ends.

    Raises:
      ValueError: it has none.
    """
    if config.lr_schedule_by == "time" and not max_train_hours:
        raise ValueError(
            "lr_schedule_by=time needs the time that the run has: give "
            "--max_train_hours."
        )


def share_of_time(seconds: float, max_train_hours: float) -> float:
    """Share of the hours of training that is used, in [0, 1].

    Args:
      seconds: of training, resumptions included.
      max_train_hours: the limit, above 0.
    """
    return min(seconds / (max_train_hours * SECONDS_PER_HOUR), 1.0)


def warnings(config: OptimizerConfig, train_batch_size: int) -> list[str]:
    """Warns of values that are allowed but probably a mistake.

    Args:
      config: the optimizer and its learning rate.
      train_batch_size: rows in an optimizer step.
    """
    warnings = []
    if config.num_warmup_steps >= config.num_train_steps:
        warnings.append(
            f"num_warmup_steps {config.num_warmup_steps} is not below "
            f"num_train_steps {config.num_train_steps}: the learning rate does not "
            "come near its peak."
        )
    # The paper's rate, scaled to this batch: with LAMB, by the root of the batch
    # size (You et al. 2019).
    usual = 0.00176 * (train_batch_size / 4096) ** 0.5
    if abs(config.learning_rate / 0.00176 - 1) < 0.01 and usual < 0.001:
        warnings.append(
            f"learning_rate {config.learning_rate:g} belongs to a batch of 4096, not "
            f"of {train_batch_size}: by the root of the batch, {usual:.2g}."
        )
    return warnings


def free_settings(
    stored: Mapping[str, Any], asked: Mapping[str, Any], step: int, folder: str
) -> tuple[str, ...]:
    """The settings that a run may be resumed with other values of.

    Until its decay begins, a run of lr_schedule=constant or wsd computes the same
    whenever the decay begins and however long it is.

    Args:
      stored: settings of the run, by name.
      asked: settings of the command that resumes it.
      step: steps that the run has done.
      folder: the run's, for errors.
    Raises:
      ValueError: the decay began before this step, or would have begun.
    """
    begun, begins = _decay_start(stored), _decay_start(asked)
    changed = [name for name in _OF_DECAY if stored.get(name) != asked.get(name)]
    if begun is None or begins is None or not changed:
        return ()
    if step > begun:
        name = changed[0]
        raise ValueError(
            f"{folder} holds a run at step {step} whose decay began at step {begun} "
            f"with {name}={stored.get(name)}, but {name}={asked[name]} is asked for: "
            f"resume a copy of it whose last checkpoint is of step {begun} or before."
        )
    if step > begins:
        steps, decay = asked["num_train_steps"], asked["num_decay_steps"]
        raise ValueError(
            f"{folder} holds a run at step {step}: with num_decay_steps={decay}, "
            f"num_train_steps must be at least {step + decay}. Received {steps}."
        )
    return _OF_DECAY


def _decay_start(settings: Mapping[str, Any]) -> int | None:
    """Steps at the peak or in warm-up; None: the schedule decays throughout, or begins
    at a time."""
    steps = settings.get("num_train_steps", -1)
    decay = settings.get("num_decay_steps", -1)
    is_whole = field_rules.whole(steps, 1) and field_rules.whole(decay, 0)
    by_time = settings.get("lr_schedule_by") == "time"
    if settings.get("lr_schedule") not in _STABLE or by_time or not is_whole:
        return None
    return steps - decay
