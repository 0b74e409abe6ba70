"""Finds the weights that a path names.

checkpoint     a TensorFlow checkpoint: its prefix, the path up to `.index`
saved_model    a hub module or SavedModel: its folder
hugging_face   a folder of `transformers`
"""

import dataclasses
import enum
import os
from pathlib import Path

from albert_tf.checkpoints import hugging_face, tensorflow_files
from albert_tf.files import check_local

SAVED_MODEL_FILE = "saved_model.pb"
# The checkpoint of a SavedModel, in its folder.
_VARIABLES = "variables/variables"


class Container(enum.Enum):
    """Kinds of files and folders that hold weights."""

    CHECKPOINT = "checkpoint"
    SAVED_MODEL = "saved_model"
    TRANSFORMERS = "hugging_face"


@dataclasses.dataclass(frozen=True)
class WeightsLocation:
    """The place of a model's weights.

    Attributes:
      container: what holds them.
      path: a checkpoint's prefix, or else the folder.
    """

    container: Container
    path: str

    @property
    def prefix(self) -> str:
        """The prefix of the TensorFlow checkpoint; not of a folder of transformers."""
        if self.container is Container.SAVED_MODEL:
            return str(Path(self.path) / _VARIABLES)
        return self.path


def locate(path: str | os.PathLike[str]) -> WeightsLocation:
    """Finds the weights that a path names.

    Args:
      path: a checkpoint, as `tensorflow_files.find_checkpoint` takes it; a folder of a
        hub module, a SavedModel or of `transformers`; or a file of such a folder.
    Raises:
      FileNotFoundError: no weights there.
      ValueError: several checkpoints or kinds of weights in one folder, files of a
        checkpoint are missing, or the path is not one of the file system.
    """
    check_local(path)
    path = Path(path)
    if path.name in (SAVED_MODEL_FILE, *hugging_face.WEIGHTS_FILES):
        path = path.parent
    container = _container(path)
    if container is Container.CHECKPOINT:
        try:
            prefix = tensorflow_files.find_checkpoint(path)
        except FileNotFoundError as error:
            raise no_weights(path) from error
        return WeightsLocation(container, prefix)
    location = WeightsLocation(container, str(path))
    is_saved_model = container is Container.SAVED_MODEL
    if is_saved_model and not Path(f"{location.prefix}.index").is_file():
        raise FileNotFoundError(
            f"{path} holds a {SAVED_MODEL_FILE} without its variables/: copy all of it."
        )
    return location


def _container(path: Path) -> Container:
    """The kind of weights in a folder; a checkpoint if the path is no such folder."""
    containers = []
    if any(path.glob("*.safetensors")):
        containers.append(Container.TRANSFORMERS)
    if (path / SAVED_MODEL_FILE).is_file():
        containers.append(Container.SAVED_MODEL)
    if any(path.glob("*.index")):
        containers.append(Container.CHECKPOINT)
    if len(containers) > 1:
        names = ", ".join(container.value for container in containers)
        raise ValueError(
            f"{path} holds weights of several formats ({names}): keep one in a "
            "folder, or name the checkpoint by its path up to '.index'."
        )
    if containers:
        return containers[0]
    if path.is_dir() and hugging_face.is_folder(path):
        return Container.TRANSFORMERS
    return Container.CHECKPOINT


def no_weights(path: str | os.PathLike[str]) -> FileNotFoundError:
    """The error for a path that names no weights."""
    return FileNotFoundError(
        f"No weights at {str(path)!r}: pass a checkpoint's path up to '.index', or the "
        "folder of a checkpoint, a SavedModel or a Hugging Face model."
    )
