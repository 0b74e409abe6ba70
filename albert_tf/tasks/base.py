"""Tasks as data: what the one loop of `training.py` needs to know about each.

A new task is a new value here, never a new loop.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tf_keras

from albert_tf.config import AlbertConfig


class WeightedMean(NamedTuple):
    """A number that is a weighted mean over a data set.

    Attributes:
      values: (outputs, batch) -> float32 tensor.
      weights: batch -> float32 tensor of the same shape.
    """

    values: Callable[[Mapping, Mapping], Any]
    weights: Callable[[Mapping], Any]


@dataclasses.dataclass(frozen=True)
class Task:
    """One task.

    Attributes:
      name: as reports call it.
      build_model: (model configuration, seed, rematerialize) -> model whose call takes
        a batch.
      read_batch: features as parsed from records -> the batch under the code's names.
      losses: name -> loss; training minimises the sum of their means.
      metrics: name -> score; evaluation reports them and the losses.
      best_metric: the score that the best checkpoint is chosen by; higher is better.
      predictions: (outputs, batch) -> name -> tensor [B, ...], what is kept of each row
        when a set is evaluated or predicted; sizes after B are those of every batch.
        None: nothing.
      score: those of all rows, in their order -> more scores; computed on the host.
    """

    name: str
    build_model: Callable[[AlbertConfig, int, str], tf_keras.Model]
    read_batch: Callable[[Mapping], dict]
    losses: Mapping[str, WeightedMean]
    metrics: Mapping[str, WeightedMean]
    best_metric: str
    predictions: Callable[[Mapping, Mapping], dict] | None = None
    score: Callable[[Mapping[str, np.ndarray]], dict[str, float]] | None = None
