"""Flags of a TensorFlow Lite file, the data that measures its accuracy, its report."""

import dataclasses
import tempfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from absl import flags

from albert_tf.storage import AnyPath, as_path
from albert_tf.task_config import (
    Classification,
    MultipleChoice,
    Regression,
    Squad,
    Tagging,
    TaskConfig,
    TextTask,
)
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.fine_tuning import datasets, tables, tagging_data
from data_prep.fine_tuning.datasets import PUBLISHED, TaskData

if TYPE_CHECKING:
    from albert_tf.checkpoints.model_dir import ModelDir
    from albert_tf.serving.export import ExportedModel
    from albert_tf.serving.tflite import TfliteSettings
    from albert_tf.serving.tflite_check import DevelopmentSet

FLAGS = flags.FLAGS

# Flags that mean nothing without --tflite.
_DEPENDENT = ("tflite_length", "tflite_options", "tflite_eval_data", "quantize")


def define_flags() -> None:
    """Defines the file, its sizes and types, and the data to measure it on."""
    flags.DEFINE_string("tflite", "", "TensorFlow Lite file to write in addition.")
    flags.DEFINE_integer(
        "tflite_length",
        128,
        "Tokens of a TensorFlow Lite model's row, padding included.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "tflite_options",
        None,
        "Multiple choice: options of a TensorFlow Lite model's question, missing ones "
        "included; default: 4.",
        lower_bound=1,
    )
    flags.DEFINE_string(
        "tflite_eval_data",
        "",
        "Development data to measure the TensorFlow Lite model's accuracy on: GLUE's "
        "folder; a table; a SQuAD file; RACE's folder, or questions as .jsonl; "
        "sentences with tags, in the first and the last column.",
    )
    # The keys of `serving.tflite.QUANTIZATIONS`, which loads TensorFlow.
    flags.DEFINE_enum(
        "quantize",
        "none",
        ["none", "dynamic"],
        "Weights of the TensorFlow Lite model. dynamic: whole numbers of 8 bits, a "
        "quarter of the size; activations are quantized while it runs.",
    )


def check() -> None:
    """Raises flags.Error if flags are given that only --tflite makes use of."""
    given = [name for name in _DEPENDENT if FLAGS[name].present]
    if given and not FLAGS.tflite:
        raise flags.Error(
            f"--{given[0]} is for a TensorFlow Lite file: name one, --tflite."
        )


def prepare(exported: "ExportedModel", folder: "ModelDir") -> "DevelopmentSet | None":
    """Checks what can be wrong, before anything is written, and reads the data.

    Args:
      exported: the model.
      folder: its folder, which has the vocabulary.
    Returns:
      The rows of `--tflite_eval_data`; None: it is not given.
    Raises:
      ValueError: model, flags and data do not fit each other.
      OSError: the file cannot be written, or the data cannot be read.
    """
    from albert_tf.serving import tflite

    tflite.check_output(FLAGS.tflite)
    settings = _settings()
    settings.check(exported)
    if not FLAGS.tflite_eval_data:
        return None
    task_config = _task_config_of_rows(exported.task_config)
    tokenizer = folder.tokenizer()
    try:
        development_set = _read(task_config, tokenizer)
    except (ValueError, OSError) as error:
        # Messages name the flags of the scripts that train.
        raise ValueError(f"--tflite_eval_data: {error}") from error
    tflite.check_options(development_set, settings.options_of(exported))
    return development_set


def export(
    exported: "ExportedModel",
    development_set: "DevelopmentSet | None",
    version: AnyPath,
) -> None:
    """Writes the file and completes the model's card, and prints the report."""
    from albert_tf.serving import tflite

    report = tflite.export_tflite(
        exported,
        FLAGS.tflite,
        _settings(),
        development_set=development_set,
        version=version,
    )
    for line in _lines(report, exported.precision):
        print(f"{FLAGS.tflite}: {line}", flush=True)


def _settings() -> "TfliteSettings":
    from albert_tf.serving import tflite

    return tflite.TfliteSettings(
        FLAGS.tflite_length, FLAGS.quantize, FLAGS.tflite_options
    )


def _lines(report: Mapping[str, Any], precision: str) -> list[str]:
    """The report for people."""
    worst = max(report["largest_differences"].values())
    lines = [
        f"{report['bytes'] / 1e6:.3g} MB, {report['weights']} weights, within "
        f"{worst:.2g} of the model on rows of random ids, not text."
    ]
    if precision != "float32":
        lines.append(f"activations are float32, --precision={precision} is not used.")
    if isinstance(report["accuracy"], str):
        lines.append(f"accuracy {report['accuracy']}: pass --tflite_eval_data.")
        return lines
    for split, found in report["accuracy"].items():
        truncated = found.get("truncated_rows", 0)
        rows = f"{found['rows']} rows" + (f", {truncated} truncated" * bool(truncated))
        metrics = ", ".join(
            f"{name} {found['tflite'][name]:.6g} (the model: {value:.6g})"
            for name, value in found["model"].items()
        )
        apart = max(found["largest_differences"].values())
        lines.append(f"{split}, {rows}: {metrics}; outputs within {apart:.2g}.")
    return lines


