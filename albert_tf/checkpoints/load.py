"""Loads weights of any format into a model, by their released names.

Own checkpoints store every weight under its released name as well, so one reader by
name (`formats.py`) serves all, whatever the Python classes around the variables become.
"""

import dataclasses
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints import formats, group_mapping
from albert_tf.checkpoints.averaged_weights import EMA_DECAY
from albert_tf.checkpoints.checkpoint_format import CheckpointFormat
from albert_tf.checkpoints.formats import POOLER_PREFIX, StoredWeights
from albert_tf.checkpoints.tensorflow_files import summarize
from albert_tf.config import AlbertConfig
from albert_tf.storage import PathLike

# Matches the names of weights outside the encoder, which every task has its own of.
HEADS = r"^(?!bert/)"
# What an error of a shape adds.
_HINTS = {
    CheckpointFormat.ALBERT_ZH: ", and embedding_size = hidden_size, for albert_zh's "
    "table is multiplied out: --config_override, or convert_checkpoint.py.",
}


@dataclasses.dataclass(frozen=True)
class LoadReport:
    """The names that were loaded, missing, unused and ignored.

    Attributes:
      loaded: names that were copied into the model.
      missing: model variables that the checkpoint lacks; they keep their values.
      unused: weights of the checkpoint that the model lacks.
      ignored: optimizer slots and counters, left out by name.
      global_step: optimizer steps that made the checkpoint; 0: unknown.
      averaged: whether the weights are averages of those of many steps.
    """

    loaded: tuple[str, ...]
    missing: tuple[str, ...]
    unused: tuple[str, ...]
    ignored: tuple[str, ...]
    global_step: int = 0
    averaged: bool = False

    def to_dict(self) -> dict[str, list[str]]:
        """JSON values: what became of names -> the names; missing ones are `fresh`."""
        return {
            "loaded": [*self.loaded],
            "fresh": [*self.missing],
            "unused": [*self.unused],
            "ignored": [*self.ignored],
        }

    def without(self, names: Collection[str]) -> "LoadReport":
        """The same report with some of the loaded names moved to the unused ones."""
        return dataclasses.replace(
            self,
            loaded=tuple(name for name in self.loaded if name not in names),
            unused=tuple(sorted({*self.unused, *names})),
        )

    def table(self) -> str:
        """One line for each name: what became of it, and the name."""
        rows = [(kind, n) for kind, names in self.to_dict().items() for n in names]
        return "\n".join(f"{kind:8}{name}" for kind, name in rows)

    def __str__(self) -> str:
        def count(kind: str, names: tuple[str, ...]) -> str:
            return f"{len(names)} {kind}" + (f" ({summarize(names)})" if names else "")

        # Names of loaded weights and of slots are many and say little.
        return (
            f"{len(self.loaded)} loaded, {count('missing', self.missing)}, "
            f"{count('unused', self.unused)}, {len(self.ignored)} ignored"
            f"{' (averaged weights)' * self.averaged}"
        )


def released_name(variable: tf.Variable) -> str:
    """The name of a variable in released checkpoints."""
    return variable.name.split(":")[0]


def weights_checkpoint(
    model: tf.Module, global_step: int | None = None, ema_decay: float = 0.0
) -> tf.train.Checkpoint:
    """Builds a checkpoint of a model's weights, keyed by released names.

    Args:
      model: the model.
      global_step: optimizer steps that made the weights, to be stored; None: unknown.
      ema_decay: of the averages that the weights are, to be stored; 0: they are none.
    """
    state: dict[str, Any] = {"weights": {released_name(v): v for v in model.variables}}
    if global_step is not None:
        step = tf.Variable(global_step, dtype=tf.int64, trainable=False)
        state["global_step"] = step
    if ema_decay:
        state[EMA_DECAY] = tf.Variable(ema_decay, trainable=False)
    return tf.train.Checkpoint(**state)


def load_tf1_checkpoint(
    model: tf.Module, prefix_or_dir: PathLike, strict: bool = True
) -> LoadReport:
    """Copies a TensorFlow 1 checkpoint with the released names into a model.

    Args:
      model: an encoder or a model on one.
      prefix_or_dir: as `tensorflow_files.find_checkpoint` takes it.
      strict: whether a weight of either side without its counterpart is an error.
    Returns:
      The report; optimizer slots and `global_step` are in `ignored`.
    Raises:
      FileNotFoundError: no checkpoint there.
      ValueError: a shape differs; or, if strict, a name is missing or unused.
    """
    everything = "" if not strict else None
    return load_weights(model, prefix_or_dir, everything, everything)


