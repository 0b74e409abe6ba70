"""The splits of a task, and the names of what all tasks share."""

import dataclasses
from collections.abc import Mapping, Sequence

from albert_tf.records.sidecar import RecordSet
from albert_tf.task_config import TaskConfig
from data_prep.fine_tuning import split_rows
from data_prep.fine_tuning.squad import SquadFile

CUSTOM = "custom"  # the task of a table of one's own
CACHE_DIR = "fine_tuning_cache"
MAX_SEQ_LENGTH = 512
# Splits with labels to evaluate on: the usual one, and MNLI's second.
DEV_SPLITS = ("dev", "mismatched")


@dataclasses.dataclass(frozen=True)
class TaskData:
    """The splits of a task.

    Attributes:
      task_config: the task; a model keeps it as `task.json`.
      train: rows to train on; None: there are none.
      dev: name -> rows with labels to evaluate on; the split "dev" chooses the best
        checkpoint.
      test: name -> rows to predict.
      notes: counts of the files that were read, a line each.
      warnings: possible mistakes, as many unknown tokens, a line each.
      questions: SQuAD: the file whose rows are "dev" or "test"; None elsewhere.
    """

    task_config: TaskConfig
    train: RecordSet | None = None
    dev: Mapping[str, RecordSet] = dataclasses.field(default_factory=dict)
    test: Mapping[str, RecordSet] = dataclasses.field(default_factory=dict)
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()
    questions: SquadFile | None = None

    def with_test(self, other: "TaskData") -> "TaskData":
        """Returns these splits with the test splits of `other` instead."""
        return dataclasses.replace(
            self,
            test=other.test,
            notes=(*self.notes, *other.notes),
            warnings=(*self.warnings, *other.warnings),
        )


def task_data(
    task_config: TaskConfig, splits: Mapping[str, RecordSet], notes: Sequence[str] = ()
) -> TaskData:
    """Sorts splits by their names, and adds the warnings about their rows."""
    counted = {
        name: rows.metadata["statistics"].get("rows_without_label", 0)
        for name, rows in splits.items()
    }
    notes = [*notes, *_window_notes(splits)]
    notes = [
        *notes,
        *(
            f"{n}: {count:,} rows have no label."
            for n, count in counted.items()
            if count
        ),
    ]
    warnings = [
        warning
        for name, rows in splits.items()
        for warning in split_rows.warnings_of(name, rows)
    ]
    return TaskData(
        task_config,
        splits.get("train"),
        {name: rows for name, rows in splits.items() if name in DEV_SPLITS},
        {n: rows for n, rows in splits.items() if n not in ("train", *DEV_SPLITS)},
        notes,
        warnings,
    )


def _window_notes(splits: Mapping[str, RecordSet]) -> list[str]:
    """Says of each split how many windows its long texts have."""
    notes = []
    for name, rows in splits.items():
        found = rows.metadata["statistics"]
        if long := found.get("long_texts", 0):
            several = found["windows"] - (found["rows"] - long)
            notes.append(
                f"{name}: {long:,} of {found['rows']:,} texts have several windows, "
                f"{several / long:.1f} on average, {found['most_windows']} at most."
            )
    return notes
