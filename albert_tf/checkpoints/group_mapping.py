"""Maps the parameter groups of a checkpoint to those of a model.

The layers of a model share groups of attention parameters and groups of feed-forward
parameters; each group includes its LayerNorm. Layer i of L uses group i * groups // L.
Checkpoint and model may differ in groups or in layers. For each kind of group on its
own, group g of the model starts from group g * stored // model of the checkpoint. It
follows that

- with one stored group, each group of the model is a copy of it (unsharing);
- with one group for each layer on both sides, layer i starts from layer
  i * stored // model: a deeper model has each layer twice, a shallower one every other;
- with equally many groups, each one is loaded as it is, whatever the depths.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

# Kind of a group -> the key of a configuration that counts such groups.
KINDS = {"attention": "attention_groups", "feed-forward": "ffn_groups"}
_GROUP = re.compile(
    r"(?P<before>.*/transformer/group_)(?P<group>\d+)(?P<after>/inner_group_\d+/"
    r"(?:(?P<attention>attention_1/|LayerNorm/)|ffn_1/|LayerNorm_1/).*)"
)
_BERT_LAYER = re.compile(r"bert/encoder/layer_(\d+)/(.*)")
# Parts of a layer as BERT's checkpoints name them -> as ALBERT's do.
_BERT_PARTS = {
    "attention/self/": "attention_1/self/",
    "attention/output/dense/": "attention_1/output/dense/",
    "attention/output/LayerNorm/": "LayerNorm/",
    "intermediate/dense/": "ffn_1/intermediate/dense/",
    "output/dense/": "ffn_1/intermediate/output/dense/",
    "output/LayerNorm/": "LayerNorm_1/",
}


def is_bert(names: Iterable[str]) -> bool:
    """True if the names of a checkpoint are those of the published BERT models."""
    return any(_BERT_LAYER.fullmatch(name) for name in names)


def from_bert_name(name: str) -> str:
    """Returns a weight's name in ALBERT's checkpoints: layer i of BERT is group i."""
    match = _BERT_LAYER.fullmatch(name)
    if not match:
        return name
    for bert_part, part in _BERT_PARTS.items():
        if match[2].startswith(bert_part):
            rest = match[2].removeprefix(bert_part)
            scope = f"bert/encoder/transformer/group_{match[1]}/inner_group_0"
            return f"{scope}/{part}{rest}"
    return name


def group_counts(names: Iterable[str]) -> dict[str, int]:
    """Counts the groups of each kind that weights of these names belong to."""
    counts = dict.fromkeys(KINDS, 0)
    for name in names:
        match = _GROUP.fullmatch(name)
        if match:
            kind = _kind(match)
            counts[kind] = max(counts[kind], int(match["group"]) + 1)
    return counts


def map_groups(
    kind: str, stored: int, model: int, one_group_a_layer: bool, unshare: bool
) -> list[int]:
    """Tells which stored group each group of a model starts from.

    Args:
      kind: one of `KINDS`.
      stored: number of groups in the checkpoint.
      model: number of groups in the model.
      one_group_a_layer: whether both sides have as many groups as layers.
      unshare: whether several groups may start as copies of one.
    Returns:
      `model` indices below `stored`.
    Raises:
      ValueError: the numbers differ, and no rule above tells how to map them.
    """
    copies = unshare and model % stored == 0
    if model == stored or one_group_a_layer or copies:
        return [index * stored // model for index in range(model)]
    other = "train" if model % stored == 0 else f"train a multiple of {stored} of them"
    raise ValueError(
        f"The checkpoint holds {stored} {kind} groups, the model {model}: set "
        f"{KINDS[kind]} to {stored}, or {other} with --unshare, as copies."
    )


def source_name(name: str, groups: Mapping[str, Sequence[int]]) -> str:
    """Returns the name of the stored weight that a model's weight starts from.

    Args:
      name: of the model's weight.
      groups: kind -> `map_groups`; names of other kinds stay.
    """
    match = _GROUP.fullmatch(name)
    if not match or _kind(match) not in groups:
        return name
    stored = groups[_kind(match)][int(match["group"])]
    return f"{match['before']}{stored}{match['after']}"


def target_names(name: str, groups: Mapping[str, Sequence[int]]) -> list[str]:
    """Returns the names of all weights that start from a stored one.

    Args:
      name: of the stored weight.
      groups: kind -> `map_groups`, for each kind.
    """
    match = _GROUP.fullmatch(name)
    if not match:
        return [name]
    return [
        f"{match['before']}{index}{match['after']}"
        for index, stored in enumerate(groups[_kind(match)])
        if stored == int(match["group"])
    ]


def is_layer_weight(name: str) -> bool:
    """True if a weight belongs to one of the groups."""
    return bool(_GROUP.fullmatch(name))


def _kind(match: re.Match[str]) -> str:
    return "attention" if match["attention"] else "feed-forward"
