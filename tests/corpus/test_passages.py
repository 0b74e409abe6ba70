"""Passages of SQuAD and RACE files are documents; other files are named or skipped."""

import json
from collections import Counter

import pytest

from data_prep.corpus.passages import BAD_PASSAGES
from data_prep.corpus.reader import ReadingConfig, read_documents


def squad(*contexts):
    articles = [
        {"title": "t", "paragraphs": [{"context": c, "qas": []}]} for c in contexts
    ]
    return {"version": "v2.0", "data": articles}


def documents_of(path, input_format):
    documents = read_documents([str(path)], ReadingConfig(input_format))
    return [document.sentences for document in documents]


def test_squad_paragraphs_are_documents(tmp_path):
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(squad("One. Two.", "Three,\nfour."), indent=2))
    assert documents_of(path, "squad") == [["One.", "Two."], ["Three, four."]]


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("between", ["", "\n", " \n\n"])
def test_race_articles_are_documents(indent, between, tmp_path):
    path = tmp_path / "1.txt"
    articles = [{"article": a, "options": []} for a in ("One. Two.", "Three.")]
    path.write_text(
        between.join(json.dumps(a, indent=indent) for a in articles) + between
    )
    assert documents_of(path, "race") == [["One.", "Two."], ["Three."]]


def test_real_passages_are_read(shared_data):
    path = shared_data / "squad" / "xquad.en.json"
    assert len(documents_of(path, "squad")) == 240
    path = shared_data / "race" / "dev" / "high" / "73.txt"
    (article,) = documents_of(path, "race")
    assert article[-1].startswith('"How funny it seems,"')


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b'{"article": 7}', "line 1: JSON, but not of a RACE file"),
        (b'{"data": []}', "line 1: JSON, but not of a RACE file"),
        (b"[1]", "line 1: JSON, but not of a RACE file"),
        (b'{"article": "\\ud800"}', "line 1: JSON, but not of a RACE file"),
        (b'{"article": "a"}\n{"art', "line 2: not JSON"),
        (b'{"article":\n "\xff"}', "line 2: not UTF-8"),
    ],
)
def test_files_of_another_kind_are_named_or_skipped(content, problem, tmp_path):
    path = tmp_path / "1.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"1\.txt, {problem}"):
        documents_of(path, "race")
    good = tmp_path / "2.txt"
    good.write_text('{"article": "Good."}')
    counts = Counter()
    config = ReadingConfig("race", on_bad_text="skip")
    documents = read_documents([str(path), str(good)], config, counts)
    assert [document.sentences for document in documents] == [["Good."]]
    assert counts[BAD_PASSAGES] == 1
