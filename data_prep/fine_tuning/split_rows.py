"""Converts one split of a task to rows, or takes them from the cache."""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from albert_tf.records.features import (
    Features,
    choice_features,
    classifier_features,
    multi_label_features,
    squad_features,
    tagging_features,
)
from albert_tf.records.sidecar import RecordSet
from albert_tf.storage import PathLike
from albert_tf.task_config import (
    Classification,
    MultiLabel,
    MultipleChoice,
    Regression,
    Squad,
    Tagging,
    TextTask,
)
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.windows import WindowRule
from data_prep.fine_tuning import (
    classification,
    label_sets,
    multiple_choice,
    race,
    row_labels,
    squad_windows,
    tables,
    tagging,
)
from data_prep.fine_tuning.cache import cached_rows
from data_prep.fine_tuning.squad import SquadFile
from data_prep.fine_tuning.tagged_files import TaggedFile

_Made = tuple[Features, int, Iterable[Mapping[str, Any]]]


class Conversion(NamedTuple):
    """Settings of making rows, and the folder that keeps them.

    Attributes:
      tokenizer: the model's.
      cache_dir: folder for the rows.
      on_bad_row: as `tables.read_table`.
    """

    tokenizer: AlbertTokenizer
    cache_dir: PathLike
    on_bad_row: str = "error"


def of_table(
    name: str,
    file: PathLike,
    columns: tables.Columns,
    task_config: TextTask,
    conversion: Conversion,
) -> RecordSet:
    """Returns the rows of a table.

    Args:
      name: the split.
      file: the table.
      columns: its columns; without one for labels, the rows are to be predicted.
      task_config: labels and length.
      conversion: tokenizer and cache.
    """
    labels = None
    if not isinstance(task_config, Regression):
        labels = list(task_config.labels)
    length = _length(task_config)
    labelled = columns.label is not None
    several = isinstance(task_config, MultiLabel)
    windows = None
    if task_config.window_pooling is not None:
        stride, most = task_config.doc_stride, task_config.max_windows
        windows = WindowRule(length, stride, most)

    def make(statistics: dict[str, Any]) -> _Made:
        table = tables.read_table(file, columns, conversion.on_bad_row, several)
        features = _text_features(task_config)
        values: Sequence[Any] = [_no_label(task_config)] * len(table.examples)
        if labelled:
            values = _labels(table.examples, task_config, statistics)
        statistics["skipped_rows"] = table.skipped_rows
        rows = classification.classification_rows(
            table.examples, values, conversion.tokenizer, length, statistics, windows
        )
        return features, len(table.examples), rows

    settings = {
        "max_seq_length": length,
        "labels": labels,
        "labelled": labelled,
        "columns": columns.to_dict(),
        "on_bad_row": conversion.on_bad_row,
    }
    if isinstance(task_config, MultiLabel):
        settings["label_separator"] = task_config.label_separator
        settings["numbered_labels"] = task_config.numbered_labels
    if windows:
        settings["windows"] = {"doc_stride": stride, "max_windows": most}
    return _cached(
        f"{task_config.task_name}-{name}", [file], conversion, settings, make
    )


def _text_features(task_config: TextTask) -> Features:
    windows = task_config.window_pooling is not None
    if isinstance(task_config, MultiLabel):
        return multi_label_features(len(task_config.labels), windows)
    is_regression = isinstance(task_config, Regression)
    return classifier_features("float32" if is_regression else "int64", windows)


def _no_label(task_config: TextTask) -> Any:
    """A label for rows that are to be predicted."""
    if isinstance(task_config, MultiLabel):
        return [0] * len(task_config.labels)
    return 0


def _labels(
    examples: Sequence[tables.Example],
    task_config: TextTask,
    statistics: dict[str, Any],
) -> Sequence[Any]:
    """The labels of examples as a model learns them; counts what is odd in them."""
    match task_config:
        case MultiLabel():
            values = label_sets.label_set_values(examples, task_config)
            separator = task_config.label_separator
            repeated = label_sets.count_repeated(examples, separator)
            statistics["repeated_labels"] = repeated
            statistics["rows_without_label"] = sum(not any(row) for row in values)
            return values
        case Classification():
            statistics["respelled_labels"] = row_labels.count_respelled(examples)
            ids = row_labels.label_values(examples, task_config.labels)
            statistics["labels_present"] = len(set(ids))
            return ids
    return row_labels.label_values(examples, None)


