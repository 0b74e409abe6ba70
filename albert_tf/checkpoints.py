"""Checkpoints: published TensorFlow 1 weights in, own training state in and out.

Own checkpoints hold every weight under its released name as well, so one reader by name
serves both, whatever the Python classes around the variables become.
"""

import dataclasses
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from albert_tf import sharing
from albert_tf.config import AlbertConfig

# What the original's optimizers and loop leave in a checkpoint beside the weights.
_TRAINING_STATE = re.compile(
    r"/(adam_m|adam_v|lamb_m|lamb_v|m|v|Adam|Adam_1|LAMB|LAMB_1)$"
    r"|^global_step$|^beta[12]_power(_\d+)?$"
)
# A weight's key in an own checkpoint: TensorFlow writes "/" in a name as ".S".
_OWN_WEIGHT = re.compile(r"^weights/(.+)/\.ATTRIBUTES/VARIABLE_VALUE$")
_OWN_MARK = "_CHECKPOINTABLE_OBJECT_GRAPH"
# What TensorFlow's reader raises for files that are missing, cut off or altered.
_BROKEN_FILE = (tf.errors.OpError, RuntimeError, ValueError, IndexError)
# Weights outside the encoder: every task has its own.
HEADS = r"^(?!bert/)"


@dataclasses.dataclass(frozen=True)
class LoadReport:
    """What became of every name of a checkpoint and of a model.

    Attributes:
      loaded: names that were copied into the model.
      missing: model variables that the checkpoint lacks; they keep their values.
      unused: weights of the checkpoint that the model lacks.
      ignored: optimizer slots and counters, left out by name.
    """

    loaded: tuple[str, ...]
    missing: tuple[str, ...]
    unused: tuple[str, ...]
    ignored: tuple[str, ...]

    def __str__(self):
        parts = []
        for field in dataclasses.fields(self):
            names = getattr(self, field.name)
            # Names of loaded weights and of slots are many and say little.
            listed = field.name in ("missing", "unused") and names
            parts.append(
                f"{len(names)} {field.name}" + (f" ({_few(names)})" if listed else "")
            )
        return ", ".join(parts)


def released_name(variable: tf.Variable) -> str:
    """The name of a variable in released checkpoints."""
    return variable.name.split(":")[0]


def weights_checkpoint(model: tf.Module) -> tf.train.Checkpoint:
    """The weights of a model, keyed by released names."""
    return tf.train.Checkpoint(weights={released_name(v): v for v in model.variables})


def training_checkpoint(
    model: tf.Module, optimizer, **more: tf.Variable
) -> tf.train.Checkpoint:
    """The whole state of a run, keyed by released names: save and restore this.

    Dropout and the order of rows are functions of seed and step, so that the step is
    their state too.

    Args:
      model: its variables become `weights`.
      optimizer: a built `optimization` optimizer: its moments and its step.
      **more: other variables of the run.
    """
    names = [released_name(variable) for variable in model.trainable_variables]
    state = {
        "weights": {released_name(v): v for v in model.variables},
        "global_step": optimizer.iterations,
        **more,
    }
    for moment, slots in optimizer.moments.items():
        state[moment] = dict(zip(names, slots, strict=True))
    checkpoint = tf.train.Checkpoint(**state)
    # TensorFlow makes this variable at the first saving or restoring. Workers make
    # variables together, and those do not fall on the same moment for all of them.
    checkpoint.save_counter.assign(0)
    return checkpoint


class Keeper(tf.train.CheckpointManager):
    """Writes a run's checkpoints, at multiples of its interval, and deletes old ones.

    A checkpoint appears in the folder's list, the file `checkpoint`, when it is whole:
    one that a kill cuts off is written again by the run that resumes.
    """

    def save(self, checkpoint_number=None, check_interval=True, options=None):
        """As the base class, but that intervals count from step 0, not from a resume.

        Args:
          checkpoint_number: the optimizer step.
          check_interval: whether to save at multiples of the interval only.
          options: as of the base class.
        Raises:
          OSError: the folder's disk is full, or cannot be written.
        """
        if check_interval and checkpoint_number % self.checkpoint_interval:
            return None
        try:
            return super().save(
                checkpoint_number, check_interval=False, options=options
            )
        except (tf.errors.OpError, OSError) as error:
            # A part would hold the space that is missing.
            for part in Path(self.directory).glob("*_temp"):
                shutil.rmtree(part, ignore_errors=True)
            reason = getattr(error, "message", str(error)).splitlines()[0]
            raise OSError(
                f"Checkpoint {checkpoint_number} cannot be written to {self.directory} "
                f"({reason}): make space there and give the same command again; it "
                f"resumes from {latest_of_run(self.directory) or 'the start'}."
            ) from error

    def restore_or_initialize(self):
        """Does nothing: all workers have read what only the chief's folder holds."""


