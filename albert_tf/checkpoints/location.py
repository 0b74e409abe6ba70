"""Finds the weights that a path names.

checkpoint     a TensorFlow checkpoint: its prefix, the path up to `.index`
saved_model    a hub module or SavedModel: its folder
hugging_face   a folder of `transformers`
"""

import dataclasses
import enum
from collections.abc import Collection

from albert_tf.checkpoints import hugging_face, tensorflow_files
from albert_tf.folders import LIST_FILE, check_whole
from albert_tf.storage import AnyPath, PathLike, as_path, entries, is_local

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
            return str(as_path(self.path) / _VARIABLES)
        return self.path


def locate(path: PathLike) -> WeightsLocation:
    """Finds the weights that a path names.

    Args:
      path: a checkpoint, as `tensorflow_files.find_checkpoint` takes it; a folder of a
        hub module, a SavedModel or of `transformers`; or a file of such a folder.
    Raises:
      FileNotFoundError: no weights there.
      ValueError: several checkpoints or kinds of weights in one folder, files are
        missing, or the path's scheme is unknown.
    """
    path = as_path(path)
    if path.name in (SAVED_MODEL_FILE, *hugging_face.WEIGHTS_FILES):
        path = path.parent
    names = entries(path).files
    if LIST_FILE in (names or entries(path.parent).files):
        check_whole(path if names else path.parent)
    container = _container(path, names)
    if container is Container.CHECKPOINT:
        try:
            prefix = tensorflow_files.find_checkpoint(path)
        except FileNotFoundError as error:
            raise no_weights(path) from error
        return WeightsLocation(container, prefix)
    location = WeightsLocation(container, str(path))
    is_saved_model = container is Container.SAVED_MODEL
    if is_saved_model and not as_path(f"{location.prefix}.index").is_file():
        raise FileNotFoundError(
            f"{path} holds a {SAVED_MODEL_FILE} without its variables/: copy all of it."
        )
    return location


def _container(path: AnyPath, names: Collection[str]) -> Container:
    """The kind of weights of a folder by the names of its files; without any a
    checkpoint."""
    containers = []
    if any(name.endswith(".safetensors") for name in names):
        containers.append(Container.TRANSFORMERS)
    if SAVED_MODEL_FILE in names:
        containers.append(Container.SAVED_MODEL)
    if any(name.endswith(".index") for name in names):
        containers.append(Container.CHECKPOINT)
    if len(containers) > 1:
        kinds = ", ".join(container.value for container in containers)
        raise ValueError(
            f"{path} holds weights of several formats ({kinds}): keep one in a "
            "folder, or name the checkpoint by its path up to '.index'."
        )
    if containers:
        return containers[0]
    if not set(names).isdisjoint(hugging_face.WEIGHTS_FILES):
        return Container.TRANSFORMERS
    return Container.CHECKPOINT


def no_weights(path: PathLike) -> FileNotFoundError:
    """The error for a path that names no weights."""
    # Buckets that do not exist, or may not be read, list nothing.
    more = "" if is_local(path) else " Check the bucket's name and your permissions."
    return FileNotFoundError(
        f"No weights at {str(path)!r}: pass a checkpoint's path up to '.index', or the "
        f"folder of a checkpoint, a SavedModel or a Hugging Face model.{more}"
    )
