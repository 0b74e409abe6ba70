"""Finds, reads and writes the files of TensorFlow checkpoints.

There are three ways of naming weights. TensorFlow 1 stores a weight under its name. Own
checkpoints have a key `weights/NAME` for each weight. Other checkpoints of TensorFlow 2
and SavedModels have keys that follow the Python objects of the program which wrote
them, and store the name of each variable as well; that name is used here.
"""

import contextlib
import enum
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath

import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.protobuf import trackable_object_graph_pb2
from tensorflow.python.training.checkpoint_state_pb2 import CheckpointState

from albert_tf.checkpoints.averaged_weights import (
    AVERAGES,
    EMA_DECAY,
    check_averages,
)
from albert_tf.files import make_folder
from albert_tf.partial_files import writing
from albert_tf.storage import (
    AnyPath,
    PathLike,
    as_path,
    entries,
    local_checkpoint,
    move_up,
)

# Variables that the original's optimizers and loop store with the weights.
_TRAINING_STATE = re.compile(
    r"/(adam_m|adam_v|lamb_m|lamb_v|m|v|Adam|Adam_1|LAMB|LAMB_1)$"
    r"|^global_step$|^beta[12]_power(_\d+)?$"
)
# A weight's key in an own checkpoint: TensorFlow writes "/" in a name as ".S".
_OWN_WEIGHT = re.compile(r"^weights/(.+)/\.ATTRIBUTES/VARIABLE_VALUE$")
_AVERAGE = re.compile(rf"^{AVERAGES}/(.+)/\.ATTRIBUTES/VARIABLE_VALUE$")
# Keys of optimizers and counters in other checkpoints of TensorFlow 2.
_OBJECT_STATE = re.compile(
    r"/\.OPTIMIZER_SLOT/|^optimizer/|^(save_counter|global_step)/\.ATTRIBUTES/"
)
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_STEP, _SAVE_COUNTER, _DECAY = (
    f"{name}/.ATTRIBUTES/VARIABLE_VALUE"
    for name in ("global_step", "save_counter", EMA_DECAY)
)
# The file of a folder that lists its checkpoints.
STATE_FILE = "checkpoint"
# A file of a checkpoint: its prefix, and of a data file the number of them.
_PART = re.compile(r"^(.+)\.(?:index|data-\d+-of-(\d+))$")
# The step in the name of an own checkpoint.
_STEP_IN_NAME = re.compile(r"model\.ckpt-(\d+)$")
# Errors of TensorFlow's reader if files are missing, cut off or altered.
BROKEN_FILE = (tf.errors.OpError, RuntimeError, ValueError, IndexError)


class _Reader:
    """TensorFlow's reader of a checkpoint, with errors of one line."""

    def __init__(self, prefix: str, local: str):
        """Opens the index.

        Args:
          prefix: the checkpoint, as messages name it.
          local: the same on this machine.
        """
        self.prefix = prefix
        self._local = local
        with self._explain():
            self._reader = tf.train.load_checkpoint(local)
            self.keys = frozenset(self._reader.get_variable_to_shape_map())

    def read(self, keys: Sequence[str]) -> list[np.ndarray]:
        with self._explain():
            return [self._reader.get_tensor(key) for key in keys]

    @contextlib.contextmanager
    def _explain(self) -> Iterator[None]:
        try:
            yield
        except BROKEN_FILE as error:
            reason = str(error).replace(self._local, self.prefix)
            raise ValueError(
                f"Checkpoint {self.prefix} cannot be read: copy its .index and .data "
                f"files again ({reason})."
            ) from error


class Naming(enum.Enum):
    """Ways in which the keys of a checkpoint name its weights."""

    NAMES = "names"  # TensorFlow 1
    OWN = "own"
    OBJECTS = "objects"  # other checkpoints of TensorFlow 2


