"""Predicted tags as columns and as spans of the given text."""

import json

import pytest

from data_prep.fine_tuning.tagged_files import read_tagged_file
from data_prep.fine_tuning.tagged_output import check_outputs, write_tags


def written(tmp_path, name, content, tags):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    outputs = tmp_path / "out.conll", tmp_path / "out.jsonl"
    write_tags(read_tagged_file(path, need_tags=False), tags, *outputs)
    columns, spans = (path.read_text(encoding="utf-8") for path in outputs)
    return columns, [json.loads(line) for line in spans.splitlines()]


def test_columns_are_kept_and_words_are_joined(tmp_path):
    tags = {0: (["B-x", "I-x"], [0.5, 0.75]), 1: (["O"], [0.9])}
    columns, spans = written(tmp_path, "a.txt", "New NN 1\nYork JJ 2\n\nis V 3\n", tags)
    assert columns == "New\tNN\t1\tB-x\nYork\tJJ\t2\tI-x\n\nis\tV\t3\tO\n\n"
    span = {"start": 0, "end": 8, "label": "x", "text": "New York", "score": 0.625}
    assert spans == [
        {"text": "New York", "entities": [span]},
        {"text": "is", "entities": []},
    ]


def test_spans_are_slices_of_the_given_text(tmp_path):
    texts = ["In  “Köln”,\u00a0北京.", "", "ok"]
    lines = "\n".join(json.dumps({"text": text}) for text in texts)
    found = ["O", "O", "B-LOC", "O", "O", "I-GPE", "I-GPE", "O"]
    tags = {0: (found, [0.25] * 8), 2: (["NN"], [1.0])}
    columns, spans = written(tmp_path, "a.jsonl", lines, tags)
    assert [line["text"] for line in spans] == texts
    [first, second] = spans[0]["entities"]
    assert (first["text"], second["text"]) == ("Köln", "北京")
    for entity in (first, second):
        assert texts[0][entity["start"] : entity["end"]] == entity["text"]
    assert spans[1]["entities"] == [] and spans[2]["entities"][0]["label"] == "NN"
    assert columns.split("\n\n")[0].splitlines()[2] == "Köln\tB-LOC"
    # What was written is read as the same tags.
    again = read_tagged_file(tmp_path / "out.jsonl").sentences
    assert again[0].tags == ("O", "O", "B-LOC", "O", "O", "B-GPE", "I-GPE", "O")


def test_files_without_tags_are_not_replaced(tmp_path):
    ours, theirs = tmp_path / "a.conll", tmp_path / "b.jsonl"
    check_outputs(ours, theirs)
    ours.write_text("a\tO\n")
    theirs.write_text("")
    check_outputs(ours, theirs)
    theirs.write_text('{"cities": []}')
    with pytest.raises(FileExistsError, match=r"b\.jsonl is there already"):
        check_outputs(ours, theirs)
