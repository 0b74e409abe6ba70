"""The tasks of fine-tuned classes of `transformers`, as their `config.json` tells."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from albert_tf.task_config import (
    Classification,
    Embedding,
    MultiLabel,
    MultipleChoice,
    Regression,
    Squad,
    Tagging,
    TaskConfig,
    TextTask,
)

# Name of a task whose data set is not known; scripts call the user's own tables so.
_TASK_NAME = "custom"
# As `data_prep.fine_tuning.tagging_data` names it.
_TAGGING_NAME = "tagging"
_SEQUENCE, _CHOICE, _SPAN, _TOKENS = (
    "SequenceClassification",
    "MultipleChoice",
    "QuestionAnswering",
    "TokenClassification",
)
_CLASS = re.compile(r"(?:Albert|Bert)For(\w+)")
# Weights of a classifier of tokens there -> here.
_TAGGER = {
    "classifier.weight": "cls/tagging/output_weights",
    "classifier.bias": "cls/tagging/output_bias",
}
# Problem type of several labels a text.
MULTI_LABEL = "multi_label_classification"
# Those that a configuration does not write.
_DEFAULT_LABELS = ["LABEL_0", "LABEL_1"]


def read_task(values: Mapping[str, Any]) -> TaskConfig | None:
    """Reads the task of a `config.json`.

    Returns:
      The task; None: a class without one, or of a task that is not known here, which
      `notes` names.
    Raises:
      ValueError: the labels are damaged.
    """
    kind = _kind(values)
    longest = values.get("max_position_embeddings", 512)
    if kind == _CHOICE:
        return MultipleChoice()
    if kind == _SPAN:
        # The original's lengths, or shorter ones in the same proportions.
        length = min(Squad.max_seq_length, longest)
        return Squad(
            version_2=False,
            max_seq_length=length,
            doc_stride=max(1, length // 3),
            max_query_length=max(1, length // 6),
        )
    if kind not in (_SEQUENCE, _TOKENS):
        return None
    labels = _labels(values)
    if kind == _TOKENS:
        return Tagging(_TAGGING_NAME, labels) if len(labels) > 1 else None
    problem = values.get("problem_type")
    if problem is None:
        problem = "regression" if len(labels) == 1 else "single_label_classification"
    if problem == "regression" and len(labels) == 1:
        return Regression(_TASK_NAME)
    if problem == "single_label_classification":
        return Classification(_TASK_NAME, labels)
    if problem == MULTI_LABEL:
        return MultiLabel(_TASK_NAME, labels)
    return None


def notes(values: Mapping[str, Any], outputs: int = 0) -> list[str]:
    """Says what of the task of a `config.json` is not taken or not known.

    Args:
      values: of the file.
      outputs: of the classifier of the weights, of texts or of tokens; 0: they have
        none.
    Raises:
      ValueError: the file's labels are damaged, or not as many as the outputs.
    """
    kind, task = _kind(values), read_task(values)
    if outputs and kind in (_SEQUENCE, _TOKENS) and len(_labels(values)) != outputs:
        raise ValueError(
            f"id2label names {len(_labels(values))} labels (two if it is missing), the "
            f"classifier of the weights has {outputs} outputs: name each output."
        )
    if outputs and kind not in (_SEQUENCE, _CHOICE, _SPAN, _TOKENS):
        return [
            "config.json names no class with a classifier in `architectures`, so what "
            "the classifier of the weights was trained for is not known."
        ]
    if kind == _SPAN:
        return [
            "The model answers as one of SQuAD v1.1, always: its config.json does not "
            "say whether it was trained for questions without an answer."
        ]
    if isinstance(task, TextTask):
        return [
            "config.json does not say whether a row has one text or two: the signature "
            "`text` of an export takes one."
        ]
    if kind == _SEQUENCE:
        return [
            f"Its problem_type {values.get('problem_type')!r} with "
            f"{len(_labels(values))} labels is no task here: the head's weights are "
            "taken, the labels are not."
        ]
    return []


def is_of_tokens(values: Mapping[str, Any]) -> bool:
    """True if a `config.json` is of a classifier of tokens, a tagger here."""
    return _kind(values) == _TOKENS


def with_tagger(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Gives the classifier of a class of tokens its names here, in float32."""
    return {
        _TAGGER.get(name, name): value.astype(np.float32) if name in _TAGGER else value
        for name, value in weights.items()
    }


def without_tagger(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Gives a tagger the names of a classifier, which a class of tokens has there."""
    names = {here: here.removeprefix("cls/tagging/") for here in _TAGGER.values()}
    return {names.get(name, name): value for name, value in weights.items()}


def _kind(values: Mapping[str, Any]) -> str:
    """The task in the name of the class, as "SequenceClassification"; may be empty."""
    names = values.get("architectures")
    name = str(names[0]) if isinstance(names, list) and names else ""
    match = _CLASS.fullmatch(name)
    return match[1] if match else ""


def _labels(values: Mapping[str, Any]) -> list[str]:
    """Labels in the order of the model's outputs."""
    named = values.get("id2label")
    if named is None:
        return _DEFAULT_LABELS
    keys = [str(i) for i in range(len(named))] if isinstance(named, Mapping) else []
    if not keys or set(named) != {*keys}:
        raise ValueError(
            f"id2label must name each output from 0 on. Received {named!r}: copy the "
            "file again."
        )
    labels = [named[key] for key in keys]
    are_texts = all(isinstance(label, str) for label in labels)
    if not are_texts or len({*labels}) < len(keys):
        raise ValueError(
            f"id2label must give each output a name of its own. Received {named!r}: "
            "rename them."
        )
    return labels


def losses_of(task: Mapping[str, Any] | None) -> list[str]:
    """Says what of a task no `config.json` holds.

    Args:
      task: values of its `task.json`; None: there is no task.
    """
    task, lost = task or {}, []
    for name in ("threshold", "thresholds"):
        if task.get("kind") != Squad.kind and task.get(name) not in (None, []):
            lost.append(f"its {name} of labels ({task[name]!s:.60})")
    if task.get("window_pooling"):
        lost.append("the windows of long texts")
    if task.get("kind") == Embedding.kind and task.get("pooling") == "pooled":
        lost.append("the pooling of its vectors, by the pooled output")
    return [
        f"Not in the folder, since transformers has no place for it: {what}."
        for what in lost
    ]
