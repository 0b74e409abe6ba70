"""Parquet, and the folders of Hugging Face's `datasets`."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_prep import column_files
from helpers.column_files import save_dataset

ROWS = [{"text": f"text {n}", "label": n % 3} for n in range(11)]
NAMES = {"label": ["low", "mid", "high"]}
NAMED = [{**row, "label": NAMES["label"][row["label"]]} for row in ROWS]


def test_a_folder_gives_all_its_rows_with_names_of_classes(tmp_path):
    folder = save_dataset(tmp_path / "d", ROWS, NAMES)
    assert column_files.is_dataset_folder(folder)
    assert column_files.column_names(folder) == ["text", "label"]
    assert list(column_files.rows(folder)) == NAMED
    assert {path.name for path in column_files.files_of(folder)} == {
        "data-00000-of-00002.arrow",
        "data-00001-of-00002.arrow",
        "dataset_info.json",
    }


def test_classes_in_lists_and_secret_ones(tmp_path):
    rows = [{"tokens": ["a", "b"], "tags": [1, -1]}, {"tokens": ["c"], "tags": [0]}]
    folder = save_dataset(tmp_path / "d", rows, {"tags": ["O", "B-X"]}, files=1)
    found = [row["tags"] for row in column_files.rows(folder)]
    assert found == [["B-X", -1], ["O"]]


@pytest.mark.parametrize("kind", ["stream.arrow", "file.arrow", "x.parquet"])
def test_files_of_each_format(kind, tmp_path):
    path, table = tmp_path / kind, pa.Table.from_pylist(ROWS)
    if kind == "x.parquet":
        pq.write_table(table, path, row_group_size=4)
    else:
        new = pa.ipc.new_stream if kind == "stream.arrow" else pa.ipc.new_file
        with new(str(path), table.schema) as writer:
            writer.write_table(table, max_chunksize=4)
    assert column_files.column_names(path) == ["text", "label"]
    assert list(column_files.rows(path)) == ROWS
    assert column_files.files_of(path) == [path]


def test_a_folder_of_splits_names_them(tmp_path):
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(ValueError, match=r"splits train, test: name one .*/train"):
        column_files.is_dataset_folder(tmp_path)


def test_a_state_without_files_is_refused(tmp_path):
    (tmp_path / "state.json").write_text(json.dumps({"_data_files": []}))
    with pytest.raises(ValueError, match="names no data files"):
        list(column_files.rows(tmp_path))


def test_a_missing_file_is_named(tmp_path):
    folder = save_dataset(tmp_path / "d", ROWS, NAMES)
    (folder / "data-00001-of-00002.arrow").unlink()
    with pytest.raises(FileNotFoundError, match=r"data-00001.* is missing: copy"):
        column_files.files_of(folder)


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_other_content_is_refused(suffix, tmp_path):
    path = tmp_path / f"x{suffix}"
    path.write_bytes(b"text\tlabel\nvery good\t1\n")
    with pytest.raises(ValueError, match=r"x.* is not (Parquet|Arrow) "):
        list(column_files.rows(path))
