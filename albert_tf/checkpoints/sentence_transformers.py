"""The files of sentence-transformers that say how vectors are made."""

from pathlib import PurePath
from typing import Any

from albert_tf.checkpoints.model_dir import folder_of
from albert_tf.field_rules import whole
from albert_tf.files import json_bytes, parse_json, read_json
from albert_tf.storage import AnyPath, PathLike, as_path
from albert_tf.task_config import Embedding

_MODULES, _POOLING = "modules.json", "1_Pooling/config.json"
_LENGTH = "sentence_bert_config.json"
# Key of the pooling's file -> our name.
_MODES = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "first",
}
_OTHERS = (
    "pooling_mode_max_tokens",
    "pooling_mode_mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens",
    "pooling_mode_lasttoken",
)
_TYPES = "sentence_transformers.models"


def read_pooling(model: PathLike) -> Embedding | None:
    """Reads pooling, normalization and length of a folder.

    Args:
      model: the folder, or weights in it.
    Returns:
      The task of its vectors; None: it is not of sentence-transformers.
    Raises:
      ValueError: it pools in another way than is known here.
    """
    folder = as_path(folder_of(str(model)))
    if not (folder / _POOLING).is_file():
        return None
    values = read_json(folder / _POOLING)
    modes = [mode for key, mode in _MODES.items() if values.get(key)]
    if len(modes) != 1 or any(values.get(key) for key in _OTHERS):
        asked = [key for key in (*_MODES, *_OTHERS) if values.get(key)]
        raise ValueError(
            f"{folder / _POOLING} asks for {', '.join(asked) or 'no pooling'}: only "
            f"one of {', '.join(_MODES)} is known here."
        )
    length = read_json(folder / _LENGTH, missing_ok=True).get("max_seq_length")
    if length is not None and not whole(length, 1):
        raise ValueError(
            f"{folder / _LENGTH}: max_seq_length must be a whole number above 0. "
            f"Received {length!r:.80}."
        )
    return Embedding(
        "custom",
        pooling=modes[0],
        normalize=_normalizes(folder),
        max_seq_length=length,
    )


def _normalizes(folder: AnyPath) -> bool:
    """True if the list of modules has one that normalizes."""
    file = folder / _MODULES
    modules = parse_json(file.read_text(encoding="utf-8")) if file.is_file() else []
    if not isinstance(modules, list):
        raise ValueError(f"{file} is no list of modules: copy it again.")
    types = [str(m.get("type")) for m in modules if isinstance(m, dict)]
    return any(name.endswith(".Normalize") for name in types)


def files(task: Embedding, hidden_size: int) -> dict[str, bytes]:
    """Name -> content of the files that make a folder one of sentence-transformers.

    Args:
      task: how vectors are made; not by the pooled output, which there is no module
        for.
      hidden_size: size of a vector.
    """
    modules: list[dict[str, Any]] = [
        {"idx": 0, "name": "0", "path": "", "type": f"{_TYPES}.Transformer"},
        {
            "idx": 1,
            "name": "1",
            "path": str(PurePath(_POOLING).parent),
            "type": f"{_TYPES}.Pooling",
        },
    ]
    if task.normalize:
        place = "2_Normalize"
        module = {"idx": 2, "name": "2", "path": place, "type": f"{_TYPES}.Normalize"}
        modules.append(module)
    pooling = {
        "word_embedding_dimension": hidden_size,
        **{key: mode == task.pooling for key, mode in _MODES.items()},
    }
    contents: dict[str, Any] = {_MODULES: modules, _POOLING: pooling}
    if task.max_seq_length is not None:
        length = {"max_seq_length": task.max_seq_length, "do_lower_case": False}
        contents[_LENGTH] = length
    return {name: json_bytes(values) for name, values in contents.items()}