class Checkpoint:
    """A checkpoint that is open for reading.

    Attributes:
      naming: how its keys name the weights.
      keys: name of each weight -> its key.
      averaged: whether these are averages of the weights of many steps.
      ignored: keys of optimizer slots and counters, and of the weights that are not
        taken.
    """

    def __init__(self, reader: _Reader, use_ema: bool | None):
        self._reader = reader
        self.naming, self.keys = _name_keys(reader)
        averages = _keys_of(_AVERAGE, reader)
        self.averaged = use_ema is not False if averages else _DECAY in reader.keys
        check_averages(reader.prefix, self.averaged, use_ema)
        if self.averaged:
            # Variables that are not trained have no average.
            self.keys |= averages
        ignored = reader.keys - set(self.keys.values()) - {_OBJECT_GRAPH}
        self.ignored = tuple(sorted(ignored))

    def read(self) -> dict[str, np.ndarray]:
        """Reads all weights; returns them by name.

        Raises:
          ValueError: a file is missing, cut off or altered.
        """
        values = self._reader.read([*self.keys.values()])
        return dict(zip(self.keys, values, strict=True))

    def read_global_step(self) -> int:
        """Reads how many optimizer steps made the weights; 0: unknown.

        A checkpoint that does not hold the number may have it in its name.

        Raises:
          ValueError: as `read`.
        """
        for key in (_STEP, "global_step"):
            if key in self._reader.keys:
                return int(self._reader.read([key])[0])
        named = _STEP_IN_NAME.search(self._reader.prefix)
        return int(named[1]) if named else 0

    def has_save_counter(self) -> bool:
        """True if the checkpoint holds a counter of a run."""
        return _SAVE_COUNTER in self._reader.keys


@contextlib.contextmanager
def open_checkpoint(
    prefix: PathLike, use_ema: bool | None = None
) -> Iterator[Checkpoint]:
    """Opens a checkpoint; the files of a bucket are copied, once, until it is closed.

    Args:
      prefix: the checkpoint.
      use_ema: whether its weights are averages; None: if there are any.
    Raises:
      ValueError: its index is missing, cut off or altered; or it does not hold the
        weights that `use_ema` asks for.
    """
    with local_checkpoint(prefix) as local:
        yield Checkpoint(_Reader(str(prefix), local), use_ema)


def _name_keys(reader: _Reader) -> tuple[Naming, dict[str, str]]:
    """The naming of a checkpoint's keys, and name -> key of each weight."""
    if _OBJECT_GRAPH not in reader.keys:
        names = sorted(k for k in reader.keys if not _TRAINING_STATE.search(k))
        return Naming.NAMES, {key: key for key in names}
    keys = _keys_of(_OWN_WEIGHT, reader)
    return (Naming.OWN, keys) if keys else (Naming.OBJECTS, _keys_of_objects(reader))


def _keys_of(pattern: re.Pattern, reader: _Reader) -> dict[str, str]:
    """Name -> key of the variables of an own checkpoint."""
    matches = {key: pattern.match(key) for key in sorted(reader.keys)}
    return {m[1].replace(".S", "/"): key for key, m in matches.items() if m}


def _keys_of_objects(reader: _Reader) -> dict[str, str]:
    """Name of each variable of an object-based checkpoint -> its key."""
    [stored] = reader.read([_OBJECT_GRAPH])
    graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(stored)
    return {
        attribute.full_name or attribute.checkpoint_key: attribute.checkpoint_key
        for node in graph.nodes
        for attribute in node.attributes
        if attribute.name == "VARIABLE_VALUE"
        and not _OBJECT_STATE.search(attribute.checkpoint_key)
    }


def write_named(prefix: PathLike, tensors: Mapping[str, np.ndarray]) -> None:
    """Writes tensors under their names, as TensorFlow 1 did.

    Raises:
      OSError: the disk is full, for instance.
    """
    with new_checkpoint(prefix) as local:
        tf.raw_ops.SaveV2(
            prefix=local,
            tensor_names=list(tensors),
            shape_and_slices=[""] * len(tensors),
            tensors=[tf.constant(tensor) for tensor in tensors.values()],
        )


def write_own(
    prefix: PathLike, weights: Mapping[str, np.ndarray], global_step: int
) -> None:
    """Writes weights as an own checkpoint without training state.

    Raises:
      OSError: the disk is full, for instance.
    """
    checkpoint = tf.train.Checkpoint(
        weights={name: tf.Variable(value) for name, value in weights.items()},
        global_step=tf.Variable(global_step, dtype=tf.int64),
    )
    with new_checkpoint(prefix) as local:
        checkpoint.write(local)


@contextlib.contextmanager
def new_checkpoint(prefix: PathLike) -> Iterator[str]:
    """Yields the local prefix under which TensorFlow is to write a checkpoint.

    It is the prefix itself; or a temporary one, whose files are then copied to a
    bucket, the index last, without which readers take no checkpoint for whole.

    Raises:
      OSError: the disk is full, for instance.
    """
    path = as_path(prefix)
    with explain_writing(prefix):
        if isinstance(path, Path):
            yield str(prefix)
            return
        make_folder(path.parent)
        with tempfile.TemporaryDirectory() as folder:
            yield str(Path(folder, path.name))
            files = sorted(Path(folder).iterdir(), key=lambda f: f.suffix == ".index")
            for file in files:
                with writing(path.parent / file.name):
                    move_up(file, path.parent / file.name)


