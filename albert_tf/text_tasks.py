"""Configurations of the tasks of tables of texts; `task_config.py` has the others."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar, TypeAlias

from albert_tf import field_rules
from albert_tf.field_rules import choices, count, optional

# How the windows of a long text make one prediction.
WINDOW_POOLINGS = ("mean", "max", "first")
# Rules of the fields of windows.
_POOLING = {**optional(choices(*WINDOW_POOLINGS)), "choices": WINDOW_POOLINGS}
_STRIDE, _WINDOWS = count(1, 2**31 - 1), count(1, 1000)


@dataclasses.dataclass(frozen=True)
class Classification:
    """Labels for one text or a pair of texts.

    Attributes:
      task_name: name of the task in reports, as "mnli" or "custom".
      labels: names of the labels, in the order of the model's outputs.
      metrics: names of `albert_tf.tasks.metrics.METRICS`; the first one chooses the
        best checkpoint.
      max_seq_length: longest row in tokens; None: as long as the model reads.
      columns: columns of the tables that hold the texts, as `tables.Columns` of data
        preparation; empty: unknown.
      threshold: probability that clients of an exported model compare with; None:
        the likeliest label counts.
      window_pooling: how the windows of a text that is longer than a row make one
        prediction: by the mean or the largest values of their pooled outputs, or by the
        first window alone; None: such a text is cut at its end.
      doc_stride: of such a text, tokens from the start of a window to the start of the
        next.
      max_windows: most windows of a text; tokens after them are lost.
    """

    kind: ClassVar[str] = "classification"
    task_name: str
    labels: Sequence[str]
    metrics: Sequence[str] = ("eval_accuracy",)
    max_seq_length: int | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)
    threshold: float | None = None
    window_pooling: str | None = field(default=None, metadata=_POOLING)
    doc_stride: int = field(default=128, metadata=_STRIDE)
    max_windows: int = field(default=8, metadata=_WINDOWS)

    def __post_init__(self):
        field_rules.check_fields(self)
        object.__setattr__(self, "labels", tuple(self.labels))
        object.__setattr__(self, "metrics", tuple(self.metrics))
        if not self.labels:
            raise ValueError(
                f"A classification needs labels. Received none for {self.task_name!r}."
            )
        if not self.metrics:
            raise ValueError(
                "A classification needs a metric to choose its best checkpoint by. "
                f"Received none for {self.task_name!r}."
            )

    @property
    def has_text_pair(self) -> bool:
        """True if rows have two texts."""
        return self.columns.get("text_pair") is not None

    def to_dict(self) -> dict[str, Any]:
        """JSON values of `task.json`."""
        return {
            "kind": self.kind,
            "task_name": self.task_name,
            "labels": list(self.labels),
            "scores": list(self.metrics),
            "bounds": None,
            **present(self, "max_seq_length", "columns", "threshold"),
            **window_values(self),
        }


@dataclasses.dataclass(frozen=True)
class MultiLabel:
    """Any number of labels, or none, for one text or a pair of texts.

    Attributes:
      task_name: name of the task in reports, as "custom".
      labels: names of the labels, in the order of the model's outputs.
      max_seq_length: longest row in tokens; None: as long as the model reads.
      columns: as `Classification`.
      thresholds: probability from which on a label counts, of each label; empty: 0.5.
      label_separator: text between the labels of a row of a table.
      numbered_labels: whether tables have the places of labels, from 0, in the place
        of their names.
      window_pooling, doc_stride, max_windows: as `Classification`.
    """

    kind: ClassVar[str] = "multi_label"
    task_name: str
    labels: Sequence[str]
    max_seq_length: int | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)
    thresholds: Sequence[float] = ()
    label_separator: str = ","
    numbered_labels: bool = False
    window_pooling: str | None = field(default=None, metadata=_POOLING)
    doc_stride: int = field(default=128, metadata=_STRIDE)
    max_windows: int = field(default=8, metadata=_WINDOWS)

    def __post_init__(self):
        field_rules.check_fields(self)
        object.__setattr__(self, "labels", tuple(self.labels))
        object.__setattr__(self, "thresholds", tuple(self.thresholds))
        if not self.labels or len(set(self.labels)) < len(self.labels):
            raise ValueError(
                "Labels must be named, each once. Received "
                f"{list(self.labels)!s:.200} for {self.task_name!r}."
            )
        if len(self.thresholds) not in (0, len(self.labels)):
            raise ValueError(
                f"{len(self.labels)} labels have as many thresholds, or none. Received "
                f"{len(self.thresholds)}: train again."
            )
        if not self.label_separator:
            raise ValueError("Labels need a separator. Received an empty one.")

    @property
    def has_text_pair(self) -> bool:
        """True if rows have two texts."""
        return self.columns.get("text_pair") is not None

    @property
    def all_thresholds(self) -> tuple[float, ...]:
        """The threshold of each label."""
        return tuple(self.thresholds) or (0.5,) * len(self.labels)

    def to_dict(self) -> dict[str, Any]:
        """JSON values of `task.json`."""
        return {
            "kind": self.kind,
            "task_name": self.task_name,
            "labels": list(self.labels),
            **present(self, "max_seq_length", "columns"),
            "thresholds": list(self.thresholds),
            "label_separator": self.label_separator,
            "numbered_labels": self.numbered_labels,
            **window_values(self),
        }


@dataclasses.dataclass(frozen=True)
class Regression:
    """A number for one text or a pair of texts.

    Attributes:
      task_name: name of the task in reports, as "sts-b" or "custom".
      bounds: lowest and highest value that a submission may hold; None: no bounds.
      max_seq_length: longest row in tokens; None: as long as the model reads.
      columns: as `Classification`.
      window_pooling, doc_stride, max_windows: as `Classification`.
    """

    kind: ClassVar[str] = "regression"
    task_name: str
    bounds: Sequence[float] | None = None
    max_seq_length: int | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)
    window_pooling: str | None = field(default=None, metadata=_POOLING)
    doc_stride: int = field(default=128, metadata=_STRIDE)
    max_windows: int = field(default=8, metadata=_WINDOWS)

    def __post_init__(self):
        field_rules.check_fields(self)
        if self.bounds is not None:
            object.__setattr__(self, "bounds", tuple(self.bounds))

    @property
    def has_text_pair(self) -> bool:
        """True if rows have two texts."""
        return self.columns.get("text_pair") is not None

    def to_dict(self) -> dict[str, Any]:
        """JSON values of `task.json`."""
        return {
            "kind": self.kind,
            "task_name": self.task_name,
            "labels": None,
            "scores": ["pearson", "spearman"],
            "bounds": None if self.bounds is None else list(self.bounds),
            **present(self, "max_seq_length", "columns"),
            **window_values(self),
        }


# How one vector is made of a text, and losses that train it.
POOLINGS = ("mean", "first", "pooled")
EMBEDDING_LOSSES = ("in_batch_negatives", "cosine")


@dataclasses.dataclass(frozen=True)
class Embedding:
    """A vector for each text, whose cosine with another says how near both are.

    Attributes:
      task_name: name of the task in reports, as "sts-b" or "custom".
      pooling: what of a text its vector is: the mean of its tokens' outputs, special
        tokens included, the first token's output, or the pooled output.
      normalize: whether vectors have the length 1.
      loss: what training minimizes: "in_batch_negatives", the cross-entropy of a text's
        own partner among all of the batch, or "cosine", the squared difference between
        the cosine of a pair and its score.
      scale: factor of the cosines in the cross-entropy, 1 / temperature.
      has_scores: whether pairs to evaluate have scores, which the cosines are
        correlated with; else texts are to find their partners.
      max_seq_length: longest row in tokens; None: as long as the model reads.
      columns: as `Classification`, and `negative`, a text that is not near to the
        first.
      bounds: lowest and highest score of a table, 0 and 1 in training.
    """

    kind: ClassVar[str] = "embedding"
    task_name: str
    pooling: str = field(default="mean", metadata=choices(*POOLINGS))
    normalize: bool = True
    loss: str = field(default="in_batch_negatives", metadata=choices(*EMBEDDING_LOSSES))
    scale: float = 20.0
    has_scores: bool = False
    max_seq_length: int | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)
    bounds: Sequence[float] = (0.0, 1.0)

    def __post_init__(self):
        object.__setattr__(self, "bounds", tuple(self.bounds))
        field_rules.check_fields(self)
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise ValueError(f"scale must be above 0. Received {self.scale}.")
        if not (len(self.bounds) == 2 and self.bounds[0] < self.bounds[1]):
            raise ValueError(
                f"bounds are a lower and a higher number. Received {self.bounds}."
            )
        if self.loss == "cosine" and not self.has_scores:
            raise ValueError(
                "The loss cosine needs pairs with scores: name their column, or take "
                "in_batch_negatives."
            )

    def to_dict(self) -> dict[str, Any]:
        """JSON values of `task.json`."""
        return {
            "kind": self.kind,
            "task_name": self.task_name,
            "pooling": self.pooling,
            "normalize": self.normalize,
            "loss": self.loss,
            "scale": self.scale,
            "has_scores": self.has_scores,
            **present(self, "max_seq_length", "columns"),
            "bounds": list(self.bounds),
        }


# Any of them.
TextTask: TypeAlias = Classification | MultiLabel | Regression


def present(task_config: Any, *names: str) -> dict[str, Any]:
    """Fields that have a value; of an earlier release no other ones were written."""
    values = {name: getattr(task_config, name) for name in names}
    return {
        name: dict(value) if isinstance(value, Mapping) else value
        for name, value in values.items()
        if value is not None and value != {}
    }


def window_values(task: TextTask) -> dict[str, Any]:
    """The values of windows in a `task.json`; a task without them writes none."""
    names = ("window_pooling", "doc_stride", "max_windows")
    return {n: getattr(task, n) for n in names if task.window_pooling is not None}
