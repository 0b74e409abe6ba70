"""The GLUE tasks: their files and columns, labels, scores, and submissions.

All that is known of a task stands in one table, `GLUE`.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from albert_tf.files import write_whole
from data_prep.fine_tuning.tables import Columns


@dataclasses.dataclass(frozen=True)
class GlueTask:
    """One task of GLUE.

    Attributes:
      train: columns of train.tsv and of the development files.
      test: columns of the test files, which have no labels.
      labels: in the order of the model's outputs; None: a regression.
      scores: names in `metrics.METRICS`; the first one chooses the best checkpoint.
      dev_files: name of each development set -> its file; the first one chooses.
      test_files: name of each submission -> its file, from the task's folder.
      bounds: of a regression's values in a submission.
    """

    train: Columns
    test: Columns
    labels: tuple[str, ...] | None
    scores: tuple[str, ...]
    dev_files: Mapping[str, str]
    test_files: Mapping[str, str]
    bounds: tuple[float, float] | None = None


def _task(train, test, labels, scores, name, **more) -> GlueTask:
    """A task with one development and one test file."""
    files = {"dev_files": {"dev": "dev.tsv"}, "test_files": {name: "test.tsv"}}
    return GlueTask(train, test, labels, scores, **{**files, **more})


_PAIR = Columns("sentence1", "sentence2", "label", "index")
_UNLABELLED_PAIR = dataclasses.replace(_PAIR, label=None)
_QUESTION = Columns("question", "sentence", "label", "index")
_BINARY = ("0", "1")
_ENTAILMENT = ("entailment", "not_entailment")
_ACCURACY = ("eval_accuracy",)

GLUE: Mapping[str, GlueTask] = {
    "cola": _task(
        Columns(3, label=1, header=False),
        Columns("sentence", index="index"),
        _BINARY,
        ("matthew_corr", "eval_accuracy"),
        "CoLA",
    ),
    "sst-2": _task(
        Columns("sentence", label="label"),
        Columns("sentence", index="index"),
        _BINARY,
        _ACCURACY,
        "SST-2",
    ),
    "mrpc": _task(
        Columns("#1 String", "#2 String", "Quality"),
        Columns("#1 String", "#2 String", index="index"),
        _BINARY,
        ("eval_accuracy", "f1"),
        "MRPC",
    ),
    "qqp": _task(
        Columns("question1", "question2", "is_duplicate", "id"),
        Columns("question1", "question2", index="id"),
        _BINARY,
        ("eval_accuracy", "f1"),
        "QQP",
    ),
    "sts-b": _task(
        Columns("sentence1", "sentence2", "score", "index"),
        _UNLABELLED_PAIR,
        None,
        ("pearson", "spearman"),
        "STS-B",
        bounds=(0.0, 5.0),
    ),
    "mnli": _task(
        Columns("sentence1", "sentence2", "gold_label", "index"),
        _UNLABELLED_PAIR,
        ("contradiction", "entailment", "neutral"),
        _ACCURACY,
        "MNLI",
        dev_files={"dev": "dev_matched.tsv", "mismatched": "dev_mismatched.tsv"},
        test_files={
            "MNLI-m": "test_matched.tsv",
            "MNLI-mm": "test_mismatched.tsv",
            # The diagnostic set is predicted by the model of MNLI.
            "AX": "../AX/diagnostic.tsv",
        },
    ),
    "qnli": _task(
        _QUESTION,
        dataclasses.replace(_QUESTION, label=None),
        _ENTAILMENT,
        _ACCURACY,
        "QNLI",
    ),
    "rte": _task(_PAIR, _UNLABELLED_PAIR, _ENTAILMENT, _ACCURACY, "RTE"),
    "wnli": _task(_PAIR, _UNLABELLED_PAIR, _BINARY, _ACCURACY, "WNLI"),
}
# Folders of the published archives.
FOLDERS = {name: next(iter(task.test_files)) for name, task in GLUE.items()} | {
    "mnli": "MNLI"
}


def task_folder(data_dir: Path, name: str) -> Path:
    """Where the files of a task lie: `data_dir` itself, or the task's folder in it.

    Raises:
      FileNotFoundError: neither holds its training or test file.
    """
    task = GLUE[name]
    wanted = ("train.tsv", *task.dev_files.values(), *task.test_files.values())
    for folder in (data_dir / FOLDERS[name], data_dir):
        if any((folder / file).is_file() for file in wanted):
            return folder
    raise FileNotFoundError(
        f"{data_dir} holds neither {FOLDERS[name]}/ nor {wanted[0]}: pass the folder "
        "of GLUE, or of the task, as --data_dir."
    )


def submission_lines(
    indices: Sequence[str],
    predicted: Mapping[str, np.ndarray],
    labels: Sequence[str] | None,
    bounds: tuple[float, float] | None = None,
) -> list[str]:
    """Lines of a file for the leaderboard: `index` and `prediction`, by tabs.

    Args:
      indices: what the rows are called there.
      predicted: `probabilities` [R, labels], or `values` [R] of a regression.
      labels: their names; None: a regression.
      bounds: lowest and highest value of a regression's scale.
    """
    if labels is None:
        values = predicted["values"]
        values = values if bounds is None else np.clip(values, *bounds)
        answers = [f"{value:.3f}" for value in values]
    else:
        answers = [labels[place] for place in predicted["probabilities"].argmax(-1)]
    pairs = zip(indices, answers, strict=True)
    return ["index\tprediction", *(f"{index}\t{answer}" for index, answer in pairs)]


def score_lines(
    predicted: Mapping[str, np.ndarray], labels: Sequence[str] | None
) -> list[str]:
    """Lines of `test_results.tsv`, one a row of the input, in its order: a regression's
    value, or the labels' probabilities in their order, which the first line names."""
    if labels is None:
        return ["value", *(f"{value:.9g}" for value in predicted["values"])]
    rows = predicted["probabilities"]
    return [
        "\t".join(labels),
        *("\t".join(f"{number:.9g}" for number in row) for row in rows),
    ]


def write_lines(path: Path, lines: Sequence[str]) -> None:
    """Writes a text file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, ("\n".join(lines) + "\n").encode("utf-8"))
