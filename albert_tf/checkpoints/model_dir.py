"""The folder of a model: weights, configuration, vocabulary and task.

    model.ckpt-N.*               weights (`output_folders.py`: which ones count)
    albert_config.json           configuration
    spiece.model or vocab.txt    vocabulary
    tokenizer.json               the vocabulary's digest, and how text is cleaned
    task.json                    what the model was trained for
    pretraining.json             which pair objective a pretrained model has learned

The names of these files are defined here, and so are the places in which others are
searched and the rule of text cleaning for a folder that does not state it. A released
TensorFlow 1 folder, a hub module or SavedModel (files in `assets/` or `assets.extra/`)
and a folder of `transformers` are read as well.
"""

import dataclasses
import fnmatch
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf import task_config as task_configs
from albert_tf.checkpoints import (
    hugging_face,
    transformers_config,
    transformers_tasks,
    transformers_tokenizer,
)
from albert_tf.checkpoints.output_folders import (
    BEST_REPORT_FILE,
    locate_best,
)
from albert_tf.checkpoints.vocabulary_file import VocabularyFile as VocabularyFile
from albert_tf.config import AlbertConfig
from albert_tf.files import json_bytes, read_json, write_json, writing
from albert_tf.storage import AnyPath, PathLike, as_path, comparable, entries
from albert_tf.task_config import TaskConfig
from albert_tf.text import vocabulary_content
from albert_tf.text.tokenizer import AlbertTokenizer, is_wordpiece_file

CONFIG_FILE = "albert_config.json"
TASK_FILE = "task.json"
# `AlbertTokenizer.metadata()`.
TOKENIZER_FILE = "tokenizer.json"
# What a pretrained model has learned, besides masked tokens.
PRETRAINING_FILE = "pretraining.json"
SPM_MODEL_FILE, VOCAB_FILE = "spiece.model", "vocab.txt"
_ASSETS = ("assets", "assets.extra")
_CONFIGS = (CONFIG_FILE, "bert_config.json", "albert_config*.json")
_SPM_MODELS = (SPM_MODEL_FILE, "*.model")
_VOCABULARIES = (VOCAB_FILE, "vocab*.txt")
_CLEANING = ("lower_case", "strip_accents")


@dataclasses.dataclass(frozen=True)
class ModelDir:
    """The content of a model's folder.

    Attributes:
      checkpoint: its best weights: a checkpoint's prefix, or a folder of another
        format.
      config: the model's configuration; None: not there.
      task_config: what the model was trained for; None: for no task.
      vocabulary: path of its vocabulary; None: not there.
      tokenizer_settings: what its files state of the vocabulary and of text cleaning.
      metrics: of its best weights, if evaluations chose them.
    """

    checkpoint: str
    config: AlbertConfig | None
    task_config: TaskConfig | None
    vocabulary: AnyPath | None
    tokenizer_settings: dict[str, Any]
    metrics: dict[str, Any]

    @classmethod
    def read(
        cls,
        path: PathLike,
        vocabulary: PathLike | None = None,
    ) -> "ModelDir":
        """Reads the model of an output folder, or next to weights of any format.

        Args:
          path: the folder or weights.
          vocabulary: the vocabulary; None: the one next to the weights.
        Raises:
          FileNotFoundError: no weights there.
          ValueError: a file of the folder is damaged, or there are several of one kind.
        """
        weights = locate_best(path)
        return cls(
            checkpoint=weights,
            config=read_config(weights),
            task_config=read_task_config(weights),
            vocabulary=as_path(vocabulary) if vocabulary else find_vocabulary(weights),
            tokenizer_settings=read_stated(weights),
            metrics=read_json(folder_of(weights) / BEST_REPORT_FILE, missing_ok=True),
        )

    def require_task(self) -> TaskConfig:
        """The task that the model was trained for.

        Raises:
          ValueError: its files name none.
        """
        if self.task_config is None:
            raise ValueError(
                f"{folder_of(self.checkpoint)} does not say what the model was trained "
                f"for ({TASK_FILE}): train it for a task first."
            )
        return self.task_config

    def require_config(self) -> AlbertConfig:
        """The configuration.

        Raises:
          FileNotFoundError: there is none in the folder.
        """
        if self.config is None:
            raise FileNotFoundError(
                f"{folder_of(self.checkpoint)} holds no configuration ({CONFIG_FILE}): "
                "copy the model's file there."
            )
        return self.config

    def tokenizer(self) -> AlbertTokenizer:
        """Builds the tokenizer that the model was trained with.

        Raises:
          FileNotFoundError: there is no vocabulary in the folder.
          ValueError: the vocabulary is not the one that the model was trained with.
        """
        folder = folder_of(self.checkpoint)
        if self.vocabulary is None:
            raise FileNotFoundError(
                f"{folder} holds no vocabulary ({SPM_MODEL_FILE} or {VOCAB_FILE}): "
                "copy the model's there."
            )
        digest = self.tokenizer_settings.get("vocabulary_sha256")
        if digest and digest != vocabulary_content.vocabulary_digest(self.vocabulary):
            raise ValueError(
                f"{self.vocabulary} is not the vocabulary that {folder} was trained "
                "with: copy that one there."
            )
        return VocabularyFile.with_cleaning(
            self.vocabulary, self.tokenizer_settings
        ).tokenizer()