def load_weights(
    model: tf.Module,
    path: PathLike,
    missing_ok: str | None = None,
    unused_ok: str | None = None,
    unshare: bool = False,
    use_ema: bool | None = None,
) -> LoadReport:
    """Copies weights of any format that `formats.read_weights` knows into a model.

    If the numbers of layers or parameter groups differ, `group_mapping` tells which
    group starts from which. The pooler may be missing if the model does not read it, as
    models of SQuAD do not; and if anything may be missing and no head that is stored
    reads it.

    Args:
      model: an encoder or a model on one.
      path: of the weights, as `output_folders.locate_best` takes it.
      missing_ok: regular expression of names that the weights may lack, for instance
        `HEADS`; None: no name.
      unused_ok: the same for names that the model may lack.
      unshare: whether layers that share stored weights may start as copies of them.
      use_ema: whether to take averaged weights; None: if there are any.
    Returns:
      The report.
    Raises:
      FileNotFoundError: no weights there.
      ValueError: the format is unknown, a shape differs, a name without counterpart is
        not allowed, groups do not map, or a file is cut off; the model is left as it
        was.
    """
    stored = formats.read_weights(path, use_ema=use_ema)
    if stored.needs_no_pooler and missing_ok is not None:
        missing_ok = rf"{missing_ok}|^{POOLER_PREFIX}"
    return assign_weights(model, stored, missing_ok, unused_ok, unshare)


def assign_weights(
    model: tf.Module,
    stored: StoredWeights,
    missing_ok: str | None = None,
    unused_ok: str | None = None,
    unshare: bool = False,
) -> LoadReport:
    """Copies weights that are already read into a model; as `load_weights`."""
    weights = stored.weights
    variables = {released_name(v): v for v in model.variables}
    groups = _map_groups(model, stored, unshare)
    sources = {name: group_mapping.source_name(name, groups) for name in variables}
    skipped = _skipped_layers(weights, sources) if groups else set()
    for name in _heads_of_other_tasks(variables, weights, sources, missing_ok):
        sources[name] = ""
    report = LoadReport(
        loaded=tuple(sorted(name for name in sources if sources[name] in weights)),
        missing=tuple(sorted(n for n in sources if sources[n] not in weights)),
        unused=tuple(sorted(set(weights) - set(sources.values()))),
        ignored=tuple(sorted(stored.ignored)),
        global_step=stored.global_step,
        averaged=stored.averaged,
    )
    unused = [name for name in report.unused if name not in skipped]
    read = {released_name(variable) for variable in model.trainable_variables}
    missing = [n for n in report.missing if n in read or not _is_of_pooler(n)]
    for names, allowed in ((missing, missing_ok), (unused, unused_ok)):
        if any(allowed is None or not re.search(allowed, name) for name in names):
            raise ValueError(
                f"Checkpoint {stored.source} does not match the model: {report}. Use "
                "the albert_config.json that belongs to it."
            )
    for name in report.loaded:
        _check_shape(variables[name], stored, sources[name])
    for name in report.loaded:
        variables[name].assign(weights[sources[name]])
    return report


def _is_of_pooler(name: str) -> bool:
    return name.startswith(POOLER_PREFIX)


def _heads_of_other_tasks(
    variables: Mapping[str, tf.Variable],
    weights: Mapping[str, np.ndarray],
    sources: Mapping[str, str],
    missing_ok: str | None,
) -> list[str]:
    """Names of variables that may be missing and are stored with another shape."""
    return [
        name
        for name, source in sources.items()
        if missing_ok
        and re.search(missing_ok, name)
        and source in weights
        and weights[source].shape != tuple(variables[name].shape)
    ]


def _skipped_layers(weights: Iterable[str], sources: Mapping[str, str]) -> set[str]:
    """Names of stored layers that no layer of a shallower model starts from."""
    unused = set(weights) - set(sources.values())
    return {name for name in unused if group_mapping.is_layer_weight(name)}


def _check_shape(variable: tf.Variable, stored: StoredWeights, source: str) -> None:
    stored_shape = list(stored.weights[source].shape)
    shape = variable.shape.as_list()
    if stored_shape != shape:
        raise ValueError(
            f"Checkpoint {stored.source} holds {source} of shape {stored_shape}, "
            f"the model's is {shape}: use the albert_config.json that belongs to the "
            "checkpoint" + _HINTS.get(stored.format, ".")
        )


def _map_groups(
    model: tf.Module, stored: StoredWeights, unshare: bool
) -> dict[str, list[int]]:
    """Maps the kinds of parameter groups whose numbers differ: `map_groups` of each."""
    stored_counts = group_mapping.group_counts(stored.weights)
    counts = group_mapping.group_counts(released_name(v) for v in model.variables)
    groups = {}
    for kind, stored_count in stored_counts.items():
        count = counts[kind]
        if not stored_count or not count or stored_count == count:
            continue
        stored_layers = _num_layers(stored.config)
        if stored.format is CheckpointFormat.BERT:
            # Its layers share nothing.
            stored_layers = stored_count
        model_layers = _num_layers(getattr(model, "encoder", model).config)
        one_group_a_layer = (stored_count, count) == (stored_layers, model_layers)
        try:
            groups[kind] = group_mapping.map_groups(
                kind, stored_count, count, one_group_a_layer, unshare
            )
        except ValueError as error:
            raise ValueError(f"{stored.source}: {error}") from error
    return groups


def _num_layers(config: AlbertConfig | None) -> int | None:
    return config.num_hidden_layers if config else None
