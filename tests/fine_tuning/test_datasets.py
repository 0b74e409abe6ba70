"""Files of each task as splits."""

import dataclasses
import json

import pytest

from albert_tf.files import sha256
from albert_tf.records.reader import read_rows
from albert_tf.storage import as_path
from albert_tf.task_config import Classification, MultipleChoice, Regression, Squad
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.fine_tuning import datasets
from data_prep.fine_tuning.tables import Columns
from helpers.bucket_files import files_of, upload
from helpers.fine_tuning_toys import texts, write_table, write_vocabulary
from helpers.questions import question, write_squad


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vocabulary")
    return AlbertTokenizer(vocab_file=write_vocabulary(folder))


@pytest.fixture(autouse=True)
def working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def labels(rows):
    return [int(row["label_ids"]) for row in read_rows(rows.paths[0])]


def test_a_table_of_ones_own(tmp_path, tokenizer):
    files = {
        name: write_table(tmp_path / f"{name}.tsv", count, seed)
        for name, count, seed in [("train", 7, 1), ("dev", 5, 2), ("new", 3, 3)]
    }
    data = datasets.table(files, tokenizer, max_seq_length=17)
    assert data.task_config == Classification(
        "custom",
        ["bad", "good"],
        ["eval_accuracy", "f1", "matthew_corr"],
        17,
        {
            "text": "text",
            "text_pair": None,
            "label": "label",
            "index": None,
            "header": True,
        },
    )
    assert labels(data.train) == [label == "good" for _, label in texts(7, 1)]
    assert labels(data.dev["dev"]) == [label == "good" for _, label in texts(5, 2)]
    assert not data.test["new"].metadata["labelled"]
    assert labels(data.test["new"]) == [0, 0, 0]
    # The rows are kept in the working directory, and their columns in the task.
    assert (tmp_path / "fine_tuning_cache").is_dir()
    again = datasets.table_of_task({"new": files["new"]}, tokenizer, data.task_config)
    assert again.test == data.test and again.train is None


def test_labels_that_differ_in_white_space_alone_are_one_class(tmp_path, tokenizer):
    (tmp_path / "a.csv").write_text(
        "text,label\nlovely,pos\nawful, neg\nworda,pos \nwordb,neg\nwordc,so  so\n"
    )
    file = tmp_path / "a.csv"
    data = datasets.table({"train": file, "dev": file}, tokenizer)
    assert data.task_config.labels == ("neg", "pos", "so so")
    assert labels(data.train) == labels(data.dev["dev"]) == [1, 0, 1, 0, 2]
    warnings = [line for line in data.warnings if "white space" in line]
    assert [line.split(" had ")[0] for line in warnings] == [
        "3 labels of train",
        "3 labels of dev",
    ]


def test_tables_that_fit_no_task_are_refused(tmp_path, tokenizer):
    file = write_table(tmp_path / "dev.tsv", 5, 2)
    with pytest.raises(ValueError, match="Received dev: add 'train'"):
        datasets.table({"dev": file}, tokenizer)
    with pytest.raises(ValueError, match="trained for squad_v1, not to classify"):
        datasets.table_of_task({"dev": file}, tokenizer, Squad(False))
    with pytest.raises(ValueError, match="trained for no task"):
        datasets.table_of_task({"dev": file}, tokenizer, None)