# -- reading files next to weights


def folder_of(path: PathLike) -> AnyPath:
    """The folder that a path of weights names or lies in."""
    path = as_path(path)
    return path if path.is_dir() else path.parent


def find_config(path: PathLike, named: PathLike | None = None) -> AnyPath | None:
    """Finds the configuration file next to weights; None: there is none.

    Args:
      path: the weights.
      named: a file that the user names, which counts if it is one of several.
    Raises:
      ValueError: several files, and none has the usual name.
    """
    folder = folder_of(path)
    transformers = folder / hugging_face.CONFIG_FILE
    if hugging_face.is_folder(folder) and transformers.is_file():
        return transformers
    own = _only_file(folder, _files(folder), _CONFIGS, named)
    return own or (transformers if transformers.is_file() else None)


def read_config(path: PathLike, named: PathLike | None = None) -> AlbertConfig | None:
    """Reads the configuration next to weights; None: there is none.

    Args:
      path: the weights.
      named: as `find_config` takes it.
    Raises:
      ValueError: the file is damaged, or describes another kind of model.
    """
    file = find_config(path, named)
    if file is None:
        return None
    is_theirs = file.name == hugging_face.CONFIG_FILE
    return read_config_file(file, is_theirs)


def read_config_file(file: PathLike, of_transformers: bool = False) -> AlbertConfig:
    """Reads a file of a configuration, own or of `transformers`.

    Args:
      file: the file.
      of_transformers: whether it is known to be theirs; else its keys tell.
    Raises:
      ValueError: the file is damaged, or describes another kind of model.
    """
    values = read_json(file)
    if not (of_transformers or transformers_config.is_config(values)):
        return AlbertConfig.from_values(values, file)
    try:
        return transformers_config.config_from_dict(values)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def read_ln_type(path: PathLike) -> str | None:
    """Reads the key `ln_type` of an albert_zh configuration; None: there is none."""
    file = find_config(path)
    return read_json(file).get("ln_type") if file else None


def read_task(path: PathLike) -> dict[str, Any]:
    """Reads the values of the `task.json` next to weights; empty: there is no task.

    Of a folder of `transformers` these are what its configuration says.

    Raises:
      ValueError: a file is damaged.
    """
    folder = folder_of(path)
    values = read_json(folder / TASK_FILE, missing_ok=True)
    if values or not hugging_face.is_folder(folder):
        return values
    file = folder / hugging_face.CONFIG_FILE
    try:
        task = transformers_tasks.read_task(read_json(file, missing_ok=True))
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
    return task.to_dict() if task else {}


def read_task_config(path: PathLike) -> TaskConfig | None:
    """Reads what the model next to weights was trained for; None: for no task.

    Raises:
      ValueError: the file that says it is damaged.
    """
    values = read_task(path)
    try:
        return task_configs.from_dict(values) if values else None
    except ValueError as error:
        raise ValueError(f"{folder_of(path) / TASK_FILE}: {error}") from error


def find_vocabulary(path: PathLike) -> AnyPath | None:
    """Finds the vocabulary next to weights; None: there is none.

    A SentencePiece model counts before a WordPiece vocabulary, and a `tokenizer.json`
    of `transformers` last.

    Raises:
      ValueError: several of one kind, and none has the usual name.
    """
    folder = folder_of(path)
    files = _files(folder)
    found = _only_file(folder, files, (*_SPM_MODELS, *_VOCABULARIES))
    others = filter(
        vocabulary_content.is_wordpiece_tokenizer, _matches(files, TOKENIZER_FILE)
    )
    return found or next(others, None)


def vocabularies(path: PathLike) -> list[AnyPath]:
    """All files next to weights that have the name of a vocabulary."""
    folder = folder_of(path)
    files, patterns = _files(folder), (*_SPM_MODELS, *_VOCABULARIES)
    return [file for pattern in patterns for file in _matches(files, pattern)]


