"""Finds, reads and writes the files of TensorFlow checkpoints.

There are three ways of naming weights. TensorFlow 1 stores a weight under its name. Own
checkpoints have a key `weights/NAME` for each weight. Other checkpoints of TensorFlow 2
and SavedModels have keys that follow the Python objects of the program which wrote
them, and store the name of each variable as well; that name is used here.
"""

import contextlib
import dataclasses
import enum
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

# Variables that the original's optimizers and loop store with the weights.
_TRAINING_STATE = re.compile(
    r"/(adam_m|adam_v|lamb_m|lamb_v|m|v|Adam|Adam_1|LAMB|LAMB_1)$"
    r"|^global_step$|^beta[12]_power(_\d+)?$"
)
# A weight's key in an own checkpoint: TensorFlow writes "/" in a name as ".S".
_OWN_WEIGHT = re.compile(r"^weights/(.+)/\.ATTRIBUTES/VARIABLE_VALUE$")
# Keys of optimizers and counters in other checkpoints of TensorFlow 2.
_OBJECT_STATE = re.compile(
    r"/\.OPTIMIZER_SLOT/|^optimizer/|^(save_counter|global_step)/\.ATTRIBUTES/"
)
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
# Errors of TensorFlow's reader if files are missing, cut off or altered.
BROKEN_FILE = (tf.errors.OpError, RuntimeError, ValueError, IndexError)
_T = TypeVar("_T")


class Naming(enum.Enum):
    """Ways in which the keys of a checkpoint name its weights."""

    NAMES = "names"  # TensorFlow 1
    OWN = "own"
    OBJECTS = "objects"  # other checkpoints of TensorFlow 2


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """The names of the weights in a checkpoint.

    Attributes:
      prefix: its path up to `.index`.
      naming: how its keys name the weights.
      keys: name of each weight -> its key.
      ignored: keys of optimizer slots and counters.
    """

    prefix: str
    naming: Naming
    keys: Mapping[str, str]
    ignored: tuple[str, ...]

    def read(self) -> dict[str, np.ndarray]:
        """Reads all weights; returns them by name.

        Raises:
          ValueError: a file is missing, cut off or altered.
        """
        values = _read_tensors(self.prefix, [*self.keys.values()])
        return dict(zip(self.keys, values, strict=True))


def open_checkpoint(prefix: str) -> Checkpoint:
    """Lists the weights of a checkpoint.

    Raises:
      ValueError: its index is missing, cut off or altered.
    """
    shapes = _open_reader(prefix).get_variable_to_shape_map()
    if _OBJECT_GRAPH not in shapes:
        naming = Naming.NAMES
        keys = {key: key for key in shapes if not _TRAINING_STATE.search(key)}
    else:
        naming = Naming.OWN
        matches = {key: _OWN_WEIGHT.match(key) for key in shapes}
        keys = {m[1].replace(".S", "/"): key for key, m in matches.items() if m}
        if not keys:
            naming, keys = Naming.OBJECTS, _keys_of_objects(prefix)
    ignored = set(shapes) - set(keys.values()) - {_OBJECT_GRAPH}
    return Checkpoint(prefix, naming, keys, tuple(sorted(ignored)))


def _keys_of_objects(prefix: str) -> dict[str, str]:
    """Name of each variable of an object-based checkpoint -> its key."""
    [stored] = _read_tensors(prefix, [_OBJECT_GRAPH])
    graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(stored)
    return {
        attribute.full_name or attribute.checkpoint_key: attribute.checkpoint_key
        for node in graph.nodes
        for attribute in node.attributes
        if attribute.name == "VARIABLE_VALUE"
        and not _OBJECT_STATE.search(attribute.checkpoint_key)
    }


def write_named(
    prefix: str | os.PathLike[str], tensors: Mapping[str, np.ndarray]
) -> None:
    """Writes tensors under their names, as TensorFlow 1 did.

    Raises:
      OSError: the disk is full, for instance.
    """
    with explain_writing(prefix):
        tf.raw_ops.SaveV2(
            prefix=str(prefix),
            tensor_names=list(tensors),
            shape_and_slices=[""] * len(tensors),
            tensors=[tf.constant(tensor) for tensor in tensors.values()],
        )


def write_own(
    prefix: str | os.PathLike[str], weights: Mapping[str, np.ndarray], global_step: int
) -> None:
    """Writes weights as an own checkpoint without training state.

    Raises:
      OSError: the disk is full, for instance.
    """
    checkpoint = tf.train.Checkpoint(
        weights={name: tf.Variable(value) for name, value in weights.items()},
        global_step=tf.Variable(global_step, dtype=tf.int64),
    )
    with explain_writing(prefix):
        checkpoint.write(str(prefix))


@contextlib.contextmanager
def explain_writing(prefix: str | os.PathLike[str]) -> Iterator[None]:
    """Turns errors of TensorFlow while it writes into an OSError of one line."""
    try:
        yield
    except tf.errors.OpError as error:
        reason = (error.message or str(error)).splitlines()[0]
        raise OSError(
            f"Checkpoint {prefix} cannot be written ({reason}): make space there, or "
            "name another folder."
        ) from error


def find_checkpoint(prefix_or_dir: str | os.PathLike[str]) -> str:
    """Returns the prefix of the checkpoint that a path names.

    Args:
      prefix_or_dir: the path up to `.index`; one of the checkpoint's files; an output
        folder of training, for its latest checkpoint; or a folder of exactly one.
    Raises:
      FileNotFoundError: no checkpoint there.
      ValueError: a folder of several that does not tell which is the latest.
    """
    path = Path(prefix_or_dir)
    latest = tf.train.latest_checkpoint(path) if path.is_dir() else None
    if latest:
        return latest
    if path.is_dir():
        indexes = sorted(path.glob("*.index"))
        if len(indexes) > 1:
            names = summarize([index.stem for index in indexes])
            raise ValueError(f"{path} holds several checkpoints, name one: {names}.")
        prefix = indexes[0].with_suffix("") if indexes else path
    else:
        name = re.sub(r"\.(index|meta|data-\d+-of-\d+)$", "", path.name)
        prefix = path.with_name(name)
    if not Path(f"{prefix}.index").is_file():
        raise FileNotFoundError(
            f"No checkpoint {str(prefix_or_dir)!r}: pass the path up to '.index' or "
            "the folder that holds it."
        )
    return str(prefix)


def read_global_step(prefix: str) -> int:
    """Reads how many optimizer steps made a checkpoint; 0: unknown."""
    reader = _open_reader(prefix)
    for key in ("global_step/.ATTRIBUTES/VARIABLE_VALUE", "global_step"):
        if reader.has_tensor(key):
            return int(_read_tensors(prefix, [key])[0])
    return 0


def summarize(names: Sequence[str], limit: int = 5) -> str:
    """Lists the first names, and tells how many more there are."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def _open_reader(prefix: str) -> Any:
    return _explain_reading(prefix, lambda: tf.train.load_checkpoint(prefix))


def _read_tensors(prefix: str, keys: Sequence[str]) -> list[np.ndarray]:
    reader = _open_reader(prefix)
    return _explain_reading(prefix, lambda: [reader.get_tensor(key) for key in keys])


def _explain_reading(prefix: str, read: Callable[[], _T]) -> _T:
    """Turns errors of TensorFlow's reader into a ValueError of one line."""
    try:
        return read()
    except BROKEN_FILE as error:
        raise ValueError(
            f"Checkpoint {prefix} cannot be read: copy its .index and .data files "
            f"again ({error})."
        ) from error
