"""Compares the answers of a TensorFlow Lite file with those of the model it is of.

On random rows both give the same numbers; on a development set both are scored by the
task's metrics, which shows the accuracy that a quantized file loses.

Letters in shapes: B rows, C options, S tokens, K spans.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.records.reader import read_rows
from albert_tf.records.sidecar import RecordSet
from albert_tf.tasks.answers import NO_SCORE
from albert_tf.tasks.base import Arrays, Task, join_rows

# Largest allowed difference of an output in float32 from the model's.
TOLERANCE = 1e-4
_RANDOM_ROWS = 3
_ROWS_AT_A_TIME = 8
# Output of a file -> the task's name of the same values.
_PREDICTIONS = {
    "probabilities": "probabilities",
    "values": "values",
    "span_starts": "span_starts",
    "span_ends": "span_ends",
    "span_scores": "span_scores",
    "null_scores": "no_answer_logits",
}
_LABELS = ("label_ids", "level", "sentence")
# Labels of tokens, which are padded as the outputs are.
_TOKEN_LABELS = ("tag_ids",)

# Rows of ids, int32 [B, ...] -> outputs.
Answer: TypeAlias = Callable[[Arrays], Arrays]


@dataclasses.dataclass(frozen=True)
class LabelledRows:
    """Rows with labels, in memory.

    Attributes:
      rows: features by name, of each row.
      truncated: how many of them lost tokens when they were made; None: a row is a
        window of a text, of which nothing is lost.
    """

    rows: Sequence[Mapping[str, Any]]
    truncated: int | None

    @classmethod
    def read(cls, record_set: RecordSet) -> "LabelledRows":
        """Reads all rows of a split that was made for fine-tuning."""
        rows = [row for path in record_set.paths for row in read_rows(path)]
        statistics = record_set.metadata.get("statistics", {})
        return cls(rows, statistics.get("truncated_rows"))

    def batches(self, size: int, options: int | None) -> Iterator[dict[str, Any]]:
        """Yields `serving.base.IDS`, int32, of so many rows at a time.

        Args:
          size: rows of a batch.
          options: C of multiple choice; None: rows have no options.
        Yields:
          [B, S] or [B, C, S], padded to the longest row of the batch.
        """
        for first in range(0, len(self.rows), size):
            yield _padded(self.rows[first : first + size], options)

    def most_options(self) -> int:
        """The most options that a question of multiple choice has."""
        return max(len(row["input_ids"]) for row in self.rows)


@dataclasses.dataclass(frozen=True)
class DevelopmentSet:
    """A task's rows with labels, and how answers to them are scored.

    Attributes:
      task: the task; its `host_metrics` score all rows of a split, of SQuAD with the
        questions in it.
      splits: name -> rows. SQuAD has one.
    """

    task: Task
    splits: Mapping[str, LabelledRows]

    def score(
        self,
        answers: Mapping[str, Answer],
        options: int | None = None,
    ) -> dict[str, dict[str, Any]]:
        """Scores the answers of a model and of its file.

        Args:
          answers: name -> the function that answers.
          options: as of `LabelledRows.batches`.
        Returns:
          Split -> number of `rows`, `truncated_rows` if rows can be, the metrics of
          each name, and, of several names, `largest_differences`: name of each output
          of real numbers -> its largest difference from the first one's.
        """
        report: dict[str, dict[str, Any]] = {}
        for split, labelled in self.splits.items():
            counts: dict[str, Any] = {"rows": len(labelled.rows)}
            if labelled.truncated is not None:
                counts["truncated_rows"] = labelled.truncated
            outputs = {
                name: _outputs(labelled, answer, options)
                for name, answer in answers.items()
            }
            metrics = {n: self._metrics(labelled, o) for n, o in outputs.items()}
            report[split] = {**counts, **metrics}
            model, *files = outputs.values()
            if files:
                differences: dict[str, float] = {}
                for file in files:
                    _widen(differences, model, file, exact=False)
                report[split]["largest_differences"] = differences
        return report

    def _metrics(self, labelled: LabelledRows, outputs: Arrays) -> dict[str, float]:
        assert self.task.host_metrics is not None, self.task.name
        predictions = {
            name: outputs[output]
            for output, name in _PREDICTIONS.items()
            if output in outputs
        }
        for name in _LABELS:
            if name in labelled.rows[0]:
                # One number a row, or one for each label.
                predictions[name] = np.array([row[name] for row in labelled.rows])
        for name in _TOKEN_LABELS:
            if name in labelled.rows[0]:
                values = [np.asarray(row[name])[np.newaxis] for row in labelled.rows]
                predictions[name] = join_rows(values)
        return self.task.host_metrics(predictions)


def largest_differences(
    model: Answer,
    file: Answer,
    config: AlbertConfig,
    shape: Sequence[int],
    exact: bool = True,
) -> dict[str, float]:
    """Compares the outputs of a file with the model's, on random rows.

    Args:
      model: the model's answers.
      file: the file's.
      config: the model's configuration.
      shape: of a batch of the file, [1, S] or [1, C, S].
      exact: False for a file whose numbers are only near the model's: places and
        decisions are then left out, since they may be others.
    Returns:
      Name of each output -> its largest difference.
    """
    rng = np.random.default_rng(0)
    differences: dict[str, float] = {}
    for _ in range(_RANDOM_ROWS):
        row = _random_row(rng, config, shape)
        _widen(differences, model(row), file(row), exact)
    return differences


def _outputs(labelled: LabelledRows, answer: Answer, options: int | None) -> Arrays:
    """The outputs for all rows, [rows, ...]."""
    parts = [answer(b) for b in labelled.batches(_ROWS_AT_A_TIME, options)]
    return {name: join_rows([part[name] for part in parts]) for name in parts[0]}


def _widen(
    differences: dict[str, float], ours: Arrays, theirs: Arrays, exact: bool
) -> None:
    """Raises the largest difference of each output to that of further rows."""
    pairs = {name: _of_one_size(ours[name], theirs[name]) for name in ours}
    ours = {name: pair[0] for name, pair in pairs.items()}
    theirs = {name: pair[1] for name, pair in pairs.items()}
    for name, where in _compared(ours, theirs, exact).items():
        apart = _distance(ours[name], theirs[name])
        largest = float(np.where(where, apart, 0.0).max(initial=0.0))
        # Not `max`, which drops NaN.
        differences[name] = float(np.maximum(differences.get(name, 0.0), largest))


def _of_one_size(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pads the outputs of rows with 0, as a file of longer rows has them for tokens."""
    both = join_rows([one, other])
    return both[: len(one)], both[len(one) :]