@contextlib.contextmanager
def explain_writing(prefix: PathLike) -> Iterator[None]:
    """Turns errors of TensorFlow while it writes into an OSError of one line."""
    try:
        yield
    except tf.errors.OpError as error:
        reason = (error.message or str(error)).splitlines()[0]
        raise OSError(
            f"Checkpoint {prefix} cannot be written ({reason}): make space there, or "
            "name another folder."
        ) from error


def find_checkpoint(prefix_or_dir: PathLike) -> str:
    """Returns the prefix of the checkpoint that a path names.

    Args:
      prefix_or_dir: the path up to `.index`; one of the checkpoint's files; an output
        folder of training, for its latest checkpoint; or a folder of exactly one.
    Raises:
      FileNotFoundError: no checkpoint there.
      ValueError: files of the checkpoint are missing; its folder's list of checkpoints
        is damaged; or a folder of several does not tell which is the latest.
    """
    path = as_path(prefix_or_dir)
    files = entries(path).files
    if STATE_FILE in files:
        latest = read_state(path)[-1]
        _require_files(latest, f"{path / STATE_FILE} names")
        return latest
    if files:
        parts = (_PART.match(name) for name in files)
        names = sorted({part[1] for part in parts if part})
        if len(names) > 1:
            raise ValueError(
                f"{path} holds several checkpoints, name one: {summarize(names)}."
            )
        prefix = path / names[0] if names else path
    else:
        name = re.sub(r"\.(index|meta|data-\d+-of-\d+)$", "", path.name)
        prefix = path.with_name(name) if name != path.name else path
    if not _parts_of(prefix):
        raise FileNotFoundError(
            f"No checkpoint {str(prefix_or_dir)!r}: pass the path up to '.index' or "
            "the folder that holds it."
        )
    _require_files(str(prefix), f"{path} is")
    return str(prefix)


def read_state(folder: PathLike) -> list[str]:
    """Reads which checkpoints the file `checkpoint` of a folder lists.

    One that is listed under the path of another folder is looked for in this one first,
    to which it may have been copied.

    Returns:
      Their prefixes, the latest last; they need not be there. Empty: there is no file.
    Raises:
      ValueError: the file is damaged.
    """
    folder = as_path(folder)
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


def _place(folder: AnyPath, name: str) -> str:
    """The prefix of a checkpoint that a folder lists."""
    copied = folder / PurePath(name).name
    is_absolute = "://" in name or PurePath(name).is_absolute()
    return name if is_absolute and not _parts_of(copied) else str(copied)


def _parts_of(prefix: AnyPath) -> list[str | None]:
    """For each file of a checkpoint, how many data files it says there are."""
    parts = (_PART.match(name) for name in entries(prefix.parent).files)
    return [part[2] for part in parts if part and part[1] == prefix.name]


def _require_files(prefix: str, subject: str) -> None:
    """Checks that all files of a checkpoint are there.

    Args:
      prefix: its path up to `.index`.
      subject: beginning of the message, as "FILE names".
    Raises:
      ValueError: one is not.
    """
    path, there = as_path(prefix), entries(as_path(prefix).parent).files
    totals = {int(total) for total in _parts_of(path) if total}
    needed = ["index"] + [
        f"data-{number:05}-of-{total:05}"
        for total in totals or {1}
        for number in range(total)
    ]
    for suffix in needed:
        name = f"{path.name}.{suffix}"
        # Some buckets list a new file late.
        if name not in there and not path.with_name(name).is_file():
            raise ValueError(
                f"{subject} checkpoint {path.name}, but {prefix}.{suffix} is "
                "missing: bring the file back, or name another checkpoint by its path "
                "up to '.index'."
            )


def read_global_step(prefix: PathLike) -> int:
    """Reads how many optimizer steps made a checkpoint; as its method."""
    with open_checkpoint(prefix) as checkpoint:
        return checkpoint.read_global_step()


def is_start_of_run(prefix: str) -> bool:
    """True if a checkpoint was saved by a run before its first step."""
    named = _STEP_IN_NAME.search(prefix)
    if not named or int(named[1]) > 0:
        return False
    with open_checkpoint(prefix) as checkpoint:
        # Converted weights of which no step is known have no counter of a run.
        return checkpoint.has_save_counter() and checkpoint.read_global_step() == 0


def summarize(names: Sequence[str], limit: int = 5) -> str:
    """Lists the first names, and tells how many more there are."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more
