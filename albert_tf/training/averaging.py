"""Averaged weights in the place of a model's own."""

import contextlib
from collections.abc import Iterator

import tensorflow as tf

from albert_tf.training.optimization import AdamW


@contextlib.contextmanager
def averages_in_place(optimizer: AdamW) -> Iterator[None]:
    """Lets a model have the averages as its weights; afterwards its own bits again.

    Call it on the host, outside of graphs. Checkpoints that are saved meanwhile would
    have the two exchanged.

    Args:
      optimizer: of the model; without averages nothing happens.
    """
    pairs = [*zip(optimizer.trained_variables, optimizer.averages, strict=False)]
    _exchange(pairs)
    try:
        yield
    finally:
        _exchange(pairs)


def _exchange(pairs: list[tuple[tf.Variable, tf.Variable]]) -> None:
    """Exchanges two variables of each pair, with room for one of them more."""
    for one, other in pairs:
        kept = tf.identity(one.read_value())
        one.assign(other.read_value())
        other.assign(kept)
