"""The sets that `run_classifier.py` trains on, evaluates and predicts: GLUE's, or files
of anyone's; their flags, their rows, and what is written of them."""

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from absl import flags

from data_prep.fine_tuning import cache, classification, glue, tables
from flags import fine_tuning_flags

FLAGS = flags.FLAGS

CUSTOM = "custom"
_CUSTOM_SCORES = ("eval_accuracy", "f1", "matthew_corr")


def define_flags() -> None:
    """Which task, and where its data is."""
    flags.DEFINE_enum(
        "task_name",
        None,
        [*glue.GLUE, CUSTOM],
        "Task of GLUE, or custom: a table of yours. Without --do_train it is the "
        "model's.",
        case_sensitive=False,
    )
    flags.DEFINE_string(
        "data_dir", "", "Folder of GLUE, or of one task, with the published .tsv files."
    )
    for name, purpose in {
        "train_file": "to train on",
        "dev_file": "to evaluate on",
        "test_file": "to predict, with --do_predict",
    }.items():
        flags.DEFINE_string(
            name, "", f"Of a custom task, table {purpose}: .tsv, .csv or .jsonl."
        )
    flags.DEFINE_string(
        "predict_file", "", "Table to predict, of any task, instead of its test files."
    )
    flags.DEFINE_string("text_column", "text", "Custom: column of the text.")
    flags.DEFINE_string(
        "text_pair_column", "", "Custom: column of a second text; empty: there is none."
    )
    flags.DEFINE_string("label_column", "label", "Custom: column of the label.")
    flags.DEFINE_bool("regression", False, "Custom: labels are numbers to predict.")
    flags.DEFINE_enum(
        "on_bad_row",
        "error",
        tables.ON_BAD_ROW,
        "A row that cannot be read: stop with its file and line, or skip and count it.",
    )


@dataclasses.dataclass
class ClassifierData:
    """A task's sets.

    Attributes:
      name: the task's.
      labels: in the order of the model's outputs; None: a regression.
      scores: of `metrics.SCORES`.
      bounds: of a regression's values in a submission.
      train_columns, test_columns: where tables have what.
      files: name of each set -> its file.
      model: whose tokenizer cuts the text.
      max_seq_length: pieces in a row at most.
    """

    name: str
    labels: list[str] | None
    scores: tuple[str, ...]
    bounds: tuple[float, float] | None
    train_columns: tables.Columns
    test_columns: tables.Columns
    files: Mapping[str, Path]
    model: Any
    max_seq_length: int
    _tables: dict[str, tables.Table] = dataclasses.field(default_factory=dict)

    def facts(self) -> dict[str, Any]:
        """What predictions and exports need to know of the task."""
        return {
            "task_name": self.name,
            "labels": self.labels,
            "scores": self.scores,
            "bounds": self.bounds,
            "max_seq_length": self.max_seq_length,
            "columns": dataclasses.asdict(self.test_columns),
        }

    def task(self, dropout: float):
        """The task, with that dropout of its head."""
        from albert_tf.tasks.registry import from_facts

        return from_facts(self.facts(), dropout)

    def train_rows(self):
        """The rows to train on."""
        return self._rows("train", self.train_columns)

    def dev_sets(self) -> dict:
        """Name -> rows with labels to evaluate on."""
        names = [name for name in self.files if name in _DEV_NAMES]
        if not names:
            raise flags.Error("--do_eval needs rows: pass --dev_file.")
        return {name: self._rows(name, self.train_columns) for name in names}

    def test_sets(self) -> dict:
        """Name -> rows to predict, whose labels are not looked at."""
        names = [n for n in self.files if n != "train" and n not in _DEV_NAMES]
        if not names:
            raise flags.Error("--do_predict needs rows: pass --predict_file.")
        return {name: self._rows(name, self.test_columns) for name in names}

    def write_predictions(self, folder: Path, name: str, predicted) -> list[Path]:
        """Writes `test_results.tsv` and the file for the leaderboard.

        Args:
          folder: the run's.
          name: of a set that was predicted.
          predicted: its predictions.
        """
        several = len([n for n in self.files if n not in ("train", *_DEV_NAMES)]) > 1
        scores = folder / (f"test_results_{name}.tsv" if several else _RESULTS)
        glue.write_lines(scores, glue.score_lines(predicted, self.labels))
        lines = glue.submission_lines(
            predicted["index"], predicted, self.labels, self.bounds
        )
        submission = folder / "GLUE" / f"{name}.tsv"
        if self.name == CUSTOM:
            submission = folder / f"{name}_predictions.tsv"
        glue.write_lines(submission, lines)
        return [scores, submission]

    def _table(self, name: str, columns: tables.Columns) -> tables.Table:
        if name not in self._tables:
            self._tables[name] = tables.read_table(
                self.files[name], columns, FLAGS.on_bad_row
            )
        return self._tables[name]

    def _rows(self, name: str, columns: tables.Columns):
        """The rows of a set, from the cache if they are there."""
        labelled = columns.label is not None
        settings = {
            "max_seq_length": self.max_seq_length,
            "labels": self.labels,
            "labelled": labelled,
            "columns": dataclasses.asdict(columns),
            "on_bad_row": FLAGS.on_bad_row,
        }

        def make(statistics):
            table = self._table(name, columns)
            examples = table.examples
            values = [0] * len(examples)
            if labelled:
                values = tables.label_values(examples, self.labels)
            statistics["skipped_rows"] = table.skipped_rows
            rows = classification.classification_rows(
                examples,
                values,
                self.model.tokenizer,
                self.max_seq_length,
                statistics,
            )
            features = classifier_features(
                "float32" if self.labels is None else "int64"
            )
            return features, len(examples), rows

        from albert_tf.records.features import classifier_features

        return cache.cached_rows(
            fine_tuning_flags.cache_dir(),
            f"{self.name}-{name}",
            [self.files[name]],
            self.model.tokenizer,
            settings,
            make,
        )


