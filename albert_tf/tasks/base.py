"""`Task`: everything that the training loop needs to know about one task.

A new task is a new value of this class; the loop does not change.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf
import tf_keras

from albert_tf.records.features import Features

Tensors: TypeAlias = Mapping[str, tf.Tensor]
Arrays: TypeAlias = Mapping[str, np.ndarray]


class WeightedMean(NamedTuple):
    """A number that is a weighted mean over a data set.

    Attributes:
      values: (outputs, batch) -> float32 tensor.
      weights: batch -> float32 tensor of the same shape.
    """

    values: Callable[[Tensors, Tensors], tf.Tensor]
    weights: Callable[[Tensors], tf.Tensor]


@dataclasses.dataclass(frozen=True)
class Task:
    """One task.

    Attributes:
      name: name of the task in reports.
      build_model: (model configuration, seed=..., rematerialize=...) -> model, which is
        called with a batch; the keywords are those of `AlbertEncoder`.
      losses: name -> loss; training minimizes the sum of their means.
      evaluation_losses: those that evaluations report; empty: the same.
      best_metric: metric that the best checkpoint is chosen by; higher is better.
      metrics: name -> metric; evaluation reports them and the losses.
      read_batch: features as parsed from records -> the batch under the code's names.
      predictions: (outputs, batch) -> name -> tensor [B, ...], the values to keep for
        each row that is evaluated or predicted; sizes after B that differ between
        batches are padded with 0. None: nothing is kept.
      host_metrics: predictions of the rows that were evaluated, in their order, and
        `row_index`, their places in the data set -> more metrics, computed on the host.
        None: there are no more.
      details: predictions of all rows of a split -> JSON values that its final report
        has besides the metrics, as a table of classes. None: there are none.
      pair_objective: what the segments of pretraining rows must be for the labels of
        their pairs to mean what the task learns; None: it does not learn these.
      features: values of a sidecar -> the features that its rows must have; None: not
        checked.
      can_grow: true if the model's call takes `num_layers`, as that of `AlbertEncoder`.
    """

    name: str
    build_model: Callable[..., tf_keras.Model]
    losses: Mapping[str, WeightedMean]
    best_metric: str
    evaluation_losses: Mapping[str, WeightedMean] = dataclasses.field(
        default_factory=dict
    )
    metrics: Mapping[str, WeightedMean] = dataclasses.field(default_factory=dict)
    read_batch: Callable[[Mapping[str, Any]], dict[str, Any]] = dict
    predictions: Callable[[Tensors, Tensors], dict[str, tf.Tensor]] | None = None
    host_metrics: Callable[[Arrays], dict[str, float]] | None = None
    details: Callable[[Arrays], dict[str, Any]] | None = None
    pair_objective: str | None = None
    features: Callable[[Mapping[str, Any]], Features] | None = None
    can_grow: bool = False


def join_rows(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Joins arrays [B, ...] of several batches, each padded with 0 to the largest
    sizes."""
    sizes = np.max([part.shape[1:] for part in parts], axis=0).astype(int)
    whole = np.zeros([sum(map(len, parts)), *sizes], parts[0].dtype)
    first = 0
    for part in parts:
        rows = slice(first, first + len(part))
        whole[(rows, *map(slice, part.shape[1:]))] = part
        first += len(part)
    return whole
