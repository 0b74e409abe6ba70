"""Parts of a model by the names of its variables: what is frozen, and at which rate the
rest is trained.

Layer-wise decay is that of ELECTRA's fine-tuning (Clark et al. 2020, appendix B), with
the pooler at the rate of the heads.
"""

import re
from collections.abc import Mapping, Sequence

import tensorflow as tf

from albert_tf.checkpoints.load import released_name
from albert_tf.config import AlbertConfig, OptimizerConfig

_HEAD = "head"
# Part of the encoder -> beginning of its variables' names.
_PREFIXES = {
    "embeddings": ("bert/embeddings/", "bert/encoder/embedding_hidden_mapping_in/"),
    "block": ("bert/encoder/transformer/",),
    "pooler": ("bert/pooler/",),
}
_LAYER = re.compile(r"bert/encoder/transformer/group_(\d+)/")


def part_of(name: str) -> str:
    """The part of a model that a variable belongs to: a name that `freeze` takes.

    Args:
      name: of the variable, as released.
    """
    for part, prefixes in _PREFIXES.items():
        if name.startswith(prefixes):
            return part
    return _HEAD


def trained_variables(
    model: tf.Module, config: OptimizerConfig
) -> Sequence[tf.Variable]:
    """The trainable variables of a model without the frozen ones, in their order.

    Raises:
      ValueError: a part that is frozen has no variable to train, or nothing is left.
    """
    variables = model.trainable_variables
    parts = [part_of(released_name(variable)) for variable in variables]
    for part in sorted(config.frozen_parts - set(parts)):
        # A model of SQuAD does not read the pooler, which "encoder" names too.
        if part not in _PREFIXES or part in config.freeze:
            raise ValueError(
                f"freeze={config.freeze}: this model trains no {part}: leave it out."
            )
    trained = [
        variable
        for variable, part in zip(variables, parts, strict=True)
        if part not in config.frozen_parts
    ]
    if not trained:
        raise ValueError(
            f"freeze={config.freeze} leaves nothing to train: leave a part out."
        )
    return trained


def require_loaded(config: OptimizerConfig, loaded: Sequence[str], model: tf.Module):
    """Checks that what is frozen does not keep random weights.

    Args:
      config: its `freeze`.
      loaded: names of the variables that were read from a checkpoint.
      model: the model.
    Raises:
      ValueError: a frozen variable was not read.
    """
    names = map(released_name, model.trainable_variables)
    frozen = [name for name in names if part_of(name) in config.frozen_parts]
    random = sorted(set(frozen) - set(loaded))
    if random:
        raise ValueError(
            f"freeze={config.freeze} would keep random weights, as {random[0]}: give "
            "an --init_checkpoint that has them, or leave that part out."
        )


def check_layers(config: OptimizerConfig, model_config: AlbertConfig) -> None:
    """Checks that layers have rates of their own where that is asked for.

    Raises:
      ValueError: layers share parameters, which one rate must train.
    """
    if config.layer_decay == 1:
        return
    layers = model_config.num_hidden_layers
    for name, groups in model_config.groups.items():
        if groups != layers:
            raise ValueError(
                f"layer_decay={config.layer_decay} needs layers that share no "
                f"parameters, since a parameter has one rate. Received {name}={groups} "
                f"for {layers} layers: leave it out, or give --unshare."
            )


def rate_factors(names: Sequence[str], config: OptimizerConfig) -> Mapping[str, float]:
    """Factors of the learning rate, for the variables that have one.

    Args:
      names: of all variables that are trained, as released; with `layer_decay` those of
        all layers are among them.
      config: its `layer_decay` and `head_learning_rate`.
    Returns:
      Name -> factor; a name that is missing has the full rate.
    """
    layers = {name: int(m[1]) for name in names if (m := _LAYER.match(name))}
    num_layers = max(layers.values(), default=-1) + 1
    factors = {}
    for name in names:
        part = part_of(name)
        if part == _HEAD and config.head_learning_rate is not None:
            factors[name] = config.head_learning_rate / config.learning_rate
        elif part == "embeddings" and config.layer_decay != 1:
            factors[name] = config.layer_decay ** (num_layers + 1)
        elif part == "block" and config.layer_decay != 1:
            factors[name] = config.layer_decay ** (num_layers - layers[name])
    return factors