# What a table of predictions cannot hold; the last are halves of surrogate pairs.
_NO_NAME = re.compile("[\t\r\n\0\ud800-\udfff]")
_DEV_NAMES = ("dev", "mismatched")
_RESULTS = "test_results.tsv"


def from_flags(model) -> ClassifierData:
    """The sets that the flags name; without training, of the task of the model."""
    known = model.task
    name = FLAGS.task_name or known.get("task_name")
    if name is None:
        raise flags.Error("Name the task: --task_name.")
    if known and known.get("task_name") != name:
        raise ValueError(
            f"The model was trained for {known.get('task_name')}, not for {name}: "
            "leave --task_name out."
        )
    if name not in (*glue.GLUE, CUSTOM):
        raise ValueError(
            f"The model was trained for {name}, not to classify texts: give one that "
            "was."
        )
    length = FLAGS.max_seq_length
    if known and not FLAGS["max_seq_length"].present:
        length = known["max_seq_length"]
    facts = _custom(known) if name == CUSTOM else _glue(name)
    return ClassifierData(name=name, model=model, max_seq_length=length, **facts)


def _glue(name: str) -> dict[str, Any]:
    task = glue.GLUE[name]
    files = {}
    if FLAGS.data_dir:
        folder = glue.task_folder(Path(FLAGS.data_dir), name)
        found = {"train": "train.tsv", **task.dev_files, **task.test_files}
        files = {set_name: folder / file for set_name, file in found.items()}
        # The diagnostic set lies in a folder of its own, and may be left out.
        if "AX" in files and not files["AX"].is_file():
            del files["AX"]
    elif FLAGS.do_train or FLAGS.do_eval or not FLAGS.predict_file:
        raise flags.Error("Name the folder of the task's files: --data_dir.")
    return {
        "labels": None if task.labels is None else list(task.labels),
        "scores": task.scores,
        "bounds": task.bounds,
        "train_columns": task.train,
        "test_columns": task.test,
        # Not under the name of a submission: it may be any table.
        "files": _with_predict_file(files, [*task.test_files], "predict"),
    }


def _custom(known: dict[str, Any]) -> dict[str, Any]:
    columns = tables.Columns(
        text=FLAGS.text_column,
        text_pair=FLAGS.text_pair_column or None,
        label=FLAGS.label_column,
    )
    if known:
        own = {**known["columns"], "label": FLAGS.label_column}
        for name in ("text", "text_pair"):
            # A table may call its columns otherwise than that of the training.
            if own[name] is not None and FLAGS[f"{name}_column"].present:
                own[name] = FLAGS[f"{name}_column"].value
        columns = tables.Columns(**own)
    files = {
        "train": FLAGS.train_file if FLAGS.do_train else "",
        "dev": FLAGS.dev_file,
        "test": FLAGS.test_file,
    }
    files = {name: Path(file) for name, file in files.items() if file}
    if known:
        labels = known["labels"]
    elif "train" not in files:
        raise flags.Error("Name the table to train on: --train_file.")
    elif FLAGS.regression:
        labels = None
    else:
        table = tables.read_table(files["train"], columns, FLAGS.on_bad_row)
        labels = sorted({example.label for example in table.examples})
        if len(labels) < 2:
            raise ValueError(
                f"{files['train']} has one label only, {labels[0]!r}: there is nothing "
                "to learn; give rows of at least two, or pass --regression."
            )
        for label in labels:
            if _NO_NAME.search(label):
                raise ValueError(
                    f"{files['train']}: the label {label!r} holds a tab, line end or "
                    "the like, so that no table of predictions can name it: rename it."
                )
    binary = labels is not None and len(labels) == 2
    return {
        "labels": labels,
        "scores": _CUSTOM_SCORES if binary else _CUSTOM_SCORES[:1],
        "bounds": None,
        "train_columns": columns,
        "test_columns": dataclasses.replace(columns, label=None),
        "files": _with_predict_file(files, ["test"], "test"),
    }


def _with_predict_file(
    files: dict[str, Path], tests: list[str], name: str
) -> dict[str, Path]:
    """With `--predict_file` it takes the place of the test files, under a name."""
    if not FLAGS.predict_file:
        return files
    kept = {each: file for each, file in files.items() if each not in tests}
    return {**kept, name: Path(FLAGS.predict_file)}


def warnings_of(name: str, rows) -> list[str]:
    """What looks wrong with a set, and how many rows of it were skipped."""
    statistics = rows.metadata["statistics"]
    found = classification.warnings_of(name, statistics)
    if statistics["skipped_rows"]:
        found.append(f"{statistics['skipped_rows']} bad rows of {name} were skipped.")
    return found
