"""Averaged weights in checkpoints: their names, and the check that they are meant.

Checkpoints of a run with `ema_decay` hold the averages beside the weights. Its best
weights are one of the two: if averages, they are stored as weights, with their decay.
"""

# Keys of an own checkpoint: averages beside the weights, and the decay of averages in
# the place of the weights.
AVERAGES, EMA_DECAY = "averages", "ema_decay"


def check_averages(source: str, averaged: bool, use_ema: bool | None) -> None:
    """Raises ValueError if weights are averages and should not be, or the reverse.

    Args:
      source: what holds them.
      averaged: whether they are averages.
      use_ema: as of `open_checkpoint`.
    """
    if use_ema and not averaged:
        raise ValueError(
            f"{source} holds no averaged weights: leave --use_ema out, or name a "
            "checkpoint of a run with --ema_decay."
        )
    if averaged and use_ema is False:
        raise ValueError(
            f"{source} holds averaged weights alone: leave --nouse_ema out, or name a "
            "checkpoint of the run, by its path up to '.index', not those in best/."
        )
