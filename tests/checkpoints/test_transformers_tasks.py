"""Fine-tuned classes of `transformers` keep their task."""

import pytest

from albert_tf.checkpoints import transformers_tasks
from albert_tf.task_config import (
    Classification,
    MultiLabel,
    MultipleChoice,
    Regression,
    Squad,
    Tagging,
)


def values(kind, **changes):
    return {
        "architectures": [f"AlbertFor{kind}"],
        "max_position_embeddings": 90,
        **changes,
    }


LABELS = {"1": "neutral", "0": "entailment", "2": "contradiction"}
TASKS = {
    "labels by output": (
        values("SequenceClassification", id2label=LABELS),
        Classification("custom", ["entailment", "neutral", "contradiction"]),
        "one text or two",
    ),
    "labels that it does not write": (
        values("SequenceClassification"),
        Classification("custom", ["LABEL_0", "LABEL_1"]),
        "one text or two",
    ),
    "one output": (
        values("SequenceClassification", id2label={"0": "LABEL_0"}),
        Regression("custom"),
        "one text or two",
    ),
    "one label": (
        values(
            "SequenceClassification",
            id2label={"0": "yes"},
            problem_type="single_label_classification",
        ),
        Classification("custom", ["yes"]),
        "one text or two",
    ),
    "several labels a text": (
        values(
            "SequenceClassification",
            id2label=LABELS,
            problem_type="multi_label_classification",
        ),
        MultiLabel("custom", ["entailment", "neutral", "contradiction"]),
        "one text or two",
    ),
    "several numbers": (
        values("SequenceClassification", id2label=LABELS, problem_type="regression"),
        None,
        "problem_type 'regression' with 3 labels",
    ),
    "options": (values("MultipleChoice"), MultipleChoice(), None),
    "answers": (
        values("QuestionAnswering"),
        Squad(version_2=False, max_seq_length=90, doc_stride=30, max_query_length=15),
        "SQuAD v1.1",
    ),
    "answers of the usual length": (
        values("QuestionAnswering", max_position_embeddings=512),
        Squad(version_2=False),
        "SQuAD v1.1",
    ),
    "tokens": (
        values("TokenClassification", id2label=LABELS),
        Tagging("tagging", ["entailment", "neutral", "contradiction"]),
        None,
    ),
    "one tag": (values("TokenClassification", id2label={"0": "x"}), None, None),
    "no class": ({"max_position_embeddings": 512}, None, None),
}


@pytest.mark.parametrize("case", TASKS)
def test_a_class_tells_its_task_and_what_is_not_known_of_it(case):
    given, expected, note = TASKS[case]
    assert transformers_tasks.read_task(given) == expected
    notes = transformers_tasks.notes(given)
    assert [note in text for text in notes] == ([True] if note else [])


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"0": "a", "2": "b"},
        {"0": "a", "1": "a"},
        {"0": "a", "1": 3},
        ["a", "b"],
        4,
    ],
)
def test_damaged_labels_are_refused(labels):
    given = values("SequenceClassification", id2label=labels)
    with pytest.raises(ValueError, match="id2label must"):
        transformers_tasks.read_task(given)
