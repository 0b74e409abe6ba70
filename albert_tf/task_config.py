"""Task configurations: what a model was trained for, as its `task.json` stores it.

Scripts, checkpoints, tasks and exports look at the type of such a value, or at its
`kind`, to learn which task a model is for. A model that was trained for no task, an
encoder alone, has None in its place.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar, TypeAlias

from albert_tf import field_rules
from albert_tf.field_rules import (
    POSITIVE,
    TEXT,
    TEXTS,
    choices,
    count,
    number,
    rule,
    whole,
)
from albert_tf.text_tasks import (
    EMBEDDING_LOSSES,
    POOLINGS,
    WINDOW_POOLINGS,
    present,
)
from albert_tf.text_tasks import Classification as Classification
from albert_tf.text_tasks import Embedding as Embedding
from albert_tf.text_tasks import MultiLabel as MultiLabel
from albert_tf.text_tasks import Regression as Regression
from albert_tf.text_tasks import TextTask as TextTask

# What of an answer an ensemble of SQuAD averages; the first is the default.
SPAN_AVERAGES = ("log_probabilities", "probabilities")
_SQUAD_NAMES = {False: "squad_v1", True: "squad_v2"}
_LENGTH = count(1, 2**31 - 1)
# Memory grows with these.
_LIST_LENGTH, _BEAM = count(1, 10_000), count(1, 1_000)
_COLUMNS = ("text", "text_pair", "label", "index", "header", "prefix", "negative")


def _are_bounds(value: Any) -> bool:
    is_pair = isinstance(value, list) and len(value) == 2
    return is_pair and all(map(number, value)) and value[0] < value[1]


def _are_columns(value: Any) -> bool:
    is_known = isinstance(value, dict) and set(value) <= {*_COLUMNS}
    return is_known and all(
        v is None or isinstance(v, str | bool) or whole(v, 0) for v in value.values()
    )


_TRUTH = rule("true or false", lambda v: isinstance(v, bool))
# Name of a value in `task.json` -> its rule.
_RULES = {
    "task_name": TEXT,
    "labels": TEXTS,
    "metrics": TEXTS,
    "levels": TEXTS,
    "bounds": rule("two numbers, the lower one first", _are_bounds),
    "max_seq_length": _LENGTH,
    "max_qa_length": count(0, 2**31 - 1),
    "doc_stride": _LENGTH,
    "window_pooling": choices(*WINDOW_POOLINGS),
    "max_windows": count(1, 1000),
    "columns": rule(
        f"an object of {', '.join(_COLUMNS)}, names or indices", _are_columns
    ),
    "thresholds": rule(
        "numbers from 0 to 1",
        lambda v: isinstance(v, list) and all(number(t) and 0 <= t <= 1 for t in v),
    ),
    "label_separator": TEXT,
    "pooling": choices(*POOLINGS),
    "loss": choices(*EMBEDDING_LOSSES),
    "scale": POSITIVE,
    "normalize": _TRUTH,
    "has_scores": _TRUTH,
    "numbered_labels": _TRUTH,
    "threshold": rule(
        'a number, "inf" or "-inf"', lambda v: number(v) or v in ("inf", "-inf")
    ),
}


@dataclasses.dataclass(frozen=True)
class MultipleChoice:
    """The right one of a question's options, of which there may be any number.

    Attributes:
      task_name: name of the task in reports.
      levels: names of the parts of a data set that get an accuracy of their own.
      max_seq_length: longest row in tokens; None: as long as the model reads.
      max_qa_length: most tokens of question and option together, the last of them;
        0: limited by max_seq_length only.
    """

    kind: ClassVar[str] = "multiple_choice"
    task_name: str = "race"
    levels: Sequence[str] = ()
    max_seq_length: int | None = None
    max_qa_length: int = 128

    def __post_init__(self):
        object.__setattr__(self, "levels", tuple(self.levels))

    def to_dict(self) -> dict[str, Any]:
        """JSON values of `task.json`."""
        return {
            "kind": self.kind,
            "task_name": self.task_name,
            "labels": None,
            "levels": list(self.levels),
            **present(self, "max_seq_length"),
            "max_qa_length": self.max_qa_length,
        }


@dataclasses.dataclass(frozen=True)
class Squad:
    """Answers to questions on a paragraph, with the original's defaults.

    Attributes:
      version_2: True if questions may have no answer.
      max_seq_length: longest row in tokens, special tokens included.
      doc_stride: tokens from the start of one window to the start of the next.
      max_query_length: most tokens of a question; the rest of it is cut off.
      n_best_size: most answers in a question's list.
      max_answer_length: most tokens of an answer.
      start_n_top: v2.0: number of start positions kept in the beam.
      end_n_top: v2.0: number of end positions kept for each start.
      threshold: v2.0: null score, a logit, below which a question is answered; 0
        stands for a probability of one half. It may be inf or -inf.
    """

    kind: ClassVar[str] = "squad"
    version_2: bool
    max_seq_length: int = field(default=384, metadata=_LENGTH)
    doc_stride: int = field(default=128, metadata=_LENGTH)
    max_query_length: int = field(default=64, metadata=_LENGTH)
    n_best_size: int = field(default=20, metadata=_LIST_LENGTH)
    max_answer_length: int = field(default=30, metadata=_LIST_LENGTH)
    start_n_top: int = field(default=5, metadata=_BEAM)
    end_n_top: int = field(default=5, metadata=_BEAM)
    threshold: float = 0.0

    def __post_init__(self):
        field_rules.check_fields(self)
        if math.isnan(self.threshold):
            raise ValueError("A threshold must be a number, inf or -inf. Received nan.")

    @property
    def task_name(self) -> str:
        """Name of the task in reports: "squad_v1" or "squad_v2"."""
        return _SQUAD_NAMES[self.version_2]

    def to_dict(self) -> dict[str, Any]:
        """JSON values of `task.json`; an infinite threshold is a string."""
        values = {"kind": self.kind, "task_name": self.task_name}
        values |= dataclasses.asdict(self)
        del values["version_2"]
        if math.isinf(self.threshold):
            values["threshold"] = str(self.threshold)
        return values

    @classmethod
    def require(cls, task_config: "TaskConfig | None") -> "Squad":
        """The same configuration, checked to be one of SQuAD.

        Raises:
          ValueError: it is of another task, or of none.
        """
        if not isinstance(task_config, cls):
            if task_config is None:
                raise ValueError(
                    "The model was trained for no task, so it has no task.json: train "
                    "it with run_squad.py --init_checkpoint first."
                )
            raise ValueError(
                f"The model was trained for {task_config.task_name}, not for SQuAD: "
                "pass a folder that run_squad.py wrote."
            )
        return task_config


@dataclasses.dataclass(frozen=True)
class Tagging:
    """A tag for each word of a text.

    Attributes:
      task_name: name of the task in reports.
      labels: names of the tags, in the order of the model's outputs: those of the
        scheme IOB2 for entities, or plain ones, as parts of speech.
      max_seq_length: longest row in tokens; None: as long as the model reads.
      doc_stride: of a longer text, tokens from the start of a window to the start of
        the next.
    """

    kind: ClassVar[str] = "tagging"
    task_name: str
    labels: Sequence[str]
    max_seq_length: int | None = None
    doc_stride: int = 128

    def __post_init__(self):
        object.__setattr__(self, "labels", tuple(self.labels))
        if len(set(self.labels)) < 2:
            raise ValueError(
                "Tags to tell apart are at least two. Received "
                f"{list(self.labels)} for {self.task_name!r}."
            )

    def to_dict(self) -> dict[str, Any]:
        """JSON values of `task.json`."""
        return {
            "kind": self.kind,
            "task_name": self.task_name,
            "labels": list(self.labels),
            **present(self, "max_seq_length"),
            "doc_stride": self.doc_stride,
        }


TaskConfig: TypeAlias = TextTask | Embedding | MultipleChoice | Squad | Tagging
_KINDS = (Classification, MultiLabel, Regression, Embedding, MultipleChoice, Tagging)
_CLASSES = {cls.kind: cls for cls in _KINDS}


def from_dict(values: Mapping[str, Any]) -> TaskConfig:
    """Reads the values of a `task.json`, of this release or of an earlier one.

    Raises:
      ValueError: values of no known task.
    """
    kind = values.get("kind") or _kind_of_earlier_release(values)
    if kind == Squad.kind:
        return _read_squad(values)
    if not isinstance(kind, str) or kind not in _CLASSES:
        raise ValueError(
            f"A task.json is of a known kind ({', '.join((*_CLASSES, Squad.kind))}). "
            f"Received {kind!r:.80}: use the release that wrote it."
        )
    # Keys that a kind has no field for, as a regression's labels, say nothing.
    values = {"metrics": values.get("scores"), **values}
    names = {one.name for one in dataclasses.fields(_CLASSES[kind])}
    known = {
        key: value
        for key, value in values.items()
        if key in names and value is not None
    }
    for key, value in known.items():
        field_rules.check(key, value, _RULES[key])
    try:
        return _CLASSES[kind](**known)
    except TypeError as error:
        raise ValueError(f"A task.json lacks values ({error}): train again.") from None


def _kind_of_earlier_release(values: Mapping[str, Any]) -> str:
    """The kind of a task whose `task.json` does not name it."""
    name = values.get("task_name")
    if name in _SQUAD_NAMES.values():
        return Squad.kind
    if name == "race" or "levels" in values:
        return MultipleChoice.kind
    if "labels" not in values:
        raise ValueError(
            "A task.json must say which labels a task has. Received only "
            f"{sorted(values)!s:.200}: give a folder that a fine-tuning script made."
        )
    return Regression.kind if values["labels"] is None else Classification.kind


def _read_squad(values: Mapping[str, Any]) -> Squad:
    values = {key: value for key, value in values.items() if key != "kind"}
    name = values.pop("task_name", None)
    try:
        version_2 = {name: version for version, name in _SQUAD_NAMES.items()}[name]
        field_rules.check("threshold", values["threshold"], _RULES["threshold"])
        values["threshold"] = float(values["threshold"])
        return Squad(version_2=version_2, **values)
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"A task.json of SQuAD is of another release ({error}): train again."
        ) from None
