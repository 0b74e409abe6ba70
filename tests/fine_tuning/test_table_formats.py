"""A table says the same in every format."""

import csv
import gzip
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_prep.fine_tuning.tables import Columns, read_table
from data_prep.fine_tuning.tagged_files import read_tagged_file
from data_prep.fine_tuning.text_lists import read_texts
from helpers.column_files import save_dataset

ROWS = [{"label": ("no", "yes")[n % 2], "text": f"text, {n}"} for n in range(7)]
COLUMNS = Columns("text", label="label")


def write(folder, form):
    path = folder / f"t.{form}"
    if form == "folder":
        numbers = [{**row, "label": int(row["label"] == "yes")} for row in ROWS]
        return save_dataset(folder / "d", numbers, {"label": ["no", "yes"]})
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path)
        return path
    text = io.StringIO()
    if form.startswith("jsonl"):
        text.writelines(json.dumps(row) + "\n" for row in ROWS)
    else:
        separator = "," if form.startswith("csv") else "\t"
        writer = csv.DictWriter(text, ["label", "text"], delimiter=separator)
        writer.writeheader()
        writer.writerows(ROWS)
    content = text.getvalue().encode()
    if form.endswith(".gz"):
        content = gzip.compress(content)
    if form.endswith(".zst"):
        content = pa.compress(content, codec="zstd", asbytes=True)
    path.write_bytes(content)
    return path


FORMS = ["tsv", "tsv.gz", "csv", "csv.gz", "csv.zst", "jsonl", "jsonl.gz", "jsonl.zst"]
FORMS += ["parquet", "folder"]


@pytest.mark.parametrize("form", FORMS)
def test_examples_are_those_of_the_rows(form, tmp_path):
    path = write(tmp_path, form)
    examples = read_table(path, COLUMNS).examples
    found = [{"label": each.label, "text": each.text} for each in examples]
    assert found == ROWS
    listed = read_texts(path, "text", "label")
    assert listed.texts == [row["text"] for row in ROWS]
    assert listed.labels == [row["label"] for row in ROWS]


@pytest.mark.parametrize("form", ["csv.gz", "jsonl.zst", "tsv.gz"])
def test_a_cut_file_is_refused(form, tmp_path):
    path = write(tmp_path, form)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(OSError, match="cannot be unpacked"):
        read_table(path, COLUMNS)


def test_lines_may_be_packed(tmp_path):
    path = tmp_path / "t.txt.gz"
    path.write_bytes(gzip.compress(b"one\ntwo\n"))
    assert read_texts(path).texts == ["one", "two"]


def test_tags_of_a_data_set(tmp_path):
    rows = [
        {"tokens": ["Ada", "wrote"], "ner_tags": [1, 0]},
        {"tokens": ["In", "Rome", "."], "ner_tags": [0, 2, 0]},
    ]
    names = {"ner_tags": ["O", "B-PER", "B-LOC"]}
    read = read_tagged_file(save_dataset(tmp_path / "d", rows, names))
    assert [each.tags for each in read.sentences] == [
        ("B-PER", "O"),
        ("O", "B-LOC", "O"),
    ]
