"""The flags that name files and folders, and the check that no output is an input.

Libraries refuse to replace files of other kinds (`albert_tf.file_kinds`). Here it is
about files of the right kind at the wrong place: a text that is to be the vocabulary
trained on it, predictions over the questions, a model trained into itself.
"""

import fnmatch
import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from absl import flags

from albert_tf.checkpoints.output_names import check_start, holds_weights
from albert_tf.records.file_names import shard_paths
from albert_tf.records.sidecar import sidecar_path
from albert_tf.storage import AnyPath, as_path, check_local, comparable, is_local
from data_prep.fine_tuning.datasets import PUBLISHED
from data_prep.fine_tuning.superglue import SUBMISSIONS

# Files to read; some take comma lists, globs, or NAME@N.
INPUT_FILES = (
    "albert_config_file",
    "albert_config_files",
    "compiler_python",
    "configs",
    "context",
    "dev_file",
    "eval_input_file",
    "input_file",
    "label_names",
    "old_vocabulary",
    "predict_file",
    "spm_model_file",
    "test_file",
    "tflite_eval_data",
    "texts",
    "train_file",
    "vectors",
    "vocab_file",
    "vocabulary",
)
# A program that runs here: nothing copies it.
_LOCAL_FILES = ("compiler_python",)
# Those of them that may be folders of data as well.
_FILES_OR_FOLDERS = ("predict_file", "tflite_eval_data")
# Folders of data.
DATA_FOLDERS = ("data_dir",)
# Weights: folders, or files in them. `--model` may have the other name
# `--init_checkpoint`, so that messages name it by the first one.
MODELS = ("checkpoints", "from", "model", "models", "init_checkpoint")
# Files to write; of a prefix those that begin with it.
OUTPUT_FILES = ("model_prefix", "output_file", "tflite", "onnx")
# Folders that get files whose names are the command's choice.
OUTPUT_FOLDERS = ("export_dir", "output_dir", "to")
# Folders of files that no user names: they may be anywhere.
WORK_FOLDERS = ("cache_dir", "work_dir")
PATH_FLAGS = (
    *INPUT_FILES,
    *DATA_FOLDERS,
    *MODELS,
    *OUTPUT_FILES,
    *OUTPUT_FOLDERS,
    *WORK_FOLDERS,
)

# Names of the files of GLUE and SuperGLUE.
_GLUE_FILES = {
    *(task.train_file for task in PUBLISHED.values()),
    *(
        PurePath(file).name
        for task in PUBLISHED.values()
        for files in (task.dev_files, task.test_files)
        for file in files.values()
    ),
    *(
        PurePath(file).name
        for task in PUBLISHED.values()
        for files in task.diagnostics.values()
        for file in files
    ),
}
# Submissions to GLUE and SuperGLUE, and the name of a table that is predicted instead.
_PREDICTED = {
    "predict",
    *(
        name
        for task in PUBLISHED.values()
        for name in (*task.test_files, *task.diagnostics)
    ),
}
# What the commands that read files write into --output_dir besides the model's
# configuration and vocabulary, which stay as they are.
_RESULT_FILES = {
    *("results.json", "eval_results.json", "squad_results.json"),
    *("predictions.json", "nbest_predictions.json", "null_odds.json"),
    *("test_results.tsv", "test_predictions.tsv"),
    *("test_predictions.conll", "test_predictions.jsonl"),
    *(f"test_results_{name}.tsv" for name in _PREDICTED),
    *(f"GLUE/{name}.tsv" for name in _PREDICTED),
    *(f"{SUBMISSIONS}/{name}.jsonl" for name in _PREDICTED | {"COPA"}),
}
# Folders of RACE's files, which end in .txt.
_RACE_FOLDERS = {"train", "dev", "test", "middle", "high"}
# Subfolders with a meaning, of an exported or converted model.
_MODEL_SUBFOLDERS = {"assets", "assets.extra", "variables"}


def check_paths(values: Mapping[str, Any], words: Sequence[str] = ()) -> None:
    """Checks the paths of a command line, before anything is read or written.

    Args:
      values: flag -> value, of all flags that the command has.
      words: arguments that are no flags.
    Raises:
      flags.Error: the scheme of a path is unknown, or a file must be local; an output
        is an input or would change one.
      ValueError: the scheme of a word is unknown.
    """
    for name in PATH_FLAGS:
        check = check_local if name in _LOCAL_FILES else as_path
        for path in _given(values, name):
            try:
                for entry in (path, *_entries(path)):
                    check(entry)
            except ValueError as error:
                raise flags.Error(f"--{name}: {error}") from None
    for word in words:
        as_path(word)
    outputs = list(_output_files(values))
    _check_patterns(values, outputs)
    _check_files(values, outputs)
    if values.get("do_train") and values.get("output_dir"):
        try:
            check_start(values.get("init_checkpoint") or "", values["output_dir"])
        except ValueError as error:
            raise flags.Error(str(error)) from None
    _check_folders(values)


def _given(values: Mapping[str, Any], name: str) -> list[str]:
    """The paths that a flag names, globs and comma lists as they are."""
    value = values.get(name)
    return [value] if isinstance(value, str) and value else list(value or ())


def _entries(value: str) -> list[str]:
    """The entries of a comma list; a file whose name has a comma is one."""
    if _is_here(value):
        return [value]
    names = [name.strip() for name in value.split(",") if name.strip()]
    # A number of files that is not allowed is reported where they are read.
    return [path for name in names for path in _shards(name)]


def _is_here(path: str) -> bool:
    """True for a local path that exists."""
    return is_local(path) and os.path.exists(path)


