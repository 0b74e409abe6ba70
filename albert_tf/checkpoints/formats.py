"""Reads published and own weights of any format under the released names.

own checkpoint                     keys weights/NAME
TensorFlow 1                       released names; BERT's; albert_zh's
TF1 hub module                     released names, some with module/ before them
SavedModel, tf-models' encoder     names that TensorFlow 2 stores with its keys
Hugging Face                       names of PyTorch's classes of ALBERT and BERT
"""

import dataclasses
from collections.abc import Mapping

import numpy as np

from albert_tf.checkpoints import (
    albert_zh,
    group_mapping,
    hugging_face,
    model_dir,
    model_garden,
    tensorflow_files,
    transformers_names,
    transformers_tasks,
)
from albert_tf.checkpoints.averaged_weights import check_averages
from albert_tf.checkpoints.checkpoint_format import CheckpointFormat
from albert_tf.checkpoints.location import Container, WeightsLocation, locate
from albert_tf.checkpoints.output_folders import locate_best
from albert_tf.config import AlbertConfig
from albert_tf.files import read_json
from albert_tf.storage import AnyPath, PathLike, as_path

_HUB_PREFIX = "module/"
_RELEASED_BLOCK = "bert/encoder/transformer/group_"
POOLER_PREFIX = "bert/pooler/"
# Heads that read the pooler's output: classifiers, and sentence order.
_POOLED_HEADS = ("output_", "cls/seq_relationship/")


@dataclasses.dataclass(frozen=True)
class StoredWeights:
    """The content of a file of weights.

    Attributes:
      source: the file or folder, as messages name it.
      format: the format that they were read from.
      weights: by released names; weights that have none keep their own.
      ignored: names of optimizer slots and counters, and of buffers and tied copies.
      config: the model's configuration; None: it was not found.
      global_step: optimizer steps that made the weights; 0: unknown.
      saved_model: folder of the SavedModel; None: the source is none.
      averaged: whether they are averages of the weights of many steps.
    """

    source: str
    format: CheckpointFormat
    weights: Mapping[str, np.ndarray]
    ignored: tuple[str, ...] = ()
    config: AlbertConfig | None = None
    global_step: int = 0
    saved_model: AnyPath | None = None
    averaged: bool = False

    def require_config(self) -> AlbertConfig:
        """Returns the configuration.

        Raises:
          FileNotFoundError: it was not found.
        """
        if self.config is None:
            raise FileNotFoundError(
                f"No {model_dir.CONFIG_FILE} next to {self.source}: pass "
                "--albert_config_file."
            )
        return self.config

    @property
    def needs_no_pooler(self) -> bool:
        """True if there is no pooler, and no head that reads it.

        So it is in classes of `transformers` for masked tokens, answers and tokens.
        """
        return not any(
            name.startswith((POOLER_PREFIX, *_POOLED_HEADS)) for name in self.weights
        )


def read_weights(
    path: PathLike, config: AlbertConfig | None = None, use_ema: bool | None = None
) -> StoredWeights:
    """Reads weights of any known format; those of a bucket are copied once.

    Args:
      path: as `output_folders.locate_best` takes it.
      config: replaces the configuration next to the weights.
      use_ema: whether to take averaged weights; None: if there are any.
    Raises:
      FileNotFoundError: no weights there.
      ValueError: a file is damaged, weights of two formats are in one folder, the
        format is unknown, or there are no weights such as `use_ema` asks for.
    """
    location = locate(locate_best(path))
    config = config or model_dir.read_config(location.path)
    if location.container is Container.TRANSFORMERS:
        check_averages(location.path, False, use_ema)
        return _read_transformers(as_path(location.path), config)
    return _read_checkpoint(location, config, use_ema)


def read_step(path: PathLike) -> int:
    """Reads how many optimizer steps made weights; 0: unknown.

    Raises:
      FileNotFoundError, ValueError: as `read_weights`.
    """
    location = locate(locate_best(path))
    if location.container is Container.TRANSFORMERS:
        return hugging_face.read_step(as_path(location.path))
    return tensorflow_files.read_global_step(location.prefix)


def _read_transformers(folder: AnyPath, config: AlbertConfig | None) -> StoredWeights:
    tensors = hugging_face.read_tensors(folder)
    if config is None:
        raise FileNotFoundError(
            f"No {hugging_face.CONFIG_FILE} in {folder}: copy it from where the "
            "weights come from."
        )
    try:
        values = read_json(folder / hugging_face.CONFIG_FILE, missing_ok=True)
        of_tokens = transformers_tasks.is_of_tokens(values)
        weights, ignored = transformers_names.from_transformers(
            tensors, config, of_tokens
        )
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from error
    if of_tokens:
        weights = transformers_tasks.with_tagger(weights)
    return StoredWeights(
        str(folder),
        CheckpointFormat.TRANSFORMERS,
        weights,
        ignored,
        config=config,
        global_step=hugging_face.read_step(folder),
    )


def _read_checkpoint(
    location: WeightsLocation, config: AlbertConfig | None, use_ema: bool | None
) -> StoredWeights:
    """Reads a TensorFlow checkpoint, that of a SavedModel too."""
    source = location.path
    with tensorflow_files.open_checkpoint(location.prefix, use_ema) as checkpoint:
        checkpoint_format = _format_of_names(checkpoint, source)
        weights = {n.removeprefix(_HUB_PREFIX): v for n, v in checkpoint.read().items()}
        global_step = checkpoint.read_global_step()
    try:
        if checkpoint_format is CheckpointFormat.MODEL_GARDEN:
            weights = model_garden.from_model_garden(weights, config)
        elif checkpoint_format is CheckpointFormat.ALBERT_ZH:
            weights = albert_zh.from_albert_zh(weights)
            if config:
                ln_type = model_dir.read_ln_type(source)
                config = albert_zh.convert_config(config, ln_type)
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from error
    is_saved_model = location.container is Container.SAVED_MODEL
    return StoredWeights(
        source=source,
        format=checkpoint_format,
        weights={group_mapping.from_bert_name(n): v for n, v in weights.items()},
        ignored=checkpoint.ignored,
        config=config,
        global_step=global_step,
        saved_model=as_path(source) if is_saved_model else None,
        averaged=checkpoint.averaged,
    )


def _format_of_names(
    checkpoint: tensorflow_files.Checkpoint, source: str
) -> CheckpointFormat:
    """Tells the format of a checkpoint by its names."""
    if checkpoint.naming is tensorflow_files.Naming.OWN:
        return CheckpointFormat.OWN
    names = [name.removeprefix(_HUB_PREFIX) for name in checkpoint.keys]
    if any(name.startswith(_RELEASED_BLOCK) for name in names):
        if checkpoint.naming is tensorflow_files.Naming.OBJECTS:
            return CheckpointFormat.OWN
        return CheckpointFormat.TENSORFLOW1
    if albert_zh.is_albert_zh(names):
        return CheckpointFormat.ALBERT_ZH
    if group_mapping.is_bert(names):
        return CheckpointFormat.BERT
    if model_garden.is_model_garden(names):
        return CheckpointFormat.MODEL_GARDEN
    held = tensorflow_files.summarize(sorted(names), 3) or "no weights"
    raise ValueError(
        f"{source} is of no known format: it holds {held}. Expected the names of "
        "ALBERT's or BERT's TensorFlow 1 checkpoints, of albert_zh, of tf-models' "
        "AlbertEncoder, or our own."
    )