def read_vocabulary(path: PathLike) -> VocabularyFile | None:
    """Finds the vocabulary next to weights and its text cleaning; None: there is none.

    Raises:
      ValueError: several vocabularies, or a file is damaged.
    """
    file = find_vocabulary(path)
    return VocabularyFile.with_cleaning(file, read_cleaning(path)) if file else None


def read_stated(path: PathLike) -> dict[str, Any]:
    """Reads what files next to weights state of the vocabulary and of text cleaning."""
    return read_metadata(path) or read_cleaning(path)


def read_cleaning(path: PathLike) -> dict[str, bool]:
    """Reads `lower_case` and `strip_accents`, as far as files next to weights say."""
    own = read_metadata(path)
    if own:
        return {key: own[key] for key in _CLEANING}
    return transformers_tokenizer.read_cleaning(folder_of(path))


def read_metadata(path: PathLike) -> dict[str, Any]:
    """Reads the own `tokenizer.json` next to weights; empty: there is none.

    `transformers` has a file of that name too, of other content, which is ignored.
    """
    for file in _matches(_files(folder_of(path)), TOKENIZER_FILE):
        values = read_json(file)
        if set(_CLEANING) <= set(values):
            return values
    return {}


def _files(folder: AnyPath) -> list[AnyPath]:
    """The files of a folder and of its assets."""
    there = entries(folder)
    found: list[AnyPath] = [folder / name for name in sorted(there.files)]
    for place in (folder / name for name in _ASSETS if name in there.folders):
        found += (place / name for name in sorted(entries(place).files))
    return found


def _matches(files: Sequence[AnyPath], pattern: str) -> list[AnyPath]:
    return [file for file in files if fnmatch.fnmatchcase(file.name, pattern)]


def _only_file(
    folder: AnyPath,
    files: Sequence[AnyPath],
    patterns: tuple[str, ...],
    named: PathLike | None = None,
) -> AnyPath | None:
    """Finds the file of the first pattern that matches one in the folder or assets."""
    for pattern in patterns:
        matches = _matches(files, pattern)
        if len(matches) > 1:
            for file in matches:
                if named and comparable(named) == comparable(file):
                    return file
            names = ", ".join(_name_in(folder, file) for file in matches)
            raise ValueError(
                f"{folder} holds several, keep the one that counts: {names}."
            )
        if matches:
            return matches[0]
    return None


def _name_in(folder: AnyPath, file: AnyPath) -> str:
    return file.name if file.parent == folder else f"{file.parent.name}/{file.name}"


# -- writing


def model_files(vocabulary: AnyPath, task: Mapping[str, Any]) -> dict[str, bytes]:
    """Name -> content of the files that a task writes next to its weights."""
    return {**vocabulary_files(vocabulary), TASK_FILE: json_bytes(dict(task))}


def vocabulary_files(vocabulary: AnyPath) -> dict[str, bytes]:
    """Name in a model's folder -> content of a vocabulary."""
    name = _vocabulary_name(is_wordpiece_file(vocabulary))
    return {name: vocabulary_content.read_vocabulary(vocabulary)}


def replace_task(path: PathLike, task: Mapping[str, Any]) -> None:
    """Rewrites the `task.json` of a model, in `best/` and in the run's own folder."""
    folder = folder_of(locate_best(path))
    for file in {folder / TASK_FILE, folder.parent / TASK_FILE}:
        if file.is_file():
            write_json(file, dict(task))


def write_vocabulary(folder: AnyPath, vocabulary: VocabularyFile) -> AlbertTokenizer:
    """Copies a vocabulary into an own folder and writes its `tokenizer.json`."""
    tokenizer = vocabulary.tokenizer()
    _copy(folder, vocabulary)
    write_json(folder / TOKENIZER_FILE, tokenizer.metadata())
    return tokenizer


def write_transformers_vocabulary(
    folder: AnyPath, vocabulary: VocabularyFile
) -> AlbertTokenizer:
    """Copies a vocabulary into a folder of `transformers`, with its configuration."""
    tokenizer = vocabulary.tokenizer()
    _copy(folder, vocabulary)
    values = transformers_tokenizer.config_values(vocabulary)
    write_json(folder / transformers_tokenizer.CONFIG_FILE, values)
    return tokenizer


def _copy(folder: AnyPath, vocabulary: VocabularyFile) -> None:
    target = folder / _vocabulary_name(bool(vocabulary.is_wordpiece))
    with writing(target):
        target.write_bytes(vocabulary_content.read_vocabulary(vocabulary.path))


def _vocabulary_name(is_wordpiece: bool) -> str:
    return VOCAB_FILE if is_wordpiece else SPM_MODEL_FILE
