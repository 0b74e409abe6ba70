"""Turns the files of a task into splits to train on, to evaluate and to predict.

    data = glue("rte", "glue", tokenizer)
    data = table({"train": "mail.csv", "dev": "dev.csv"}, tokenizer, columns)
    data = squad({"train": "train-v2.0.json", "dev": "dev-v2.0.json"}, tokenizer)
    data = race(race_files("RACE"), tokenizer)

Each returns a `TaskData`, which `albert_tf.fine_tune` takes, and so does `tagging` of
`tagging_data.py`, for sentences with tags. Rows are converted once and kept in
`cache_dir`; see `cache.py`.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from albert_tf.storage import AnyPath, PathLike, as_path
from albert_tf.task_config import (
    Classification,
    MultipleChoice,
    Regression,
    Squad,
)
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.fine_tuning import copa, split_rows
from data_prep.fine_tuning import glue as glue_tasks
from data_prep.fine_tuning import race as race_reader
from data_prep.fine_tuning import squad as squad_reader
from data_prep.fine_tuning.squad import SquadFile
from data_prep.fine_tuning.superglue import SUPERGLUE
from data_prep.fine_tuning.table_data import read_tables
from data_prep.fine_tuning.table_data import table as table
from data_prep.fine_tuning.table_data import table_of_task as table_of_task
from data_prep.fine_tuning.task_data import (
    CACHE_DIR,
    MAX_SEQ_LENGTH,
    task_data,
)
from data_prep.fine_tuning.task_data import CUSTOM as CUSTOM
from data_prep.fine_tuning.task_data import TaskData as TaskData

# Tasks on texts whose published files are read as they are.
PUBLISHED = {**glue_tasks.GLUE, **SUPERGLUE}
_RACE_SPLITS = ("train", "dev", "test")


def glue(
    task_name: str,
    data_dir: PathLike,
    tokenizer: AlbertTokenizer,
    splits: Sequence[str] = ("train", "dev"),
    *,
    max_seq_length: int = MAX_SEQ_LENGTH,
    cache_dir: PathLike = CACHE_DIR,
    on_bad_row: str = "error",
    **windows: Any,
) -> TaskData:
    """Reads a task of GLUE or SuperGLUE.

    Args:
      task_name: key of `PUBLISHED`, as "rte".
      data_dir: folder of all tasks, or of this one, with the published files.
      tokenizer: the model's.
      splits: of "train", "dev" and "test"; the last two are all development and test
        files of the task.
      max_seq_length: longest row in tokens, special tokens included.
      cache_dir: folder for the converted rows.
      on_bad_row: as `tables.read_table`.
      **windows: `window_pooling`, `doc_stride` and `max_windows` of the task.
    Raises:
      FileNotFoundError: a file is missing.
      ValueError: no such task, a row that cannot be read, or a length without room.
    """
    task_config = glue_config(task_name, max_seq_length, **windows)
    task = PUBLISHED[task_config.task_name]
    folder = glue_tasks.task_folder(as_path(data_dir), task)
    diagnostics, missing = task.find_diagnostics(folder)
    names = {
        "train": {"train": task.train_file},
        "dev": task.dev_files,
        "test": {**task.test_files, **diagnostics},
    }
    chosen = {name: file for split in splits for name, file in names[split].items()}
    data = read_tables(
        {name: glue_tasks.find_file(folder, file) for name, file in chosen.items()},
        task_config,
        task.train,
        split_rows.Conversion(tokenizer, cache_dir, on_bad_row),
    )
    if "test" not in splits:
        return data
    return dataclasses.replace(data, warnings=(*data.warnings, *missing))


def glue_config(
    task_name: str, max_seq_length: int = MAX_SEQ_LENGTH, **windows: Any
) -> Classification | Regression:
    """Returns the task configuration of a task of GLUE or SuperGLUE; arguments as of
    `glue`."""
    name = task_name.lower()
    if name not in PUBLISHED:
        raise ValueError(
            f"Tasks of GLUE and SuperGLUE are {', '.join(PUBLISHED)}. Received "
            f"{task_name!r}."
        )
    task = PUBLISHED[name]
    columns = task.test.to_dict()
    if task.labels is None:
        return Regression(name, task.bounds, max_seq_length, columns, **windows)
    return Classification(
        name, task.labels, task.metrics, max_seq_length, columns, **windows
    )


def squad(
    files: Mapping[str, PathLike | SquadFile],
    tokenizer: AlbertTokenizer,
    task_config: Squad | None = None,
    *,
    cache_dir: PathLike = CACHE_DIR,
) -> TaskData:
    """Reads questions on paragraphs: SQuAD v1.1 or v2.0.

    Args:
      files: split -> SQuAD file, or one that `squad.read_squad` has read: "train", and
        one of "dev" (has answers) and "test".
      tokenizer: the model's.
      task_config: version and lengths; None: v2.0 if "train" is, default lengths.
      cache_dir: folder for the converted rows.
    Raises:
      FileNotFoundError: a file is missing.
      ValueError: splits that cannot be combined, a file that is no SQuAD file or does
        not fit the version, or lengths without room.
    """
    if not files or not set(files) <= {"train", "dev", "test"} or len(files) > 2:
        raise ValueError(
            "Splits of SQuAD are 'train' and one of 'dev' and 'test'. Received "
            f"{', '.join(files) or 'none'}."
        )
    if {"dev", "test"} <= files.keys():
        raise ValueError("Pass one of 'dev' and 'test': answer the other afterwards.")
    read = {
        name: file if isinstance(file, SquadFile) else squad_reader.read_squad(file)
        for name, file in files.items()
    }
    if task_config is None:
        task_config = Squad(any(file.has_impossible for file in read.values()))
    _check_questions(read, task_config)
    splits, notes = {}, []
    for name, file in read.items():
        conversion = split_rows.Conversion(tokenizer, cache_dir)
        splits[name], report = split_rows.of_squad(name, file, task_config, conversion)
        notes.append(f"{file.path}: {report}.")
    data = task_data(task_config, splits, notes)
    warnings = [
        *data.warnings,
        *_ambiguous(read.get("train")),
        *_unscored(read.get("test")),
    ]
    questions = read.get("dev", read.get("test"))
    return dataclasses.replace(data, questions=questions, warnings=warnings)


def _ambiguous(file: SquadFile | None) -> Iterator[str]:
    """Warns of a training file whose questions have several answers."""
    questions = list(file.questions()) if file else []
    several = sum(len(set(question.answers)) > 1 for question in questions)
    if file and several:
        yield (
            f"{file.path}: {several:,} of {len(questions):,} questions have several "
            "answers; training learns the first one that is in the text."
        )


def _unscored(file: SquadFile | None) -> Iterator[str]:
    """Warns of a file whose answers are not used, since some are missing."""
    questions = list(file.questions()) if file else []
    labelled = sum(question.is_labelled for question in questions)
    if file and 0 < labelled < len(questions):
        yield (
            f"{file.path}: {len(questions) - labelled} of {len(questions)} questions "
            "have no answers and are not marked with is_impossible, so the predictions "
            "are not scored."
        )


def _check_questions(files: Mapping[str, SquadFile], task_config: Squad) -> None:
    if not task_config.version_2:
        for file in files.values():
            file.check_all_answerable()
    if "train" in files:
        files["train"].check_labelled()
    if "dev" in files and files["dev"].golds() is None:
        raise ValueError(
            f"{files['dev'].path} has questions without gold answers, so it cannot be "
            "scored: pass --do_predict in the place of --do_eval."
        )


def race(
    files: Mapping[str, PathLike],
    tokenizer: AlbertTokenizer,
    task_config: MultipleChoice | None = None,
    *,
    input_format: str = "race",
    levels: Sequence[str] = race_reader.LEVELS,
    cache_dir: PathLike = CACHE_DIR,
) -> TaskData:
    """Reads questions with options: RACE, or JSON lines of one's own.

    Args:
      files: "train", "dev" or "test" -> folder or file, as `race.find_files` takes it;
        the first two need answers.
      tokenizer: the model's.
      task_config: lengths; None: 512 tokens, 128 of them for question and option.
      input_format: one of `race.INPUT_FORMATS`.
      levels: parts of RACE to read.
      cache_dir: folder for the converted rows.
    Raises:
      FileNotFoundError: a file is missing.
      ValueError: a file that is not of the format, or lengths without room.
    """
    if unknown := set(files) - set(_RACE_SPLITS):
        raise ValueError(
            f"Splits of RACE are {', '.join(_RACE_SPLITS)}. Received {min(unknown)!r}."
        )
    if task_config is None:
        is_copa = input_format == race_reader.COPA
        task_config = MultipleChoice(
            race_reader.COPA if is_copa else "race",
            () if is_copa else race_reader.LEVELS,
            MAX_SEQ_LENGTH,
        )
    splits, notes = {}, []
    for name, path in files.items():
        source = split_rows.ChoiceFiles(name, path, input_format, levels)
        conversion = split_rows.Conversion(tokenizer, cache_dir)
        splits[name] = split_rows.of_choice_files(source, task_config, conversion)
        notes += source.notes
    return task_data(task_config, splits, notes)


def race_files(
    data_dir: PathLike,
    splits: Sequence[str] = ("train", "dev"),
    input_format: str = "race",
) -> dict[str, AnyPath]:
    """Returns the folders of the published RACE, or train.jsonl and the like.

    Args:
      data_dir: the folder that holds them; RACE may be in a folder of that name.
      splits: of "train", "dev" and "test".
      input_format: one of `race.INPUT_FORMATS`.
    """
    folder = as_path(data_dir)
    if input_format == "jsonl":
        return {name: folder / f"{name}.jsonl" for name in splits}
    if input_format == race_reader.COPA:
        inner = folder / "COPA"
        folder = inner if inner.is_dir() else folder
        return {name: folder / copa.FILES[name] for name in splits}
    # The published archive has all files in a folder RACE.
    nested = {name: folder / "RACE" / name for name in splits}
    return {n: path if path.is_dir() else folder / n for n, path in nested.items()}