def _random_row(
    rng: np.random.Generator, config: AlbertConfig, shape: Sequence[int]
) -> dict[str, np.ndarray]:
    """A row of any length whose second segment begins anywhere."""
    places = np.arange(shape[-1])
    length = rng.integers(1, shape[-1] + 1)
    second = rng.integers(0, length + 1)
    row: dict[str, Any] = {
        "input_ids": rng.integers(0, config.vocab_size, shape),
        "input_mask": np.broadcast_to(places < length, shape),
        "segment_ids": np.broadcast_to((places >= second) & (places < length), shape),
    }
    if config.type_vocab_size < 2:
        row["segment_ids"] = np.zeros(shape)
    return {name: values.astype(np.int32) for name, values in row.items()}


def _distance(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Absolute differences; 0 where both are the same infinity."""
    ours, theirs = (np.asarray(values, np.float64) for values in (ours, theirs))
    with np.errstate(invalid="ignore"):
        return np.where(ours == theirs, 0.0, np.abs(ours - theirs))


def _compared(ours: Arrays, theirs: Arrays, exact: bool) -> dict[str, np.ndarray]:
    """Says which values of the model and of a file are to be near each other.

    Returns:
      Name of an output -> bool, which can be broadcast to its shape.
    """
    everywhere = np.ones([], bool)
    if not exact:
        numbers = {n: everywhere for n, v in ours.items() if v.dtype.kind == "f"}
        if "span_scores" in ours:
            # Another span may be the one that cannot be an answer.
            scores = np.minimum(ours["span_scores"], theirs["span_scores"])
            numbers["span_scores"] = scores > NO_SCORE
        return numbers
    return {**dict.fromkeys(ours, everywhere), **_decided(ours)}


def _decided(outputs: Arrays) -> dict[str, np.ndarray]:
    """True where a place or a decision does not hang on rounding.

    Of two equally good spans either may come first: so scores must be further apart
    than `TOLERANCE`.

    Args:
      outputs: the model's.
    Returns:
      Name of an output -> bool of its shape.
    """
    decided = {}
    if "span_scores" in outputs:
        gaps = -np.diff(outputs["span_scores"]) > TOLERANCE
        # The last span's successor is unknown.
        before = np.pad(gaps, ((0, 0), (1, 0)), constant_values=True)
        after = np.pad(gaps, ((0, 0), (0, 1)), constant_values=False)
        decided["span_starts"] = decided["span_ends"] = before & after
    if "answered" in outputs:
        apart = _distance(outputs["null_scores"], outputs["threshold"])
        decided["answered"] = apart > TOLERANCE
    if "choice" in outputs:
        best = -np.sort(-outputs["probabilities"], axis=-1)
        decided["choice"] = (best[:, :1] - best[:, 1:2] > TOLERANCE).all(axis=-1)
    return decided


def _padded(
    rows: Sequence[Mapping[str, Any]], options: int | None
) -> dict[str, np.ndarray]:
    """The ids, mask and segments of some rows, int32, padded to the longest."""
    shape = None if options is None else [len(rows), options, None]
    values = {
        # Rows of options are lists of lists.
        name: tf.ragged.constant(
            [[np.asarray(each).tolist() for each in row[name]] for row in rows],
            tf.int32,
        )
        for name in ("input_ids", "segment_ids")
    }
    values["input_mask"] = tf.ones_like(values["input_ids"])
    return {name: each.to_tensor(shape=shape).numpy() for name, each in values.items()}
