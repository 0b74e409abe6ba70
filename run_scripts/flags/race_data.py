"""The sets that `run_race.py` trains on, evaluates and predicts: their flags, their
rows, and what is written of them."""

import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any

from absl import flags

from albert_tf.task_config import MultipleChoice
from data_prep.fine_tuning import cache, multiple_choice, race
from flags import fine_tuning_flags

FLAGS = flags.FLAGS

TASK_NAME = "race"


def define_flags() -> None:
    """Where the questions are, and how long their inputs may be."""
    flags.DEFINE_string(
        "data_dir",
        "",
        "Folder of the published RACE, with train, dev and test; of format jsonl, one "
        "with train.jsonl, dev.jsonl and test.jsonl.",
    )
    flags.DEFINE_enum(
        "input_format",
        "race",
        race.INPUT_FORMATS,
        "race: as published, a JSON object a passage; or those of a folder in all.txt. "
        "jsonl: a JSON object a question, with article, question, options (2 to 26) "
        "and answer (a letter; not needed to predict).",
    )
    flags.DEFINE_bool("high_only", False, "Of RACE, the questions for high schools.")
    flags.DEFINE_bool("middle_only", False, "Of RACE, those for middle schools.")
    flags.DEFINE_string(
        "predict_file", "", "File or folder to predict instead of the test set."
    )
    flags.DEFINE_integer(
        "max_qa_length",
        MultipleChoice.max_qa_length,
        "Pieces of question and option together at most, the last of them; 0: as many "
        "as there is room for.",
    )


@dataclasses.dataclass
class RaceData:
    """The sets, and how their rows are made.

    Attributes:
      model: whose tokenizer cuts the text.
      levels: parts of RACE that are read.
      max_seq_length, max_qa_length: as of `choice.choice_rows`.
    """

    model: Any
    levels: tuple[str, ...]
    max_seq_length: int
    max_qa_length: int
    _questions: dict[str, list] = dataclasses.field(default_factory=dict)

    def task_config(self) -> MultipleChoice:
        """The configuration of the task."""
        return MultipleChoice(
            TASK_NAME, race.LEVELS, self.max_seq_length, self.max_qa_length
        )

    def rows(self, name: str):
        """The rows of a set, from the cache if they are there.

        Args:
          name: train, dev or test; the first two need answers.
        """
        from albert_tf.records.features import choice_features

        files = race.find_files(self._path(name), FLAGS.input_format, self.levels)
        # Of a test set it decides whether there is a score.
        questions = self.questions(name) if name == "test" else None
        settings = {
            "max_seq_length": self.max_seq_length,
            "max_qa_length": self.max_qa_length,
            "input_format": FLAGS.input_format,
            "levels": Counter(file.level for file in files),
            "labelled": not questions or all(q.label >= 0 for q in questions),
        }

        def make(statistics):
            found = self.questions(name)
            lengths = self.max_seq_length, self.max_qa_length
            tokenizer = self.model.tokenizer
            rows = multiple_choice.choice_rows(found, tokenizer, *lengths, statistics)
            return choice_features(), len(found), rows

        return cache.cached_rows(
            fine_tuning_flags.cache_dir(),
            f"{TASK_NAME}-{name}",
            [file.path for file in files],
            self.model.tokenizer,
            settings,
            make,
        )

    def questions(self, name: str) -> list:
        """The questions of a set; what was counted is printed."""
        if name not in self._questions:
            path, counts = self._path(name), Counter()
            files = race.find_files(path, FLAGS.input_format, self.levels)
            found = race.read_questions(files, FLAGS.input_format, counts)
            if name != "test":
                multiple_choice.check_answers(found, path)
            print(f"{name}: {_listed(counts)}", flush=True)
            self._questions[name] = found
        return self._questions[name]

    def _path(self, name: str) -> str:
        if name == "test" and FLAGS.predict_file:
            return FLAGS.predict_file
        if not FLAGS.data_dir:
            raise flags.Error("Name the folder of the questions: --data_dir.")
        folder = Path(FLAGS.data_dir)
        if FLAGS.input_format == "jsonl":
            return str(folder / f"{name}.jsonl")
        # The published archive has all in a folder RACE.
        nested = folder / "RACE" / name
        return str(nested if nested.is_dir() else folder / name)


def _listed(counts: Counter) -> str:
    """Counts in words, without those that are 0."""
    return ", ".join(
        f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items() if count
    )


def from_flags(model) -> RaceData:
    """The sets that the flags name, with the lengths of a model that is trained."""
    if FLAGS.high_only and FLAGS.middle_only:
        raise flags.Error("--high_only and --middle_only leave nothing: pass one.")
    levels = race.LEVELS
    if FLAGS.high_only or FLAGS.middle_only:
        if FLAGS.input_format == "jsonl":
            raise flags.Error(
                "--high_only and --middle_only are for RACE's folders: questions of "
                "--input_format=jsonl have no level."
            )
        levels = ("high",) if FLAGS.high_only else ("middle",)
    known = model.task_config
    if known and not isinstance(known, MultipleChoice):
        raise ValueError(
            f"The model was trained for {known.task_name}, not for multiple "
            "choice: give one that was."
        )
    lengths = {
        name: getattr(known, name)
        if known and not FLAGS[name].present
        else FLAGS[name].value
        for name in ("max_seq_length", "max_qa_length")
    }
    return RaceData(model, levels, **lengths)
