"""Which parameter sets a model's layers start from: names of one stack onto another's.

The stack of a model holds so many sets of attention and so many of feed-forward
parameters; a set's LayerNorm belongs to it. Layer i of L uses set i * sets // L. Two
stacks that differ in sets or in layers map by one rule, for each kind on its own: a
model's set g starts from set g * stored // own of the checkpoint. From it follows

- one stored set: every set of the model is a copy of it (unsharing);
- a set a layer on both sides: layer i starts from layer i * stored // own, so that a
  deeper model has each layer twice and a shallower one every other layer;
- as many sets on both sides: each as it is, whatever the depths.
"""

import re
from collections.abc import Iterable

# A sub-layer kind -> the key of a configuration that counts its sets.
KINDS = {"attention": "attention_groups", "feed-forward": "ffn_groups"}
_SET = re.compile(
    r"(?P<before>.*/transformer/group_)(?P<set>\d+)(?P<after>/inner_group_\d+/"
    r"(?:(?P<attention>attention_1/|LayerNorm/)|ffn_1/|LayerNorm_1/).*)"
)
_BERT_LAYER = re.compile(r"bert/encoder/layer_(\d+)/(.*)")
# Parts of a layer as BERT's checkpoints call them, and as ALBERT's do.
_BERT_PARTS = {
    "attention/self/": "attention_1/self/",
    "attention/output/dense/": "attention_1/output/dense/",
    "attention/output/LayerNorm/": "LayerNorm/",
    "intermediate/dense/": "ffn_1/intermediate/dense/",
    "output/dense/": "ffn_1/intermediate/output/dense/",
    "output/LayerNorm/": "LayerNorm_1/",
}


def is_bert(names: Iterable[str]) -> bool:
    """Whether a checkpoint's names are those of the published BERT models."""
    return any(_BERT_LAYER.fullmatch(name) for name in names)


def own_name(name: str) -> str:
    """A weight's name in ALBERT's checkpoints; BERT's layer i is group i there."""
    match = _BERT_LAYER.fullmatch(name)
    for theirs, ours in _BERT_PARTS.items() if match else ():
        if match[2].startswith(theirs):
            rest = match[2].removeprefix(theirs)
            scope = f"bert/encoder/transformer/group_{match[1]}/inner_group_0"
            return f"{scope}/{ours}{rest}"
    return name


def set_counts(names: Iterable[str]) -> dict[str, int]:
    """How many sets the weights of a stack are, a sub-layer kind each."""
    counts = dict.fromkeys(KINDS, 0)
    for name in names:
        match = _SET.fullmatch(name)
        if match:
            kind = _kind(match)
            counts[kind] = max(counts[kind], int(match["set"]) + 1)
    return counts


def map_sets(
    kind: str, stored: int, own: int, same_kind_of_stack: bool, unshare: bool
) -> list[int]:
    """The stored set that each of a model's sets starts from.

    Args:
      kind: one of `KINDS`.
      stored: sets of the checkpoint.
      own: sets of the model.
      same_kind_of_stack: whether each side has a set a layer.
      unshare: whether several sets may start as copies of one.
    Returns:
      `own` indices below `stored`.
    Raises:
      ValueError: the numbers differ, and no rule above tells how to map them.
    """
    copies = unshare and own % stored == 0
    if own == stored or same_kind_of_stack or copies:
        return [index * stored // own for index in range(own)]
    other = "train" if own % stored == 0 else f"train a multiple of {stored} of them"
    raise ValueError(
        f"The checkpoint holds {stored} {kind} groups, the model {own}: set "
        f"{KINDS[kind]} to {stored}, or {other} with --unshare, as copies."
    )


def source_name(name: str, sets: dict[str, list[int]]) -> str:
    """The name of the stored weight that a model's weight starts from.

    Args:
      name: of the model's weight.
      sets: what `map_sets` says, a kind each; without a kind names stay.
    """
    match = _SET.fullmatch(name)
    if not match or _kind(match) not in sets:
        return name
    stored = sets[_kind(match)][int(match["set"])]
    return f"{match['before']}{stored}{match['after']}"


def copies(name: str, sets: dict[str, list[int]]) -> list[str]:
    """Names of the weights that start from a stored one; the other way round."""
    match = _SET.fullmatch(name)
    if not match:
        return [name]
    return [
        f"{match['before']}{own}{match['after']}"
        for own, stored in enumerate(sets[_kind(match)])
        if stored == int(match["set"])
    ]


def in_stack(name: str) -> bool:
    """Whether a weight belongs to one of the sets."""
    return bool(_SET.fullmatch(name))


def _kind(match: re.Match) -> str:
    return "attention" if match["attention"] else "feed-forward"