def _task_config_of_rows(task_config: TaskConfig | None) -> TaskConfig:
    """The task with rows that the file has room for."""
    if task_config is None:
        raise ValueError(
            "The model was trained for no task, so it has no accuracy: leave out "
            "--tflite_eval_data."
        )
    length = min(task_config.max_seq_length or FLAGS.tflite_length, FLAGS.tflite_length)
    return dataclasses.replace(task_config, max_seq_length=length)


def _read(task_config: TaskConfig, tokenizer: AlbertTokenizer) -> "DevelopmentSet":
    """Reads the data into memory."""
    from albert_tf.serving.tflite_check import DevelopmentSet, LabelledRows
    from albert_tf.tasks.create import create_task
    from albert_tf.tasks.squad import squad_task
    from albert_tf.training.squad_answers import question_set

    with tempfile.TemporaryDirectory() as cache_dir:
        data = _convert(FLAGS.tflite_eval_data, task_config, tokenizer, cache_dir)
        task = create_task(task_config)
        if isinstance(task_config, Squad) and data.questions:
            questions = question_set(data.questions, task_config, data.dev["dev"])
            task = squad_task(task_config, questions=questions)
        splits = {name: LabelledRows.read(rows) for name, rows in data.dev.items()}
    for note in data.notes:
        print(note, flush=True)
    for warning in data.warnings:
        # Rows have the file's length here.
        text = warning.replace("--max_seq_length", "--tflite_length")
        print(f"WARNING: {text}", flush=True)
    return DevelopmentSet(task, splits)


def _convert(
    path: str, task_config: TaskConfig, tokenizer: AlbertTokenizer, cache_dir: str
) -> TaskData:
    """Converts development data of the model's task to rows."""
    if isinstance(task_config, Squad):
        files = {"dev": path}
        return datasets.squad(files, tokenizer, task_config, cache_dir=cache_dir)
    if isinstance(task_config, Tagging):
        files = {"dev": path}
        return tagging_data.tagging(files, tokenizer, task_config, cache_dir=cache_dir)
    if isinstance(task_config, MultipleChoice):
        return _convert_choices(path, task_config, tokenizer, cache_dir)
    if task_config.task_name in PUBLISHED and as_path(path).is_dir():
        return _convert_glue(path, task_config, tokenizer, cache_dir)
    return _convert_table(path, task_config, tokenizer, cache_dir)


def _convert_table(
    path: str,
    task_config: TaskConfig,
    tokenizer: AlbertTokenizer,
    cache_dir: str,
) -> TaskData:
    if isinstance(task_config, TextTask):
        # A file reads one window; a text that is longer is shortened, and counted.
        task_config = dataclasses.replace(task_config, window_pooling=None)
    known = getattr(task_config, "columns", {})
    if isinstance(task_config, TextTask) and not known.get("text"):
        raise ValueError(
            f"{path} is a table, and the model's files do not say which columns it was "
            "trained on: leave --tflite_eval_data out."
        )
    try:
        return datasets.table_of_task(
            {"dev": path}, tokenizer, task_config, cache_dir=cache_dir
        )
    except tables.MissingColumnError as error:
        trained = {"label": "label"} | {n: c for n, c in known.items() if c is not None}
        columns = ", ".join(f"{c!r} for the {n}" for n, c in sorted(trained.items()))
        raise ValueError(
            f"{error.fact}: the model was trained on {columns}; rename the table's."
        ) from error


def _convert_choices(
    path: str, task_config: MultipleChoice, tokenizer: AlbertTokenizer, cache_dir: str
) -> TaskData:
    input_format = "race"
    files = {"dev": as_path(path)}
    if as_path(path).is_dir():
        files = datasets.race_files(path, ["dev"])
    elif as_path(path).suffix == ".jsonl":
        input_format = "jsonl"
    return datasets.race(
        files,
        tokenizer,
        task_config,
        input_format=input_format,
        cache_dir=cache_dir,
    )


def _convert_glue(
    path: str,
    task_config: Classification | Regression,
    tokenizer: AlbertTokenizer,
    cache_dir: str,
) -> TaskData:
    data = datasets.glue(
        task_config.task_name,
        path,
        tokenizer,
        ["dev"],
        max_seq_length=task_config.max_seq_length or FLAGS.tflite_length,
        cache_dir=cache_dir,
    )
    known, read = (
        getattr(each, "labels", None) for each in (task_config, data.task_config)
    )
    if known != read:
        raise ValueError(
            f"The model has the labels {known}, {path} those of "
            f"{task_config.task_name}, {read}: name data of the model's."
        )
    return data