def latest_of_run(folder: str | os.PathLike) -> str | None:
    """The newest checkpoint of a run that is there; None: none.

    TensorFlow's own answer is none where the newest of its list has been deleted.
    """
    state = tf.train.get_checkpoint_state(str(folder))
    listed = state.all_model_checkpoint_paths if state else ()
    # TensorFlow writes the index last, so that who has one is whole.
    return next((p for p in reversed(listed) if Path(f"{p}.index").is_file()), None)


def read_run(checkpoint: tf.train.Checkpoint, prefix: str) -> None:
    """Reads a checkpoint of a run into a `training_checkpoint`.

    Raises:
      ValueError: its files are cut off, altered or missing.
    """
    try:
        checkpoint.read(prefix).expect_partial()
    except _BROKEN_FILE as error:
        raise ValueError(
            f"Checkpoint {prefix} cannot be read: delete {prefix}.* to resume from the "
            f"checkpoint before it ({error})."
        ) from error


def load_tf1_checkpoint(
    model: tf.Module, prefix_or_dir: str | os.PathLike, strict: bool = True
) -> LoadReport:
    """Copies a TensorFlow 1 checkpoint with the released names into a model.

    Args:
      model: an encoder or a model on one.
      prefix_or_dir: as `find_checkpoint` takes it.
      strict: whether a weight of either side without its counterpart is an error.
    Returns:
      The report; optimizer slots and `global_step` are in `ignored`.
    Raises:
      FileNotFoundError: no checkpoint there.
      ValueError: a shape differs; or, when strict, a name is missing or unused.
    """
    everything = "" if not strict else None
    return load_weights(model, prefix_or_dir, everything, everything)


def load_weights(
    model: tf.Module,
    prefix_or_dir: str | os.PathLike,
    missing_ok: str | None = None,
    unused_ok: str | None = None,
    unshare: bool = False,
) -> LoadReport:
    """Copies the weights of an own or a TensorFlow 1 checkpoint into a model.

    Published BERT checkpoints are TensorFlow 1 checkpoints of a model that shares
    nothing. Where the layers' numbers differ, `sharing` says which starts from which.

    Args:
      model: an encoder or a model on one.
      prefix_or_dir: as `find_checkpoint` takes it.
      missing_ok: regular expression of names that the checkpoint may lack, `HEADS` for
        instance; None: no name.
      unused_ok: the same of names that the model may lack.
      unshare: whether layers that share weights in the checkpoint may start as copies
        of them.
    Returns:
      The report.
    Raises:
      FileNotFoundError: no checkpoint there.
      ValueError: a shape differs, a name without counterpart is not excused, groups do
        not map, or a file is cut off; the model is left as it was.
    """
    prefix = find_checkpoint(prefix_or_dir)
    reader = _open_reader(prefix)
    shapes = reader.get_variable_to_shape_map()
    keys, ignored = _weight_keys(shapes)
    variables = {released_name(v): v for v in model.variables}
    sources, skipped = _sources(model, prefix, keys, unshare)
    keys = {sharing.own_name(name): key for name, key in keys.items()}
    # A head of another task: where a fresh one is welcome, it takes its place.
    for name in [n for n in sources if missing_ok and re.search(missing_ok, n)]:
        stored = shapes.get(keys.get(sources[name]))
        if stored is not None and list(stored) != variables[name].shape.as_list():
            sources[name] = ""
    report = LoadReport(
        loaded=tuple(sorted(name for name in sources if sources[name] in keys)),
        missing=tuple(sorted(name for name in sources if sources[name] not in keys)),
        unused=tuple(sorted(set(keys) - set(sources.values()))),
        ignored=tuple(sorted(ignored)),
    )
    unused = [name for name in report.unused if name not in skipped]
    for names, excuse in ((report.missing, missing_ok), (unused, unused_ok)):
        if any(excuse is None or not re.search(excuse, name) for name in names):
            raise ValueError(
                f"Checkpoint {prefix} does not match the model: {report}. Use the "
                "albert_config.json that belongs to it."
            )
    for name in report.loaded:
        stored, own = shapes[keys[sources[name]]], variables[name].shape.as_list()
        if list(stored) != own:
            raise ValueError(
                f"Checkpoint {prefix} holds {sources[name]} of shape {stored}, the "
                f"model's is {own}: use the albert_config.json that belongs to the "
                "checkpoint."
            )
    # All are read before one is assigned, so that a broken file changes nothing.
    wanted = sorted({keys[sources[name]] for name in report.loaded})
    tensors = dict(zip(wanted, _read_tensors(reader, prefix, wanted), strict=True))
    for name in report.loaded:
        variables[name].assign(tensors[keys[sources[name]]])
    return report


