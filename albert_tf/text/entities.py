"""Tags of words, and the entities that they mark.

A tag is `O` (outside), or a prefix, a hyphen and the entity's type, as `B-person`. The
schemes differ in their prefixes:

| scheme | first word | further words | alone |
|---|---|---|---|
| IOB1 | I, or B right after an entity of the same type | I | as a first word |
| IOB2 | B | I | B |
| BIOES | B | I, the last one E | S |
| BILOU | B | I, the last one L | U |

seqeval reads all of them by one rule, that of the CoNLL tasks' script: an entity of
whatever prefixes begins where the type changes. A tag without prefix is a plain one, as
those of parts of speech: its word is an entity of its own.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from seqeval.metrics import sequence_labeling

OUTSIDE = "O"
_PREFIXED = re.compile("([BIESLU])-(.+)", re.DOTALL)
# Prefixes of BILOU -> those of BIOES.
_BIOES = {"L": "E", "U": "S"}


class Entity(NamedTuple):
    """An entity: a half-open range of words, and its type."""

    start: int
    end: int
    label: str


def is_plain(tags: Iterable[str]) -> bool:
    """True if there are tags other than `O`, and none has a prefix."""
    others = [tag for tag in tags if tag != OUTSIDE]
    return bool(others) and not any(map(is_prefixed, others))


def is_prefixed(tag: str) -> bool:
    """True if a tag has a prefix and a type."""
    return _PREFIXED.fullmatch(tag) is not None


def type_of(tag: str) -> str:
    """The type of an entity that a tag is of; of a plain tag itself."""
    prefixed = _PREFIXED.fullmatch(tag)
    return prefixed[2] if prefixed else tag


def with_prefixes(tags: Iterable[str]) -> list[str]:
    """Spells tags as seqeval reads them: with the prefixes of BIOES, and plain ones
    with S."""
    spelled = []
    for tag in tags:
        prefixed = _PREFIXED.fullmatch(tag)
        if prefixed:
            tag = f"{_BIOES.get(prefixed[1], prefixed[1])}-{prefixed[2]}"
        elif tag != OUTSIDE:
            tag = f"S-{tag}"
        spelled.append(tag)
    return spelled


def entities(tags: Iterable[str]) -> list[Entity]:
    """Finds the entities of a sentence, in any scheme, in the order of its words."""
    found = sequence_labeling.get_entities(with_prefixes(tags))
    return [Entity(first, last + 1, label) for label, first, last in found]


def begins(previous: str, tag: str) -> bool:
    """True if an entity begins at a tag that follows `previous`.

    An entity then reaches to the next beginning or to the next `O`.
    """
    # O has a prefix alone.
    pairs = [each.partition("-") for each in with_prefixes((previous, tag))]
    (before, _, old), (prefix, _, new) = pairs
    return sequence_labeling.start_of_chunk(before, prefix, old, new)


def iob2(found: Iterable[Entity], words: int) -> list[str]:
    """Makes the tags of a sentence of so many words in the scheme IOB2."""
    tags = [OUTSIDE] * words
    for start, end, label in found:
        tags[start:end] = [f"I-{label}"] * (end - start)
        tags[start] = f"B-{label}"
    return tags


def scheme(sentences: Iterable[Sequence[str]]) -> str:
    """Names the scheme of some sentences' tags: one of the module's, or "plain".

    Tags that several schemes write alike are said to be IOB2, and so are those that
    begin most entities with B and some with I.
    """
    prefixes, has_plain, begins_with = set(), False, set()
    for tags in sentences:
        for previous, tag in zip((OUTSIDE, *tags), tags, strict=False):
            prefixed = _PREFIXED.fullmatch(tag)
            has_plain |= not prefixed and tag != OUTSIDE
            if prefixed:
                prefixes.add(prefixed[1])
                if previous == OUTSIDE or type_of(previous) != prefixed[2]:
                    begins_with.add(prefixed[1])
    if prefixes & {"L", "U"}:
        return "BILOU"
    if prefixes & {"E", "S"}:
        return "BIOES"
    if has_plain and not prefixes:
        return "plain"
    return "IOB1" if begins_with == {"I"} else "IOB2"


def label_set(types: Iterable[str]) -> list[str]:
    """The labels of a model that tells entities of some types: those of IOB2."""
    pairs = [(f"B-{label}", f"I-{label}") for label in sorted(set(types))]
    return [OUTSIDE, *(tag for pair in pairs for tag in pair)]
