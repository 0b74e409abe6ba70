"""What lies beside a model's weights: its shape, its vocabulary, how text is cleaned.

Loads no TensorFlow. Folders are an own OUTPUT_DIR, a released TensorFlow 1 folder, a
hub module or SavedModel (`assets/`, `assets.extra/`), or one of `transformers`.
"""

import dataclasses
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from albert_tf.checkpoints import hugging_face
from albert_tf.config import AlbertConfig
from albert_tf.files import read_json, write_json
from albert_tf.records.sidecar import TOKENIZER_FILE
from albert_tf.text.tokenizer import AlbertTokenizer

# Layouts in which a model's folder can be written.
TARGETS = ("own", "tensorflow1", "hugging_face", "model_garden")
CONFIG_FILE = "albert_config.json"
# What a model was trained for: labels, lengths.
TASK_FILE = "task.json"
SPM_MODEL_FILE, VOCAB_FILE = "spiece.model", "vocab.txt"
_THEIR_TOKENIZER_FILE = "tokenizer_config.json"
_PLACES = ("", "assets", "assets.extra")
_CONFIGS = (CONFIG_FILE, "bert_config.json", "albert_config*.json")
_SPM_MODELS = (SPM_MODEL_FILE, "*.model")
_VOCABULARIES = (VOCAB_FILE, "vocab*.txt")


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """A vocabulary's file and how text is cleaned for it.

    Attributes:
      file: the file.
      lower_case: whether letters are lower-cased.
      strip_accents: whether combining marks are dropped.
    """

    file: Path
    lower_case: bool
    strip_accents: bool

    @property
    def is_sentencepiece(self) -> bool:
        """Whether it is a SentencePiece model, else WordPiece's pieces."""
        return self.file.suffix != ".txt"

    def tokenizer(self) -> AlbertTokenizer:
        """The tokenizer of the vocabulary; errors are those of its constructor."""
        return AlbertTokenizer.of_file(self.file, self.lower_case, self.strip_accents)


def folder_of(path: str | os.PathLike) -> Path:
    """The folder that a path of weights names or lies in."""
    path = Path(path)
    return path if path.is_dir() else path.parent


def config_file(path: str | os.PathLike) -> Path | None:
    """The file beside weights that says the model's shape; None: there is none.

    Raises:
      ValueError: several files, and none has the usual name.
    """
    folder = folder_of(path)
    theirs = folder / hugging_face.CONFIG_FILE
    if hugging_face.is_folder(folder) and theirs.is_file():
        return theirs
    return _only_file(folder, _CONFIGS) or (theirs if theirs.is_file() else None)


def read_config(path: str | os.PathLike) -> AlbertConfig | None:
    """The shape that the file beside weights says; None: there is none.

    Raises:
      ValueError: a file that is damaged, or of a model that is none of ours.
    """
    file = config_file(path)
    if file is None:
        return None
    if file.name != hugging_face.CONFIG_FILE:
        return AlbertConfig.from_json(file)
    values = read_json(file)
    try:
        return hugging_face.config_of(values)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def ln_type(path: str | os.PathLike) -> str | None:
    """The key of that name in the configuration of an albert_zh model."""
    file = config_file(path)
    return read_json(file).get("ln_type") if file else None


def require_config(path: str | os.PathLike) -> AlbertConfig:
    """As `read_config`.

    Raises:
      FileNotFoundError: there is none, or no weights.
    """
    path = Path(path)
    if not path.exists() and not Path(f"{path}.index").exists():
        raise no_weights(path)
    config = read_config(path)
    if config is None:
        raise FileNotFoundError(
            f"No {CONFIG_FILE} beside {path}: pass --albert_config_file."
        )
    return config


def no_weights(path: str | os.PathLike) -> FileNotFoundError:
    """The error of a path that names no weights."""
    return FileNotFoundError(
        f"No weights at {str(path)!r}: pass a checkpoint's path up to '.index', or the "
        "folder of a checkpoint, a SavedModel or a Hugging Face model."
    )


def find_vocabulary(path: str | os.PathLike) -> Path | None:
    """The vocabulary beside weights: `.model`, SentencePiece's, or else `.txt`.

    Raises:
      ValueError: several of one kind, and none has the usual name.
    """
    folder = folder_of(path)
    return _only_file(folder, _SPM_MODELS) or _only_file(folder, _VOCABULARIES)