def test_numbers_are_a_regression(tmp_path, tokenizer):
    (tmp_path / "a.csv").write_text('a,value\nlovely,1.5\nawful,"-2"\n')
    columns = Columns("a", label="value")
    data = datasets.table(
        {"train": tmp_path / "a.csv"}, tokenizer, columns, regression=True
    )
    assert isinstance(data.task_config, Regression)
    values = [row["label_ids"] for row in read_rows(data.train.paths[0])]
    assert [float(value) for value in values] == [1.5, -2.0]
    # The task remembers the column of the label, for tables to evaluate on.
    files = {"dev": tmp_path / "a.csv"}
    again = datasets.table_of_task(files, tokenizer, data.task_config)
    assert [
        float(row["label_ids"]) for row in read_rows(again.dev["dev"].paths[0])
    ] == [
        1.5,
        -2.0,
    ]
    # Earlier releases did not store it.
    old = {**data.task_config.columns, "label": None}
    old = dataclasses.replace(data.task_config, columns=old)
    with pytest.raises(ValueError, match="'label'"):
        datasets.table_of_task(files, tokenizer, old)
    again = datasets.table_of_task(files, tokenizer, old, label_column="value")
    assert again.dev["dev"].total_rows == 2


def test_a_task_that_names_no_column_is_refused(tokenizer):
    with pytest.raises(ValueError, match=r"which column .*--text_column"):
        datasets.table_of_task({"new": "a.csv"}, tokenizer, Regression("toy"))


def write_mnli(folder):
    folder.mkdir(parents=True)
    header = "index\tsentence1\tsentence2"
    for name in ("train", "dev_matched", "dev_mismatched"):
        line = "0\tlovely\tawful\tneutral\n"
        (folder / f"{name}.tsv").write_text(f"{header}\tgold_label\n{line}")
    for name in ("test_matched", "test_mismatched"):
        (folder / f"{name}.tsv").write_text(f"{header}\n7\tlovely\tawful\n")


def test_glue_has_its_splits_and_leaves_out_the_diagnostics(tmp_path, tokenizer):
    write_mnli(tmp_path / "glue" / "MNLI")
    data = datasets.glue("MNLI", "glue", tokenizer, cache_dir="cache")
    assert data.task_config.task_name == "mnli" and not data.test
    assert data.dev.keys() == {"dev", "mismatched"} and labels(data.train) == [2]
    test = datasets.glue("mnli", tmp_path / "glue" / "MNLI", tokenizer, ["test"])
    assert test.test.keys() == {"MNLI-m", "MNLI-mm"} and test.train is None
    missing = [line for line in test.warnings if line.startswith("AX is not predicted")]
    assert len(missing) == 1 and not any("AX" in line for line in data.warnings)
    (tmp_path / "glue" / "diagnostic").mkdir()
    (tmp_path / "glue" / "diagnostic" / "diagnostic.tsv").write_text(
        "index\tsentence1\tsentence2\n9\tworda\tlovely\n"
    )
    test = datasets.glue("mnli", "glue", tokenizer, ["test"])
    assert test.test.keys() == {"MNLI-m", "MNLI-mm", "AX"}
    assert next(read_rows(test.test["AX"].paths[0]))["index"] == b"9"
    assert not any("AX is not predicted" in line for line in test.warnings)
    merged = data.with_test(test)
    assert merged.train == data.train and merged.test == test.test
    with pytest.raises(
        ValueError, match=r"Tasks of GLUE and SuperGLUE are cola, .* Received 'rtf'"
    ):
        datasets.glue("rtf", "glue", tokenizer)


TEXT = "lovely worda awful"


def test_squad_is_of_the_version_of_its_files(tmp_path, tokenizer):
    paragraph = (TEXT, [question("a", "worda", [("awful", 13)])])
    v1 = write_squad(tmp_path / "v1.json", [paragraph])
    data = datasets.squad({"train": v1, "dev": v1}, tokenizer)
    assert data.task_config == Squad(False) and data.questions.path == str(v1)
    assert data.train.total_rows == data.dev["dev"].total_rows == 1
    assert data.notes[0] == f"{v1}: 1 questions in 1 windows."
    v2 = write_squad(tmp_path / "v2.json", [paragraph], version="v2.0")
    assert datasets.squad({"test": v2}, tokenizer).task_config == Squad(True)
    impossible = (TEXT, [question("a", is_impossible=True)])
    path = write_squad(tmp_path / "no.json", [impossible])
    with pytest.raises(ValueError, match=r"is_impossible, which v1\.1 does not know"):
        datasets.squad({"train": path}, tokenizer, Squad(False))


