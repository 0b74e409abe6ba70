"""The table of GLUE's tasks, and the published files."""

import json

import pytest

from data_prep.fine_tuning import glue, row_labels, superglue, tables

COUNTS = {
    "rte": (2490, 277, 3000),
    "mrpc": (3668, 408, 1725),
    "sts-b": (5749, 1500, 1379),
    "cola": (8551, 1043, 1063),
    "wnli": (635, 71, 146),
}


@pytest.mark.parametrize("name", COUNTS)
def test_every_row_of_the_published_files_is_read(shared_data, name):
    task = glue.GLUE[name]
    folder = glue.task_folder(shared_data / "glue", task)
    assert glue.task_folder(folder, task) == folder
    train = tables.read_table(folder / "train.tsv", task.train)
    dev = tables.read_table(folder / "dev.tsv", task.train)
    test = tables.read_table(folder / "test.tsv", task.test)
    assert tuple(len(t.examples) for t in (train, dev, test)) == COUNTS[name]
    for table in (train, dev):
        values = row_labels.label_values(table.examples, task.labels)
        assert len(set(values)) > 1
    # The leaderboard's numbers of the rows.
    assert [example.index for example in test.examples] == [
        str(number) for number in range(COUNTS[name][2])
    ]


def test_the_table_of_tasks_is_whole():
    assert len(glue.GLUE) == 9 and len(superglue.SUPERGLUE) == 4
    for task in (*glue.GLUE.values(), *superglue.SUPERGLUE.values()):
        assert task.train.label is not None and task.test.label is None
        assert next(iter(task.dev_files)) == "dev"
        json.dumps([task.labels, task.metrics, task.bounds])
    assert glue.GLUE["mnli"].test_files.keys() == {"MNLI-m", "MNLI-mm"}
    assert glue.GLUE["mnli"].diagnostics.keys() == {"AX"}


def test_a_folder_that_is_not_of_the_task_is_refused(tmp_path):
    (tmp_path / "MNLI").mkdir()
    (tmp_path / "MNLI" / "dev_matched.tsv").touch()
    assert glue.task_folder(tmp_path, glue.GLUE["mnli"]) == tmp_path / "MNLI"
    with pytest.raises(FileNotFoundError, match=r"neither RTE/ nor train\.tsv"):
        glue.task_folder(tmp_path, glue.GLUE["rte"])


@pytest.mark.parametrize(
    ("folder", "name"),
    [("SST-2", "sst-2"), ("sst2", "sst-2"), ("STSB", "sts-b"), ("cola", "cola")],
)
def test_folders_are_found_under_all_spellings(tmp_path, folder, name):
    (tmp_path / "QNLI").mkdir()
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "dev.tsv").touch()
    assert glue.task_folder(tmp_path, glue.GLUE[name]) == tmp_path / folder


@pytest.mark.parametrize(
    "file", ["AX/diagnostic.tsv", "diagnostic/diagnostic.tsv", "AX/AX.tsv", "AX.tsv"]
)
def test_diagnostics_are_found_in_each_archive_and_named_if_missing(tmp_path, file):
    mnli = glue.GLUE["mnli"]
    folder = tmp_path / "MNLI"
    folder.mkdir()
    found, [missing] = mnli.find_diagnostics(folder)
    assert not found
    assert missing.startswith("AX is not predicted: there is no AX/diagnostic.tsv or ")
    assert missing.endswith(f"in {tmp_path}.")
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).touch()
    found, missing = mnli.find_diagnostics(folder)
    assert not missing and (folder / found["AX"]).samefile(tmp_path / file)
    # A folder beside the diagnostics is not the task's.
    with pytest.raises(FileNotFoundError, match="neither MNLI/"):
        glue.task_folder(tmp_path / "MNLI", mnli)
