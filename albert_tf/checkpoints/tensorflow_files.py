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
from google.protobuf import text_format
from tensorflow.core.protobuf import trackable_object_graph_pb2
from tensorflow.python.training.checkpoint_state_pb2 import CheckpointState

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
_STEP, _SAVE_COUNTER = (
    f"{name}/.ATTRIBUTES/VARIABLE_VALUE" for name in ("global_step", "save_counter")
)
# The file of a folder that lists its checkpoints.
STATE_FILE = "checkpoint"
# A file of a checkpoint: its prefix, and of a data file the number of them.
_PART = re.compile(r"^(.+)\.(?:index|data-\d+-of-(\d+))$")
# The step in the name of an own checkpoint.
_STEP_IN_NAME = re.compile(r"model\.ckpt-(\d+)$")
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
      ValueError: files of the checkpoint are missing; its folder's list of checkpoints
        is damaged; or a folder of several does not tell which is the latest.
    """
    path = Path(prefix_or_dir)
    listed = read_state(path)
    if listed:
        _require_files(listed[-1], f"{path / STATE_FILE} names")
        return listed[-1]
    if path.is_dir():
        parts = (_PART.match(file.name) for file in path.iterdir())
        names = sorted({part[1] for part in parts if part})
        if len(names) > 1:
            raise ValueError(
                f"{path} holds several checkpoints, name one: {summarize(names)}."
            )
        prefix = path / names[0] if names else path
    else:
        name = re.sub(r"\.(index|meta|data-\d+-of-\d+)$", "", path.name)
        prefix = path.with_name(name)
    if not _parts_of(prefix):
        raise FileNotFoundError(
            f"No checkpoint {str(prefix_or_dir)!r}: pass the path up to '.index' or "
            "the folder that holds it."
        )
    _require_files(str(prefix), f"{path} is")
    return str(prefix)


def read_state(folder: str | os.PathLike[str]) -> list[str]:
    """Reads which checkpoints the file `checkpoint` of a folder lists.

    One that is listed under the path of another folder is looked for in this one first,
    to which it may have been copied.

    Returns:
      Their prefixes, the latest last; they need not be there. Empty: there is no file.
    Raises:
      ValueError: the file is damaged.
    """
    folder = Path(folder)
    file = folder / STATE_FILE
    if not file.is_file():
        return []
    try:
        state = text_format.Parse(file.read_text(encoding="utf-8"), CheckpointState())
    except (UnicodeDecodeError, text_format.ParseError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ValueError(
            f"{file} is no list of checkpoints ({reason}): copy it again, or name a "
            "checkpoint by its path up to '.index'."
        ) from error
    latest = state.model_checkpoint_path
    if not latest:
        raise ValueError(
            f"{file} lists no checkpoint: copy it again, or name a checkpoint by its "
            "path up to '.index'."
        )
    names = [name for name in state.all_model_checkpoint_paths if name != latest]
    return [_place(folder, name) for name in (*names, latest)]


def _place(folder: Path, name: str) -> str:
    """The prefix of a checkpoint that a folder lists."""
    copied = folder / Path(name).name
    is_elsewhere = Path(name).is_absolute() and not _parts_of(copied)
    return name if is_elsewhere else str(copied)


def _parts_of(prefix: Path) -> list[str | None]:
    """For each file of a checkpoint, how many data files it says there are."""
    if not prefix.parent.is_dir():
        return []
    parts = (_PART.match(file.name) for file in prefix.parent.iterdir())
    return [part[2] for part in parts if part and part[1] == prefix.name]


def _require_files(prefix: str, subject: str) -> None:
    """Checks that all files of a checkpoint are there.

    Args:
      prefix: its path up to `.index`.
      subject: beginning of the message, as "FILE names".
    Raises:
      ValueError: one is not.
    """
    totals = {int(total) for total in _parts_of(Path(prefix)) if total}
    needed = ["index"] + [
        f"data-{number:05}-of-{total:05}"
        for total in totals or {1}
        for number in range(total)
    ]
    for suffix in needed:
        if not Path(f"{prefix}.{suffix}").is_file():
            raise ValueError(
                f"{subject} checkpoint {Path(prefix).name}, but {prefix}.{suffix} is "
                "missing: bring the file back, or name another checkpoint by its path "
                "up to '.index'."
            )


def read_global_step(prefix: str) -> int:
    """Reads how many optimizer steps made a checkpoint; 0: unknown.

    A checkpoint that does not hold the number may have it in its name.
    """
    reader = _open_reader(prefix)
    for key in (_STEP, "global_step"):
        if reader.has_tensor(key):
            return int(_read_tensors(prefix, [key])[0])
    named = _STEP_IN_NAME.search(prefix)
    return int(named[1]) if named else 0


def is_start_of_run(prefix: str) -> bool:
    """True if a checkpoint was saved by a run before its first step."""
    named = _STEP_IN_NAME.search(prefix)
    if not named or int(named[1]) > 0:
        return False
    # Converted weights of which no step is known have no counter of a run.
    has_counter = _open_reader(prefix).has_tensor(_SAVE_COUNTER)
    return has_counter and read_global_step(prefix) == 0


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
