"""Schemes of tags: each is read as the entities that it marks."""

import itertools

import numpy as np
import pytest

from albert_tf.text import entities
from albert_tf.text.entities import Entity


def write(found, words, scheme):
    """The tags of non-overlapping entities, written by the table of the schemes."""
    tags = ["O"] * words
    before = None
    for start, end, label in found:
        follows = before is not None and before[1] == start and before[2] == label
        first, last, alone = {
            "IOB1": ("B" if follows else "I", "I", "B" if follows else "I"),
            "IOB2": ("B", "I", "B"),
            "BIOES": ("B", "E", "S"),
            "BILOU": ("B", "L", "U"),
        }[scheme]
        for place in range(start, end):
            tags[place] = f"I-{label}"
        tags[end - 1] = f"{last}-{label}"
        tags[start] = f"{first if end - start > 1 else alone}-{label}"
        before = (start, end, label)
    return tags


def random_entities(rng, words):
    found, place = [], 0
    while place < words:
        end = min(words, place + int(rng.integers(1, 5)))
        if rng.random() < 0.6:
            found.append(Entity(place, end, str(rng.choice(["LOC", "a-b", "B-x"]))))
        place = end
    return found


@pytest.mark.parametrize("scheme", ["IOB1", "IOB2", "BIOES", "BILOU"])
def test_every_scheme_is_read_and_becomes_iob2(scheme):
    rng = np.random.default_rng(1)
    for words in itertools.chain(range(12), [30] * 40):
        found = random_entities(rng, words)
        tags = write(found, words, scheme)
        assert entities.entities(tags) == found
        assert entities.iob2(found, words) == write(found, words, "IOB2")


@pytest.mark.parametrize("scheme", ["IOB1", "IOB2", "BIOES", "BILOU"])
def test_the_scheme_is_told(scheme):
    found = [Entity(0, 1, "LOC"), Entity(2, 5, "ORG"), Entity(5, 7, "ORG")]
    assert entities.scheme([[], write(found, 8, scheme), ["O"]]) == scheme


def test_a_stray_inside_makes_no_other_scheme():
    assert entities.scheme([["B-x", "I-x"], ["O", "I-x"]]) == "IOB2"
    assert entities.entities(["O", "I-x", "I-y"]) == [(1, 2, "x"), (2, 3, "y")]


def test_plain_tags_are_entities_of_one_word():
    tags = ["NOUN", "NOUN", "O", "VERB"]
    assert entities.is_plain(tags) and entities.scheme([tags]) == "plain"
    assert not entities.is_plain(["O"]) and not entities.is_plain(["X", "B-x"])
    found = [(0, 1, "NOUN"), (1, 2, "NOUN"), (3, 4, "VERB")]
    assert entities.entities(tags) == found


def test_entities_begin_where_seqeval_begins_them():
    """Beginnings of all pairs of tags, against the entities of random sentences."""
    rng = np.random.default_rng(2)
    known = ["O", "N", "M", *(f"{p}-{t}" for p in "BIESLU" for t in ("x", "y-z"))]
    for _ in range(300):
        tags = rng.choice(known, 9).tolist()
        starts = [e.start for e in entities.entities(tags)]
        pairs = zip(["O", *tags], tags, strict=False)
        assert starts == [i for i, pair in enumerate(pairs) if entities.begins(*pair)]


def test_labels_of_types_are_those_of_iob2():
    labels = entities.label_set(["b", "a", "b"])
    assert labels == ["O", "B-a", "I-a", "B-b", "I-b"]
    assert [entities.type_of(label) for label in labels] == ["O", "a", "a", "b", "b"]