def test_squad_takes_one_file_to_answer(tmp_path, tokenizer):
    path = write_squad(tmp_path / "a.json", [(TEXT, [question("a", "worda")])])
    with pytest.raises(ValueError, match="one of 'dev' and 'test'"):
        datasets.squad({"dev": path, "test": path}, tokenizer)
    with pytest.raises(ValueError, match="Received other"):
        datasets.squad({"other": path}, tokenizer)
    with pytest.raises(ValueError, match="questions without gold answers"):
        datasets.squad({"dev": path}, tokenizer)
    data = datasets.squad({"test": path}, tokenizer)
    assert data.questions.golds() is None
    assert not any("not scored" in warning for warning in data.warnings)


def test_answers_that_are_missing_in_part_are_said(tmp_path, tokenizer):
    asked = [question(name, "worda", [("awful", 13)]) for name in "abc"]
    path = write_squad(tmp_path / "a.json", [(TEXT, [*asked, question("d", "worda")])])
    [warning] = datasets.squad({"test": path}, tokenizer).warnings
    assert warning == (
        f"{path}: 1 of 4 questions have no answers and are not marked with "
        "is_impossible, so the predictions are not scored."
    )


def test_several_answers_in_training_are_said(tmp_path, tokenizer):
    answers = [[("awful", 13)], [("awful", 13), ("lovely", 6)], [("awful", 13)] * 2]
    asked = [question(str(n), "worda", each) for n, each in enumerate(answers)]
    path = write_squad(tmp_path / "a.json", [(TEXT, asked)])
    said = [
        w for w in datasets.squad({"train": path}, tokenizer).warnings if "several" in w
    ]
    assert said == [
        f"{path}: 1 of 3 questions have several answers; training learns the first one "
        "that is in the text."
    ]
    assert not datasets.squad({"dev": path}, tokenizer).warnings


def test_questions_with_options(tmp_path, tokenizer):
    line = {"article": TEXT, "question": "worda", "options": ["lovely", "awful"]}
    for name, answer in (("train", {"answer": "B"}), ("test", {})):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(line | answer) + "\n")
    files = datasets.race_files(tmp_path, ["train", "test"], "jsonl")
    data = datasets.race(files, tokenizer, input_format="jsonl")
    assert data.task_config == MultipleChoice("race", ("middle", "high"), 512)
    assert labels(data.train) == [1]
    assert not data.test["test"].metadata["labelled"]
    assert data.notes == [
        "train: 1 passages, 1 questions",
        "test: 1 passages, 1 questions, 1 unanswered questions",
    ]
    with pytest.raises(ValueError, match="has no answer"):
        datasets.race({"dev": files["test"]}, tokenizer, input_format="jsonl")
    with pytest.raises(ValueError, match="Received 'other'"):
        datasets.race({"other": files["test"]}, tokenizer)


def test_race_may_be_in_a_folder_of_that_name(tmp_path):
    (tmp_path / "RACE" / "dev").mkdir(parents=True)
    assert datasets.race_files(tmp_path) == {
        "train": tmp_path / "train",
        "dev": tmp_path / "RACE" / "dev",
    }


# Buckets.


def write_all(folder):
    """The files of every task below a folder."""
    write_mnli(folder / "glue" / "m_n_l_i")
    (folder / "glue" / "diagnostic").mkdir()
    line = "index\tsentence1\tsentence2\n9\tworda\tlovely\n"
    (folder / "glue" / "diagnostic" / "diagnostic.tsv").write_text(line)
    write_table(folder / "train.tsv", 7, 1)
    (folder / "dev.csv").write_text('text,label\n"lovely\n, worda",good\nawful,bad\n')
    (folder / "new.jsonl").write_text('{"text": "wordc"}\n{"text": "awful"}\n')
    paragraph = (TEXT, [question("a", "worda", [("awful", 13)])])
    write_squad(folder / "squad.json", [paragraph])
    passage = {
        "article": TEXT,
        "questions": ["worda"],
        "options": [["lovely", "awful"]],
    }
    for level, answer in (("middle", "A"), ("high", "B")):
        for number in (2, 10):
            path = folder / "race" / "RACE" / "train" / level / f"{number}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            value = passage | {"answers": [answer], "id": f"{level}{number}.txt"}
            path.write_text(json.dumps(value))


