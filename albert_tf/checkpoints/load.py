"""Checkpoints: published weights in, own training state in and out.

Own checkpoints hold every weight under its released name as well, so one reader by name
(`layouts.py`) serves all, whatever the Python classes around the variables become.
"""

import dataclasses
import os
import re

import tensorflow as tf

from albert_tf.checkpoints import formats, group_mapping
from albert_tf.checkpoints.tensorflow_files import (
    few,
)
from albert_tf.config import AlbertConfig

# Weights outside the encoder: every task has its own.
HEADS = r"^(?!bert/)"
# More to say where a shape differs.
_HINTS = {
    "albert_zh": ", and embedding_size = hidden_size, for albert_zh's table is "
    "multiplied out: --config_override, or convert_checkpoint.py.",
}


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

    def to_dict(self) -> dict[str, list[str]]:
        """The names as JSON has them, a list each."""
        return {
            "loaded": [*self.loaded],
            "fresh": [*self.missing],
            "unused": [*self.unused],
            "ignored": [*self.ignored],
        }

    def table(self) -> str:
        """A line a name: what became of it, and the name."""
        rows = [(kind, n) for kind, names in self.to_dict().items() for n in names]
        return "\n".join(f"{kind:8}{name}" for kind, name in rows)

    def __str__(self):
        parts = []
        for field in dataclasses.fields(self):
            names = getattr(self, field.name)
            # Names of loaded weights and of slots are many and say little.
            listed = field.name in ("missing", "unused") and names
            parts.append(
                f"{len(names)} {field.name}" + (f" ({few(names)})" if listed else "")
            )
        return ", ".join(parts)


def released_name(variable: tf.Variable) -> str:
    """The name of a variable in released checkpoints."""
    return variable.name.split(":")[0]


def weights_checkpoint(model: tf.Module) -> tf.train.Checkpoint:
    """The weights of a model, keyed by released names."""
    return tf.train.Checkpoint(weights={released_name(v): v for v in model.variables})


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
    path: str | os.PathLike,
    missing_ok: str | None = None,
    unused_ok: str | None = None,
    unshare: bool = False,
) -> LoadReport:
    """Copies weights of any layout that `layouts.read_weights` knows into a model.

    Where the layers' numbers differ, `sharing` says which starts from which. Models of
    `transformers` whose class has no pooler leave it as it is, if anything may be
    missing.

    Args:
      model: an encoder or a model on one.
      path: of the weights.
      missing_ok: regular expression of names that the weights may lack, `HEADS` for
        instance; None: no name.
      unused_ok: the same of names that the model may lack.
      unshare: whether layers that share weights there may start as copies of them.
    Returns:
      The report.
    Raises:
      FileNotFoundError: no weights there.
      ValueError: an unknown layout, a shape differs, a name without counterpart is not
        excused, groups do not map, or a file is cut off; the model is left as it was.
    """
    stored = formats.read_weights(path)
    if stored.pooler_left_out and missing_ok is not None:
        missing_ok = rf"{missing_ok}|^bert/pooler/"
    return assign_weights(model, stored, missing_ok, unused_ok, unshare)


def assign_weights(
    model: tf.Module,
    stored: formats.StoredWeights,
    missing_ok: str | None = None,
    unused_ok: str | None = None,
    unshare: bool = False,
) -> LoadReport:
    """As `load_weights`, of weights that are read already."""
    weights = stored.weights
    variables = {released_name(v): v for v in model.variables}
    sources, skipped = _sources(model, stored, unshare)
    # A head of another task: where a fresh one is welcome, it takes its place.
    for name in [n for n in sources if missing_ok and re.search(missing_ok, n)]:
        held = weights.get(sources[name])
        if held is not None and list(held.shape) != variables[name].shape.as_list():
            sources[name] = ""
    report = LoadReport(
        loaded=tuple(sorted(name for name in sources if sources[name] in weights)),
        missing=tuple(sorted(n for n in sources if sources[n] not in weights)),
        unused=tuple(sorted(set(weights) - set(sources.values()))),
        ignored=tuple(sorted(stored.ignored)),
    )
    unused = [name for name in report.unused if name not in skipped]
    for names, excuse in ((report.missing, missing_ok), (unused, unused_ok)):
        if any(excuse is None or not re.search(excuse, name) for name in names):
            raise ValueError(
                f"Checkpoint {stored.source} does not match the model: {report}. Use "
                "the albert_config.json that belongs to it."
            )
    for name in report.loaded:
        held = list(weights[sources[name]].shape)
        own = variables[name].shape.as_list()
        if held != own:
            raise ValueError(
                f"Checkpoint {stored.source} holds {sources[name]} of shape {held}, "
                f"the model's is {own}: use the albert_config.json that belongs to the "
                "checkpoint" + _HINTS.get(stored.layout, ".")
            )
    for name in report.loaded:
        variables[name].assign(weights[sources[name]])
    return report


def _sources(model, stored, unshare) -> tuple[dict[str, str], set[str]]:
    """What each weight of a model starts from, and what a shallower model skips.

    Returns:
      name of each of the model's weights -> name among those that are stored; and names
      of stored layers that none of the model's starts from.
    """
    names = set(stored.weights)
    own_names = [released_name(variable) for variable in model.variables]
    held, own = group_mapping.set_counts(names), group_mapping.set_counts(own_names)
    differ = [
        k for k in group_mapping.KINDS if held[k] and own[k] and held[k] != own[k]
    ]
    sets = {}
    for kind in differ:
        # BERT's share nothing.
        layers = held[kind] if stored.layout == "bert" else _layers(stored.config)
        one_a_layer = (held[kind], own[kind]) == (layers, _layers(_config_of(model)))
        try:
            sets[kind] = group_mapping.map_sets(
                kind, held[kind], own[kind], one_a_layer, unshare
            )
        except ValueError as error:
            raise ValueError(f"{stored.source}: {error}") from error
    sources = {name: group_mapping.source_name(name, sets) for name in own_names}
    skipped = names - set(sources.values())
    return sources, {n for n in skipped if differ and group_mapping.in_stack(n)}


def _config_of(model) -> AlbertConfig:
    return getattr(model, "encoder", model).config


def _layers(config: AlbertConfig | None) -> int | None:
    return config.num_hidden_layers if config else None