def read_vocabulary(
    path: str | os.PathLike,
    file: str | os.PathLike | None = None,
    lower_case: bool | None = None,
    strip_accents: bool | None = None,
) -> Vocabulary | None:
    """The vocabulary beside weights and its cleaning; None: there is no vocabulary.

    Args:
      path: of the weights.
      file: a vocabulary in the place of the one beside them.
      lower_case: in the place of what is said beside them. Where neither says it: text
        is lower-cased, as for the released models.
      strip_accents: the same. Where neither says it: as lower_case.
    Raises:
      ValueError: several vocabularies, or a file is damaged.
    """
    file = file or find_vocabulary(path)
    if file is None:
        return None
    known = read_cleaning(path)
    given = {"lower_case": lower_case, "strip_accents": strip_accents}
    known |= {key: value for key, value in given.items() if value is not None}
    lower_case = known.get("lower_case", True)
    return Vocabulary(Path(file), lower_case, known.get("strip_accents", lower_case))


def read_cleaning(path: str | os.PathLike) -> dict[str, bool]:
    """`lower_case` and `strip_accents`, as far as files beside the weights say them."""
    own = read_metadata(path)
    if own:
        return {key: own[key] for key in ("lower_case", "strip_accents")}
    file = folder_of(path) / _THEIR_TOKENIZER_FILE
    values = read_json(file, missing_ok=True)
    cleaning = {}
    if values.get("do_lower_case") is not None:
        cleaning["lower_case"] = values["do_lower_case"]
    if values.get("keep_accents") is not None:
        cleaning["strip_accents"] = not values["keep_accents"]
    elif values.get("strip_accents") is not None:
        cleaning["strip_accents"] = values["strip_accents"]
    return cleaning


def read_metadata(path: str | os.PathLike) -> dict[str, Any]:
    """The own `tokenizer.json` beside weights, `AlbertTokenizer.metadata()`; or {}."""
    for place in _PLACES:
        file = folder_of(path) / place / TOKENIZER_FILE
        # Files of transformers have this name, too, and hold something else.
        values = read_json(file, missing_ok=True)
        if {"lower_case", "strip_accents"} <= set(values):
            return values
    return {}


def read_task(path: str | os.PathLike) -> dict[str, Any]:
    """What the own `task.json` beside weights says they were trained for; or {}."""
    file = folder_of(path) / TASK_FILE
    return read_json(file, missing_ok=True)


def copy_metadata(path: str | os.PathLike, folder: Path) -> None:
    """Copies the own `tokenizer.json` beside weights, if there is one."""
    metadata = read_metadata(path)
    if metadata:
        write_json(folder / TOKENIZER_FILE, metadata)


def write_vocabulary(folder: Path, vocabulary: Vocabulary) -> AlbertTokenizer:
    """Copies a vocabulary into an own folder, with `tokenizer.json` beside it."""
    tokenizer = vocabulary.tokenizer()
    _copy(folder, vocabulary)
    write_json(folder / TOKENIZER_FILE, tokenizer.metadata())
    return tokenizer


def write_their_vocabulary(folder: Path, vocabulary: Vocabulary) -> AlbertTokenizer:
    """Copies a vocabulary into a folder of `transformers`, with its settings."""
    tokenizer = vocabulary.tokenizer()
    _copy(folder, vocabulary)
    settings: dict[str, Any] = {"do_lower_case": vocabulary.lower_case}
    if vocabulary.is_sentencepiece:
        settings["keep_accents"] = not vocabulary.strip_accents
        settings["tokenizer_class"] = "AlbertTokenizer"
    else:
        settings["strip_accents"] = vocabulary.strip_accents
        settings["tokenizer_class"] = "BertTokenizer"
    write_json(folder / _THEIR_TOKENIZER_FILE, settings)
    return tokenizer


def special_ids(tokenizer: AlbertTokenizer) -> Mapping[str, int]:
    """Ids that a `config.json` of `transformers` names."""
    return {
        "pad_token_id": tokenizer.pad_id,
        "bos_token_id": tokenizer.cls_id,
        "eos_token_id": tokenizer.sep_id,
    }


def _copy(folder: Path, vocabulary: Vocabulary) -> None:
    name = SPM_MODEL_FILE if vocabulary.is_sentencepiece else VOCAB_FILE
    shutil.copyfile(vocabulary.file, folder / name)


def _only_file(folder: Path, patterns: tuple[str, ...]) -> Path | None:
    """The file of the first pattern that one fits, in the folder or its assets."""
    for pattern in patterns:
        found = [f for place in _PLACES for f in sorted((folder / place).glob(pattern))]
        found = [file for file in found if file.is_file()]
        if len(found) > 1:
            names = ", ".join(str(file.relative_to(folder)) for file in found)
            raise ValueError(
                f"{folder} holds several, keep the one that counts: {names}."
            )
        if found:
            return found[0]
    return None