def _shards(name: str) -> list[str]:
    try:
        return shard_paths(name)
    except ValueError:
        return [name]


def _input_files(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(flag, path) of each file to read, of local ones if they are there.

    Globs of buckets are left to `_check_patterns`.
    """
    for name in INPUT_FILES:
        for value in _given(values, name):
            for entry in _entries(value):
                found = [entry]
                if is_local(entry) and not os.path.exists(entry):
                    found = glob.glob(entry, recursive=True)
                yield from ((name, path) for path in found)


def _output_files(values: Mapping[str, Any]) -> Iterator[tuple[str, AnyPath]]:
    """(flag, path) of each file to write whose name the flags decide."""
    for value in _given(values, "output_file"):
        if "shard_range" not in values:  # a table and its figure
            yield "output_file", as_path(value)
            yield "output_file", as_path(value).with_suffix(".png")
            continue
        for place, path in enumerate(_entries(value)):
            yield "output_file", as_path(path)
            yield "output_file", sidecar_path(path)
            if not place:
                yield "output_file", as_path(path).with_name("report.json")
    for value in _given(values, "model_prefix"):
        for suffix in (".model", ".vocab"):
            yield "model_prefix", as_path(value + suffix)
    for name in ("tflite", "onnx"):
        for value in _given(values, name):
            yield name, as_path(value)


def _check_files(
    values: Mapping[str, Any], outputs: Sequence[tuple[str, AnyPath]]
) -> None:
    """Raises flags.Error if a file to write is one to read, under whatever name."""
    written = {}
    for name, path in outputs:
        # Only that a bucket's file has the same name can be told.
        if not isinstance(path, Path) or path.exists():
            written[_identity(path)] = (name, path)
    folder = values.get("output_dir")
    if not written and not (folder and _may_hold(folder)):
        return
    for name, path in _input_files(values):
        output = written.get(_identity(path))
        if output:
            raise flags.Error(
                f"--{output[0]} would replace {path}, an input (--{name}): name "
                "another output."
            )
        if folder and _is_result(path, folder):
            raise flags.Error(
                f"--output_dir {folder} gets a file in the place of {path}, an input "
                f"(--{name}): name another --output_dir, or move the input."
            )


def _may_hold(folder: str) -> bool:
    """False for a local path that is no folder."""
    return not is_local(folder) or os.path.isdir(folder)


def _identity(path: str | AnyPath) -> object:
    """A value that is the same for all names of one file."""
    place = as_path(path)
    if not isinstance(place, Path):
        return comparable(place)
    status = place.stat()
    return status.st_dev, status.st_ino


def _is_result(path: str, folder: str) -> bool:
    real, place = comparable(path), comparable(folder)
    return real.is_relative_to(place) and str(real.relative_to(place)) in _RESULT_FILES


def _check_patterns(
    values: Mapping[str, Any], outputs: Sequence[tuple[str, AnyPath]]
) -> None:
    """Raises flags.Error if a glob of inputs matches a file to write."""
    patterns = [
        (name, entry)
        for name in ("input_file", "eval_input_file")
        for value in _given(values, name)
        for entry in _entries(value)
        if glob.has_magic(entry) and not _is_here(entry)
    ]
    for name, pattern in patterns:
        for output, path in outputs:
            if _matches(str(comparable(path)), str(comparable(pattern))):
                raise flags.Error(
                    f"--{output} writes {path}, which --{name}={pattern} matches, so "
                    "that the next run would read it: name another output."
                )


def _matches(path: str, pattern: str) -> bool:
    if "**" not in pattern:
        return PurePath(path).match(pattern)
    # Folders of any depth, or none.
    patterns = (pattern, pattern.replace("**/", ""))
    return any(fnmatch.fnmatchcase(path, each) for each in patterns)


def _check_folders(values: Mapping[str, Any]) -> None:
    """Raises flags.Error if a folder to write is one to read, or changes one."""
    for output in OUTPUT_FOLDERS:
        for path in _given(values, output):
            for name in (*DATA_FOLDERS, *MODELS, *_FILES_OR_FOLDERS):
                if _may_share(values, output, name):
                    continue
                for value in _given(values, name):
                    if _may_hold(value):
                        _check_folder(output, path, name, value)


def _may_share(values: Mapping[str, Any], output: str, name: str) -> bool:
    """True if the results on a model may go to its own folder."""
    is_start = name == "init_checkpoint" and output == "output_dir"
    # Of a model that is trained `check_start` has the rule.
    return is_start and "do_train" in values


def _check_folder(output: str, path: str, name: str, value: str) -> None:
    place, read = comparable(path), comparable(value)
    if not place.is_relative_to(read):
        return
    inner = place.relative_to(read).parts
    if not inner:
        raise flags.Error(
            f"--{output} {path} is the folder of --{name}, an input: name another."
        )
    if name not in MODELS:
        if _holds_data(as_path(path), inner):
            raise flags.Error(
                f"--{output} {path} holds files of --{name} {value}, an input: name "
                "another."
            )
    elif holds_weights(value, inner[0]) or inner[0] in _MODEL_SUBFOLDERS:
        raise flags.Error(
            f"--{output} {path} lies in {inner[0]}/ of --{name} {value}, an input: "
            "name another."
        )


def _holds_data(folder: AnyPath, inner: Sequence[str]) -> bool:
    """True if a folder, `inner` in a folder of data, is one that is read itself."""
    names = {each.name for each in folder.iterdir()} if folder.is_dir() else set()
    if _RACE_FOLDERS.issuperset(inner):
        return any(name.endswith(".txt") for name in names - {"vocab.txt"})
    return bool(names & _GLUE_FILES)
