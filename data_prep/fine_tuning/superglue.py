"""The tasks of SuperGLUE on one text or two: files and columns, labels, metrics.

COPA has options, and is read as multiple choice: see `copa.py`. Tasks on places in a
text other than WiC, whose word is put before both sentences, are not here.
"""

import dataclasses
from collections.abc import Mapping

from data_prep.fine_tuning.glue import GlueTask
from data_prep.fine_tuning.tables import Columns

# Where the answers of a run are written, for the leaderboard.
SUBMISSIONS = "SuperGLUE"


def _task(
    name: str, train: Columns, labels: tuple[str, ...], metrics: tuple[str, ...]
) -> GlueTask:
    return GlueTask(
        train,
        dataclasses.replace(train, label=None),
        labels,
        metrics,
        {"dev": "val.jsonl"},
        {name: "test.jsonl"},
        train_file="train.jsonl",
        folder=name,
    )


_ACCURACY = ("eval_accuracy",)
_TRUTH = ("false", "true")

SUPERGLUE: Mapping[str, GlueTask] = {
    "boolq": _task(
        "BoolQ", Columns("passage", "question", "label", "idx"), _TRUTH, _ACCURACY
    ),
    "cb": _task(
        "CB",
        Columns("premise", "hypothesis", "label", "idx"),
        ("contradiction", "entailment", "neutral"),
        ("eval_accuracy", "macro_f1"),
    ),
    # Its rows are those of GLUE's RTE.
    "superglue-rte": _task(
        "RTE",
        Columns("premise", "hypothesis", "label", "idx"),
        ("entailment", "not_entailment"),
        _ACCURACY,
    ),
    "wic": _task(
        "WiC",
        Columns("sentence1", "sentence2", "label", "idx", prefix="word"),
        _TRUTH,
        _ACCURACY,
    ),
}
