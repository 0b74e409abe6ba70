"""Documents of Parquet files, of data sets' folders, and of packed files."""

import gzip
import json
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_prep.corpus.inputs import expand_inputs
from data_prep.corpus.reader import ReadingConfig, read_documents
from helpers.column_files import save_dataset

TEXTS = [f"Text {n} begins here. It ends there.\n\nNew lines too." for n in range(5)]
ROWS = [{"id": n, "text": text} for n, text in enumerate(TEXTS)]


def sentences(inputs, input_format):
    config = ReadingConfig(input_format=input_format)
    documents = read_documents(expand_inputs(str(inputs)), config)
    return [document.sentences for document in documents]


@pytest.fixture
def expected(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    found = sentences(path, "jsonl")
    assert len(found) == 5 and len(found[0]) == 3
    return found


def test_a_column_is_read_as_json_lines_are(expected, tmp_path):
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "x.parquet", row_group_size=2)
    assert sentences(tmp_path / "x.parquet", "parquet") == expected
    folder = save_dataset(tmp_path / "d", ROWS)
    assert sentences(folder, "parquet") == expected


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_packed_lines(expected, suffix, tmp_path):
    content = (tmp_path / "x.jsonl").read_bytes()
    packed = gzip.compress(content)
    if suffix == ".zst":
        packed = pa.compress(content, codec="zstd", asbytes=True)
    (tmp_path / f"y.jsonl{suffix}").write_bytes(packed)
    assert sentences(tmp_path / f"y.jsonl{suffix}", "jsonl") == expected


def test_another_column_is_refused(tmp_path):
    pq.write_table(pa.table({"content": ["a"]}), tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=r"no column 'text'; it has content"):
        sentences(tmp_path / "x.parquet", "parquet")


@pytest.mark.parametrize("input_format", ["lines", "raw", "jsonl"])
def test_columns_are_not_read_as_lines(input_format, tmp_path):
    folder = save_dataset(tmp_path / "d", ROWS)
    with pytest.raises(ValueError, match="read it with --input_format=parquet"):
        sentences(folder, input_format)


def test_rows_without_text_are_counted(tmp_path):
    pq.write_table(pa.table({"text": ["One. Two.", None]}), tmp_path / "x.parquet")
    path = [str(tmp_path / "x.parquet")]
    with pytest.raises(ValueError, match="line 2: no text under 'text'"):
        list(read_documents(path, ReadingConfig(input_format="parquet")))
    counts = Counter()
    config = ReadingConfig(input_format="parquet", on_bad_text="skip")
    assert len(list(read_documents(path, config, counts))) == 1
    assert counts.total() == 1
