"""The tasks of GLUE: files and columns, labels, metrics.

The table `GLUE` holds all that differs between the tasks.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from upath import UPath

from albert_tf.storage import AnyPath
from data_prep.fine_tuning.tables import Columns


@dataclasses.dataclass(frozen=True)
class GlueTask:
    """One task of GLUE.

    Attributes:
      train: columns of train.tsv and of the development files.
      test: columns of the test files, which have no labels.
      labels: names of the labels, in the order of the model's outputs; None: a
        regression.
      metrics: names in `tasks.metrics.METRICS`; the first one chooses the best
        checkpoint.
      dev_files: development split -> its file; the first split chooses the best
        checkpoint.
      test_files: submission -> its file, relative to the task's folder.
      diagnostics: submission of a data set that has a folder of its own, and may be
        missing -> its file in the archives in use, relative to the task's folder.
      bounds: lowest and highest value of a regression in a submission.
      train_file: file to train on.
      folder: the task's folder in the published archive.
    """

    train: Columns
    test: Columns
    labels: tuple[str, ...] | None
    metrics: tuple[str, ...]
    dev_files: Mapping[str, str]
    test_files: Mapping[str, str]
    diagnostics: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    bounds: tuple[float, float] | None = None
    train_file: str = "train.tsv"
    folder: str = ""

    def find_diagnostics(self, folder: AnyPath) -> tuple[dict[str, str], list[str]]:
        """Finds the files of `diagnostics`.

        Args:
          folder: the task's folder.
        Returns:
          Submission -> its file, relative to the folder; and a line on each that is
          missing.
        """
        found, missing = {}, []
        for name, files in self.diagnostics.items():
            there = [file for file in files if find_file(folder, file).is_file()]
            if there:
                found[name] = there[0]
            else:
                places = " or ".join(file.removeprefix("../") for file in files)
                missing.append(
                    f"{name} is not predicted: there is no {places} in {folder.parent}."
                )
        return found, missing


def _task(
    train: Columns,
    test: Columns,
    labels: tuple[str, ...] | None,
    metrics: tuple[str, ...],
    name: str,
    **changes: Any,
) -> GlueTask:
    """Makes a task with one development and one test file, unless `changes` differ."""
    files = {
        "dev_files": {"dev": "dev.tsv"},
        "test_files": {name: "test.tsv"},
        "folder": name,
    }
    return GlueTask(train, test, labels, metrics, **{**files, **changes})


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
        },
        # The diagnostic data set is predicted with the model of MNLI. Its folder is
        # "diagnostic" in the download script of GLUE, and AX.tsv is its file there.
        diagnostics={
            "AX": (
                "../AX/diagnostic.tsv",
                "../diagnostic/diagnostic.tsv",
                "../AX/AX.tsv",
                "../AX.tsv",
            )
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


def task_folder(data_dir: AnyPath, task: GlueTask) -> AnyPath:
    """The folder of a task's files: `data_dir` itself, or the task's folder in it.

    A folder "sst2" or "STSB" is found as well as "SST-2" or "STS-B".

    Raises:
      FileNotFoundError: neither holds its training or test file.
    """
    wanted = (task.train_file, *task.dev_files.values(), *task.test_files.values())
    folders: Iterable[AnyPath] = data_dir.iterdir() if data_dir.is_dir() else ()
    alike = [
        folder
        for folder in sorted(folders, key=lambda folder: folder.name)
        if _letters(folder.name) == _letters(task.folder)
    ]
    for folder in (data_dir / task.folder, *alike, data_dir):
        if any((folder / file).is_file() for file in wanted):
            return folder
    raise FileNotFoundError(
        f"{data_dir} holds neither {task.folder}/ nor {wanted[0]}: pass the folder of "
        "all tasks, or of this one, as --data_dir."
    )


def find_file(folder: AnyPath, file: str) -> AnyPath:
    """Returns the path of a task's file, which may begin with "../"."""
    path = folder / file
    # Buckets have no folders to go up from.
    return path.resolve() if isinstance(path, UPath) else path


def _letters(name: str) -> str:
    """A folder's name without case, dashes and the like."""
    return "".join(character for character in name.lower() if character.isalnum())