def of_squad(
    name: str, file: SquadFile, task_config: Squad, conversion: Conversion
) -> tuple[RecordSet, squad_windows.ConversionReport]:
    """Returns the rows of a SQuAD file, and the report of their making.

    Args:
      name: the split; of "train", questions without an answer to learn make no row.
      file: the questions.
      task_config: the lengths of windows.
      conversion: tokenizer and cache.
    """
    for_training = name == "train"
    windows = squad_windows.WindowSettings.from_task_config(task_config)

    def make(statistics: dict[str, Any]) -> _Made:
        report = squad_windows.ConversionReport()

        def rows():
            yield from squad_windows.make_rows(
                file.paragraphs, conversion.tokenizer, windows, report, for_training
            )
            if not report.windows:
                raise ValueError(f"{file.path}: nothing to train on: {report}.")
            statistics.update(report.to_dict())

        features = squad_features(with_places=not for_training)
        return features, len(list(file.questions())), rows()

    settings = {
        **dataclasses.asdict(windows),
        "labelled": file.golds() is not None,
        "for_training": for_training,
    }
    rows = _cached(f"squad-{name}", [file.path], conversion, settings, make)
    return rows, squad_windows.ConversionReport(**rows.metadata["statistics"])


class ChoiceFiles:
    """The files of a split of multiple-choice questions, read when first needed.

    Attributes:
      files: the files.
      notes: counts of what was read, a line.
    """

    def __init__(
        self,
        name: str,
        path: PathLike,
        input_format: str,
        levels: Sequence[str],
    ):
        """Finds the files.

        Args:
          name: the split; questions of "train" and "dev" need answers.
          path: as `race.find_files`.
          input_format: one of `race.INPUT_FORMATS`.
          levels: parts of RACE to read.
        Raises:
          FileNotFoundError: a file or folder is missing.
        """
        self.name, self.input_format = name, input_format
        self.files = race.find_files(path, input_format, levels)
        self.notes: list[str] = []
        self._path = path
        self._questions: list[multiple_choice.ChoiceQuestion] | None = None

    def questions(self) -> list[multiple_choice.ChoiceQuestion]:
        """Returns all questions; raises ValueError if one lacks a needed answer."""
        if self._questions is None:
            counts: Counter = Counter()
            questions = race.read_questions(self.files, self.input_format, counts)
            if self.name != "test":
                multiple_choice.check_answers(questions, str(self._path))
            self.notes.append(f"{self.name}: {listed(counts)}")
            self._questions = questions
        return self._questions

    def is_labelled(self) -> bool:
        """True if every question has an answer."""
        return self.name != "test" or all(q.label >= 0 for q in self.questions())


def of_choice_files(
    source: ChoiceFiles, task_config: MultipleChoice, conversion: Conversion
) -> RecordSet:
    """Returns the rows of a split of multiple-choice questions."""
    lengths = _length(task_config), task_config.max_qa_length

    def make(statistics: dict[str, Any]) -> _Made:
        questions = source.questions()
        rows = multiple_choice.choice_rows(
            questions, conversion.tokenizer, *lengths, statistics
        )
        return choice_features(), len(questions), rows

    settings = {
        "max_seq_length": lengths[0],
        "max_qa_length": lengths[1],
        "input_format": source.input_format,
        "levels": Counter(file.level for file in source.files),
        "labelled": source.is_labelled(),
    }
    name = f"{task_config.task_name}-{source.name}"
    return _cached(
        name, [file.path for file in source.files], conversion, settings, make
    )


def of_tagged_file(
    name: str, file: TaggedFile, task_config: Tagging, conversion: Conversion
) -> RecordSet:
    """Returns the rows of a file of sentences.

    Args:
      name: the split.
      file: the sentences; without tags, they are to be predicted.
      task_config: the labels, and the lengths of windows.
      conversion: tokenizer and cache.
    """
    lengths = _length(task_config), task_config.doc_stride

    def make(statistics: dict[str, Any]) -> _Made:
        rows = tagging.tagging_rows(
            file.sentences,
            task_config.labels,
            conversion.tokenizer,
            *lengths,
            statistics,
        )
        return tagging_features(), len(file.sentences), rows

    settings = {
        "max_seq_length": lengths[0],
        "doc_stride": lengths[1],
        "labels": list(task_config.labels),
        "columns": list(file.columns),
        "labelled": file.has_tags,
    }
    name = f"{task_config.task_name}-{name}"
    return _cached(name, [file.path], conversion, settings, make)


def _cached(
    name: str,
    inputs: Sequence[PathLike],
    conversion: Conversion,
    settings: Mapping[str, Any],
    make,
) -> RecordSet:
    return cached_rows(
        conversion.cache_dir, name, inputs, conversion.tokenizer, settings, make
    )


def _length(
    task_config: TextTask | MultipleChoice | Tagging,
) -> int:
    if task_config.max_seq_length is None:
        raise ValueError(
            f"The task {task_config.task_name} has no max_seq_length, which rows need: "
            "give its task configuration one."
        )
    return task_config.max_seq_length


def listed(counts: Counter) -> str:
    """Counts in words, without those that are 0."""
    return ", ".join(
        f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items() if count
    )


def warnings_of(name: str, rows: RecordSet) -> list[str]:
    """Returns warnings about the rows of a split."""
    statistics = rows.metadata["statistics"]
    return [
        *classification.row_warnings(name, statistics),
        *tagging.row_warnings(name, statistics),
    ]
