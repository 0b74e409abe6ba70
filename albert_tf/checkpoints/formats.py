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
    brightmart,
    group_mapping,
    hugging_face,
    model_dir,
    model_garden,
    tensorflow_files,
)
from albert_tf.checkpoints.location import Container, locate
from albert_tf.config import AlbertConfig

_HUB_PREFIX = "module/"
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
    location = locate(path)
    source = location.path
    config = config or model_dir.read_config(source)
    if location.container is Container.TRANSFORMERS:
        return _read_hugging_face(Path(source), config)
    checkpoint = tensorflow_files.open_checkpoint(location.prefix)
    layout = _layout_of_names(checkpoint, source)
    stored = {n.removeprefix(_HUB_PREFIX): v for n, v in checkpoint.read().items()}
    try:
        if layout == "model_garden":
            stored = model_garden.own_weights(stored, config)
        elif layout == "albert_zh":
            stored = brightmart.own_weights(stored)
            if config:
                config = brightmart.own_config(config, model_dir.read_ln_type(source))
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from error
    is_saved_model = location.container is Container.SAVED_MODEL
    return StoredWeights(
        source=source,
        layout=layout,
        weights={group_mapping.own_name(name): value for name, value in stored.items()},
        ignored=checkpoint.ignored,
        config=config,
        global_step=tensorflow_files.read_global_step(location.prefix),
        saved_model=Path(source) if is_saved_model else None,
    )


def read_global_step(path: str | os.PathLike) -> int:
    """Optimizer steps that made weights; 0 where they do not say."""
    location = locate(path)
    if location.container is not Container.CHECKPOINT:
        return 0
    return tensorflow_files.read_global_step(location.prefix)


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