def _sources(model, prefix, names, unshare) -> tuple[dict[str, str], set[str]]:
    """What each weight of a model starts from, and what a shallower model skips.

    Returns:
      name of each of the model's weights -> name in the checkpoint, as ALBERT calls it;
      and names of the checkpoint's layers that none of the model's starts from.
    """
    stored_names = {sharing.own_name(name) for name in names}
    own_names = [released_name(variable) for variable in model.variables]
    stored, own = sharing.set_counts(stored_names), sharing.set_counts(own_names)
    differ = [k for k in sharing.KINDS if stored[k] and own[k] and stored[k] != own[k]]
    sets = {}
    for kind in differ:
        layers = stored[kind] if sharing.is_bert(names) else _stored_layers(prefix)
        own_layers = getattr(model, "encoder", model).config.num_hidden_layers
        one_a_layer = (stored[kind], own[kind]) == (layers, own_layers)
        try:
            sets[kind] = sharing.map_sets(
                kind, stored[kind], own[kind], one_a_layer, unshare
            )
        except ValueError as error:
            raise ValueError(f"{prefix}: {error}") from error
    sources = {name: sharing.source_name(name, sets) for name in own_names}
    skipped = stored_names - set(sources.values())
    return sources, {n for n in skipped if differ and sharing.in_stack(n)}


def _stored_layers(prefix: str) -> int | None:
    """Layers of the model that a checkpoint is of; None: nothing beside it says."""
    file = Path(prefix).with_name("albert_config.json")
    return AlbertConfig.from_json(file).num_hidden_layers if file.is_file() else None


def find_checkpoint(prefix_or_dir: str | os.PathLike) -> str:
    """The prefix of the checkpoint that a path names.

    Args:
      prefix_or_dir: the path up to `.index`; one of the checkpoint's files; an output
        folder of training, whose latest is taken; or a folder of exactly one.
    Raises:
      FileNotFoundError: no checkpoint there.
      ValueError: a folder of several that does not say which is the latest.
    """
    path = Path(prefix_or_dir)
    latest = tf.train.latest_checkpoint(path) if path.is_dir() else None
    if latest:
        return latest
    if path.is_dir():
        indexes = sorted(path.glob("*.index"))
        if len(indexes) > 1:
            names = _few([index.stem for index in indexes])
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
    """Optimizer steps that made a checkpoint; 0 where it does not say."""
    reader = _open_reader(prefix)
    for key in ("global_step/.ATTRIBUTES/VARIABLE_VALUE", "global_step"):
        if reader.has_tensor(key):
            return int(_read_tensors(reader, prefix, [key])[0])
    return 0


def _weight_keys(shapes: Mapping) -> tuple[dict[str, str], set[str]]:
    """Released name -> key of each weight, and the keys of training state."""
    if _OWN_MARK in shapes:
        matches = {key: _OWN_WEIGHT.match(key) for key in shapes}
        keys = {m[1].replace(".S", "/"): key for key, m in matches.items() if m}
    else:
        keys = {key: key for key in shapes if not _TRAINING_STATE.search(key)}
    return keys, set(shapes) - set(keys.values()) - {_OWN_MARK}


def _open_reader(prefix: str):
    try:
        return tf.train.load_checkpoint(prefix)
    except _BROKEN_FILE as error:
        raise _unreadable(prefix, error) from error


def _read_tensors(reader, prefix: str, keys: Sequence[str]) -> list[np.ndarray]:
    try:
        return [reader.get_tensor(key) for key in keys]
    except _BROKEN_FILE as error:
        raise _unreadable(prefix, error) from error


def _unreadable(prefix: str, error: Exception) -> ValueError:
    return ValueError(
        f"Checkpoint {prefix} cannot be read: copy its .index and .data files again "
        f"({error})."
    )


def _few(names: Sequence[str], limit: int = 5) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more
