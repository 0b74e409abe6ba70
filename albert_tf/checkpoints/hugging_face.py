"""Reads and writes folders of `transformers`: `config.json` and the files of weights.

`transformers_names.py` knows the names of weights, `transformers_config.py` the content
of `config.json`, `transformers_tasks.py` the classes. Neither `transformers` nor
PyTorch is needed.
"""

import json
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from albert_tf.checkpoints import pytorch_file
from albert_tf.files import json_bytes, read_json, write_whole
from albert_tf.storage import AnyPath, entries, local_copy

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
# Index of shards -> the file of a model without shards.
_FILES = {f"{name}.index.json": name for name in (WEIGHTS_FILE, "pytorch_model.bin")}
# Bytes that the library allows a header.
_LARGEST_HEADER = 100_000_000
# In the header of the weights; transformers ignores it.
_STEP_KEY = "global_step"
# Files of weights that only other libraries read.
_OTHER_WEIGHTS = ("tf_model.h5", "flax_model.msgpack")
# Names of files that tell that a path is in such a folder.
WEIGHTS_FILES = (*_FILES, *_FILES.values(), *_OTHER_WEIGHTS)


def is_folder(folder: AnyPath) -> bool:
    """True if a folder holds weights of `transformers`, in any of its formats."""
    return not entries(folder).files.isdisjoint(WEIGHTS_FILES)


def read_tensors(folder: AnyPath) -> dict[str, np.ndarray]:
    """Reads all tensors of a folder, from safetensors if there are both kinds of files.

    Raises:
      ValueError: they are in a format that needs another library, or a file is cut off,
        is missing or holds more than tensors.
    """
    there = entries(folder).files
    tensors: dict[str, np.ndarray] = {}
    for name in _weights_files(folder, there):
        if name not in there:
            raise ValueError(
                f"{folder} has no {name}, which its index names: copy all shards."
            )
        is_pickled = not name.endswith(".safetensors")
        with local_copy(folder / name) as local:
            if is_pickled:
                tensors |= pytorch_file.read_tensors(local, folder / name)
            else:
                tensors |= _read_safetensors(folder / name, local)
    return tensors


def _weights_files(folder: AnyPath, there: Collection[str]) -> list[str]:
    """Names of the files that hold the weights: shards, or a single one."""
    for index, single in _FILES.items():
        if index in there:
            shards = read_json(folder / index).get("weight_map")
            shards = shards if isinstance(shards, dict) else {}
            if not (shards and all(map(_is_shard, shards.values()))):
                raise ValueError(
                    f"{folder / index} does not name the files of weights by their "
                    "weight_map: copy it again."
                )
            return sorted(set(shards.values()))
        if single in there:
            return [single]
    others = [name for name in _OTHER_WEIGHTS if name in there]
    raise ValueError(
        f"{folder} holds {', '.join(others) or 'no weights'}, expected "
        f"{' or '.join(_FILES.values())}. With transformers and PyTorch: "
        "AutoModelForPreTraining.from_pretrained(FOLDER).save_pretrained(NEW)."
    )


def _is_shard(name: Any) -> bool:
    """True for the name of a file in the same folder."""
    endings = tuple(Path(single).suffix for single in _FILES.values())
    return isinstance(name, str) and Path(name).name == name and name.endswith(endings)


def _read_safetensors(file: AnyPath, local: Path) -> dict[str, np.ndarray]:
    try:
        with safetensors.safe_open(str(local), "numpy") as opened:
            tensor_format = (opened.metadata() or {}).get("format", "pt")
        tensors = safetensors.numpy.load_file(str(local))
    except (safetensors.SafetensorError, KeyError, TypeError) as error:
        raise ValueError(
            f"{file} cannot be read ({error}): copy it again; its numbers must be "
            "float32 or float16."
        ) from error
    if tensor_format != "pt":
        raise ValueError(
            f"{file} holds tensors of format {tensor_format!r}, expected 'pt': save it "
            "with the PyTorch class of the model."
        )
    return tensors


def read_step(folder: AnyPath) -> int:
    """Reads how many optimizer steps made the weights; 0: unknown."""
    file = folder / WEIGHTS_FILE
    if not file.is_file():
        return 0
    # The header alone: the library takes only local files.
    with file.open("rb") as opened:
        size = int.from_bytes(opened.read(8), "little")
        content = opened.read(min(size, _LARGEST_HEADER))
    try:
        step = json.loads(content).get("__metadata__", {}).get(_STEP_KEY, "")
    except (ValueError, AttributeError) as error:
        raise ValueError(f"{file} cannot be read ({error}): copy it again.") from error
    return int(step) if step.isdecimal() else 0


def write(
    folder: Path,
    tensors: Mapping[str, np.ndarray],
    config_values: Mapping[str, Any],
    global_step: int = 0,
) -> None:
    """Writes `model.safetensors` and `config.json`.

    Args:
      folder: gets the files.
      tensors: name -> weights.
      config_values: content of `config.json`.
      global_step: optimizer steps that made the weights, which the header of the
        weights holds; 0: unknown.
    Raises:
      OSError: the disk is full, for instance.
    """
    file = str(folder / WEIGHTS_FILE)
    metadata = {"format": "pt"}
    if global_step:
        metadata[_STEP_KEY] = str(global_step)
    try:
        safetensors.numpy.save_file(dict(tensors), file, metadata)
    except safetensors.SafetensorError as error:
        raise OSError(f"{file} cannot be written: {error}.") from error
    write_whole(folder / CONFIG_FILE, json_bytes(config_values, indent=2))
    # The library makes files that only their owner can read.
    shutil.copymode(folder / CONFIG_FILE, file)
