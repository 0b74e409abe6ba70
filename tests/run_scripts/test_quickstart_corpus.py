"""The text of the quick start: openings of paragraphs, with the part of the book."""

from collections import Counter

import numpy as np
import pytest

from quickstart import corpus
from quickstart.corpus import Document

PARAGRAPH = (
    "¶ In the beginning God  created [was] it.\n And it was so! Who saw it? Nobody did."
)


def test_an_opening_is_of_whole_sentences():
    whole = (
        "In the beginning God created was it. And it was so! Who saw it? Nobody did."
    )
    assert corpus.opening(PARAGRAPH) == whole
    assert corpus.opening(PARAGRAPH, len(whole) - 1) == whole[: whole.index(" Nobody")]
    assert corpus.opening(PARAGRAPH, 40) == "", "one sentence has no order"
    assert corpus.opening("One sentence alone.") == ""


def test_parts_of_the_book():
    names = [corpus.part_of(book) for book in range(1, 67)]
    assert names[0] == names[4] == "law"
    assert names[5] == names[16] == names[43] == "history"
    assert names[17] == names[21] == "poetry"
    assert names[22] == names[38] == names[65] == "prophets"
    assert names[39] == names[42] == "gospels"
    assert names[44] == names[64] == "letters"


@pytest.fixture(scope="module")
def documents():
    return corpus.embedded_documents()


def test_the_default_text(documents):
    assert len(documents) > 3_000
    assert documents[0].text.startswith("In the beginning God created the heaven")
    assert documents[0].label == "law"
    assert documents[-1] == Document(documents[-1].text, "prophets")
    lengths = [len(document.text) for document in documents]
    assert max(lengths) <= corpus.OPENING_CHARACTERS and sum(lengths) > 1_000_000
    assert not any(set("[]¶\n") & set(document.text) for document in documents)
    found = {d.label for d in documents if "I thank my God through Jesus" in d.text}
    assert found == {"letters"}
    counts = Counter(document.label for document in documents)
    assert len(counts) == 6 and counts.most_common(1)[0][1] < 0.4 * len(documents)


def test_the_split_is_seeded_and_by_characters(documents):
    splits = [
        corpus.split(documents, 0.1, np.random.default_rng(seed)) for seed in (1, 1, 2)
    ]
    train, evaluation = splits[0]
    total = sum(len(document.text) for document in documents)
    assert sorted(train + evaluation) == sorted(documents)
    share = sum(len(document.text) for document in evaluation) / total
    assert 0.09 < share <= 0.1
    assert splits[0] == splits[1] != splits[2]


def test_labels_are_written_where_there_are_some(tmp_path):
    path = tmp_path / "x.jsonl"
    corpus.write(path, [Document("a", "law"), Document("é")])
    assert path.read_text("utf-8") == '{"text": "a", "label": "law"}\n{"text": "é"}\n'
    with pytest.raises(ValueError, match="holds other text"):
        corpus.write(path, [Document("b")])
