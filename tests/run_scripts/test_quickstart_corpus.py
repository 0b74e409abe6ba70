"""The text of the quick start: prose of Python's documentation, in documents."""

import numpy as np
import pytest

from quickstart import corpus as quickstart_corpus

TOPIC = """Title
*****

This is a *first* paragraph, with plain words and a hyphen-
ated one in it.

   grammar ::= "a" | "b"

* An item that says something, too, of **some** length.

   >>> print("code is left out, whatever it says in words.")

Too short.
"""


def test_prose_keeps_paragraphs_and_drops_code_and_headings():
    assert list(quickstart_corpus.prose(TOPIC)) == [
        "This is a first paragraph, with plain words and a hyphen-ated one in it.",
        "An item that says something, too, of some length.",
    ]


def test_documents_share_no_paragraph():
    first, second = quickstart_corpus.prose(TOPIC)
    other = "A third paragraph has enough words to stay."
    made = quickstart_corpus.make_documents(
        {"long": TOPIC, "part": first, "new": f"{second}\n\n{other}"}
    )
    assert made == [f"{first}\n\n{second}", other]


def test_the_split_of_the_embedded_text_is_seeded_and_by_characters():
    topics = pytest.importorskip("pydoc_data.topics").topics
    made = quickstart_corpus.make_documents(topics)
    splits = [
        quickstart_corpus.split(made, 0.1, np.random.default_rng(seed))
        for seed in (1, 1, 2)
    ]
    train, evaluation = splits[0]
    total = sum(map(len, made))
    assert sorted(train + evaluation) == sorted(made)
    assert 0.08 * total < sum(map(len, evaluation)) <= 0.1 * total
    assert total > 200_000
    assert splits[0] == splits[1] != splits[2]
