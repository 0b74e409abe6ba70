"""Any published or own file of weights -> weights under released names.

our checkpoint                     keys weights/NAME
TensorFlow 1                       released names; BERT's; albert_zh's
TF1 hub module                     released names, some with module/ before them
SavedModel, tf-models' encoder     names that TensorFlow 2 notes beside its keys
Hugging Face                       config.json and model.safetensors
"""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from albert_tf.checkpoints import (
    beside_weights,
    brightmart,
    group_mapping,
    hugging_face,
    model_garden,
    tensorflow_files,
)
from albert_tf.config import AlbertConfig

_HUB_PREFIX = "module/"
# The checkpoint of a SavedModel, in its folder.
_VARIABLES = "variables/variables"
_RELEASED_BLOCK = "bert/encoder/transformer/group_"
_POOLER = "bert/pooler/"


@dataclasses.dataclass(frozen=True)
class StoredWeights:
    """What a file of weights holds.

    Attributes:
      source: the file or folder, as messages name it.
      layout: "own", "tensorflow1", "bert", "albert_zh", "hugging_face" or
        "model_garden"; a hub module or SavedModel has that of its names.
      weights: by released names; those that have none keep their own.
      ignored: names of optimizer slots and counters.
      config: the model's shape; None: nothing beside the weights says it.
      global_step: optimizer steps that made it; 0 where it does not say.
      saved_model: folder of the SavedModel that it is; None: it is none.
    """

    source: str
    layout: str
    weights: Mapping[str, np.ndarray]
    ignored: tuple[str, ...] = ()
    config: AlbertConfig | None = None
    global_step: int = 0
    saved_model: Path | None = None

    @property
    def pooler_left_out(self) -> bool:
        """Whether it is of a class of `transformers` that has no pooler."""
        return self.layout == "hugging_face" and not any(
            name.startswith(_POOLER) for name in self.weights
        )


def read_weights(
    path: str | os.PathLike, config: AlbertConfig | None = None
) -> StoredWeights:
    """Reads weights of any known layout.

    Args:
      path: a checkpoint, as `checkpoint_files.find_checkpoint` takes it; a folder of a
        hub module, a SavedModel or of `transformers`; or a file of such a folder.
      config: the model's shape, in the place of what lies beside the weights.
    Raises:
      FileNotFoundError: no weights there.
      ValueError: a file is damaged, two layouts lie in one folder, or it is none that
        is known.
    """
    kind, place = locate(path)
    config = config or beside_weights.read_config(place)
    if kind == "hugging_face":
        return _read_hugging_face(Path(place), config)
    folder = Path(place) if kind == "saved_model" else None
    prefix = str(folder / _VARIABLES) if folder else place
    source = str(folder or prefix)
    checkpoint = tensorflow_files.open_checkpoint(prefix)
    layout = _layout_of_names(checkpoint, source)
    stored = {n.removeprefix(_HUB_PREFIX): v for n, v in checkpoint.read().items()}
    try:
        if layout == "model_garden":
            stored = model_garden.own_weights(stored, config)
        elif layout == "albert_zh":
            stored = brightmart.own_weights(stored)
            if config:
                config = brightmart.own_config(config, beside_weights.ln_type(place))
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from error
    return StoredWeights(
        source=source,
        layout=layout,
        weights={group_mapping.own_name(name): value for name, value in stored.items()},
        ignored=checkpoint.ignored,
        config=config,
        global_step=tensorflow_files.read_global_step(prefix),
        saved_model=folder,
    )


def read_global_step(path: str | os.PathLike) -> int:
    """Optimizer steps that made weights; 0 where they do not say."""
    kind, place = locate(path)
    return tensorflow_files.read_global_step(place) if kind == "checkpoint" else 0


def locate(path: str | os.PathLike) -> tuple[str, str]:
    """Which weights a path names.

    Returns:
      "hugging_face" or "saved_model", and its folder; or "checkpoint", and its prefix.
    Raises:
      FileNotFoundError: no weights there.
      ValueError: several checkpoints or layouts in one folder.
    """
    path = Path(path)
    if path.name in ("saved_model.pb", *hugging_face.WEIGHTS_FILES):
        path = path.parent
    found = []
    if any(path.glob("*.safetensors")):
        found.append("hugging_face")
    if (path / "saved_model.pb").is_file():
        found.append("saved_model")
    if any(path.glob("*.index")):
        found.append("checkpoint")
    if len(found) > 1:
        raise ValueError(
            f"{path} holds weights of several layouts ({', '.join(found)}): keep one "
            "in a folder, or name the checkpoint by its path up to '.index'."
        )
    if not found and path.is_dir() and hugging_face.is_folder(path):
        found = ["hugging_face"]
    if found == ["saved_model"] and not Path(f"{path / _VARIABLES}.index").is_file():
        raise FileNotFoundError(
            f"{path} holds a saved_model.pb without its variables/: copy all of it."
        )
    if found in (["hugging_face"], ["saved_model"]):
        return found[0], str(path)
    try:
        return "checkpoint", tensorflow_files.find_checkpoint(path)
    except FileNotFoundError as error:
        raise beside_weights.no_weights(path) from error


def _read_hugging_face(folder: Path, config: AlbertConfig | None) -> StoredWeights:
    tensors = hugging_face.read_tensors(folder)
    if config is None:
        raise FileNotFoundError(
            f"No {hugging_face.CONFIG_FILE} in {folder}: copy it from where the "
            "weights come from."
        )
    try:
        weights = hugging_face.own_weights(tensors, config)
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from error
    return StoredWeights(str(folder), "hugging_face", weights, config=config)


def _layout_of_names(checkpoint: tensorflow_files.Checkpoint, source: str) -> str:
    """The layout that a checkpoint's names are of."""
    if checkpoint.naming == "own":
        return "own"
    names = [name.removeprefix(_HUB_PREFIX) for name in checkpoint.keys]
    if any(name.startswith(_RELEASED_BLOCK) for name in names):
        return "own" if checkpoint.naming == "objects" else "tensorflow1"
    if brightmart.is_layout(names):
        return "albert_zh"
    if group_mapping.is_bert(names):
        return "bert"
    if model_garden.is_layout(names):
        return "model_garden"
    held = tensorflow_files.few(sorted(names), 3) or "no weights"
    raise ValueError(
        f"{source} is of no known layout: it holds {held}. Expected the names of "
        "ALBERT's or BERT's TensorFlow 1 checkpoints, of albert_zh, of tf-models' "
        "AlbertEncoder, or our own."
    )