def read_all(folder, cache_dir, tokenizer):
    """The rows of every task, by name."""
    options = {"max_seq_length": 17, "cache_dir": cache_dir}
    splits = ("train", "dev", "test")
    tables = {
        name: f"{folder}/{file}"
        for name, file in [("train", "train.tsv"), ("dev", "dev.csv")]
    }
    mnli = datasets.glue("mnli", f"{folder}/glue", tokenizer, splits, **options)
    table = datasets.table(tables, tokenizer, **options)
    predicted = datasets.table_of_task(
        {"new": f"{folder}/new.jsonl"},
        tokenizer,
        table.task_config,
        cache_dir=cache_dir,
    )
    squad = datasets.squad(
        {"dev": f"{folder}/squad.json"}, tokenizer, cache_dir=cache_dir
    )
    race = datasets.race(
        datasets.race_files(f"{folder}/race", ["train"]), tokenizer, cache_dir=cache_dir
    )
    return {
        **{f"mnli-{name}": rows for name, rows in {**mnli.dev, **mnli.test}.items()},
        **{"train": table.train, "dev": table.dev["dev"], "new": predicted.test["new"]},
        **{"squad": squad.dev["dev"], "race": race.train},
    }


def test_files_and_rows_in_a_bucket_are_those_of_a_disk(bucket, tmp_path, tokenizer):
    write_all(tmp_path / "data")
    local = read_all(tmp_path / "data", tmp_path / "cache", tokenizer)
    assert {"mnli-dev", "mnli-AX", "mnli-MNLI-mm"} <= local.keys()
    upload(tmp_path / "data", f"{bucket}/data")
    stored = read_all(f"{bucket}/data", f"{bucket}/cache", tokenizer)
    for name, rows in local.items():
        assert stored[name].sha256 == rows.sha256
        [path], [one] = rows.paths, stored[name].paths
        assert one.startswith(f"{bucket}/cache/") and sha256(one) == sha256(path)
        assert labels(stored[name]) == labels(rows) if name != "squad" else True
    kept = files_of(f"{bucket}/cache").keys()
    assert kept == {path.name for path in (tmp_path / "cache").iterdir()}
    # They are made once, and local files may be beside a bucket's cache.
    as_path(f"{bucket}/data/train.tsv").unlink()
    again = read_all(tmp_path / "data", f"{bucket}/cache", tokenizer)
    assert again == stored and files_of(f"{bucket}/cache").keys() == kept


def test_files_that_a_bucket_does_not_have_are_named(bucket, tokenizer):
    with pytest.raises(FileNotFoundError, match=rf"{bucket}/g holds neither MNLI/ nor"):
        datasets.glue("mnli", f"{bucket}/g", tokenizer)
    with pytest.raises(FileNotFoundError, match=rf"no file {bucket}/a\.csv: check"):
        datasets.table({"train": f"{bucket}/a.csv"}, tokenizer)
    with pytest.raises(FileNotFoundError, match=rf"no SQuAD file {bucket}/a\.json"):
        datasets.squad({"dev": f"{bucket}/a.json"}, tokenizer)
    files = datasets.race_files(f"{bucket}/race", ["dev"])
    with pytest.raises(
        FileNotFoundError, match=rf"no file {bucket}/race/dev: --data_d"
    ):
        datasets.race(files, tokenizer)
