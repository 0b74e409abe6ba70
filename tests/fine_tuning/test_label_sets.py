"""Rows of several labels, as tables have them."""

import json

import pytest

from albert_tf.records.reader import read_rows
from albert_tf.task_config import MultiLabel
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.fine_tuning import datasets, label_sets
from data_prep.fine_tuning.tables import Columns, read_table
from helpers.fine_tuning_toys import write_vocabulary

COLUMNS = Columns("text", label="label")


@pytest.fixture
def tokenizer(tmp_path):
    return AlbertTokenizer(vocab_file=write_vocabulary(tmp_path))


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def ids(rows):
    return [row["label_ids"].tolist() for row in read_rows(rows.paths[0])]


def test_lists_and_texts_are_the_same_labels(tmp_path, tokenizer):
    listed = [["joy", "fear"], [], ["so  so", "joy", "joy"], ["fear", " "]]
    rows = [{"text": f"word{i}", "label": each} for i, each in enumerate(listed)]
    table = "text\tlabel\na\tjoy| fear\nb\t\nc\tso so|joy|joy\nd\tfear|\n"
    (tmp_path / "a.tsv").write_text(table)
    files = {"json": write(tmp_path / "a.jsonl", rows), "tsv": tmp_path / "a.tsv"}
    made = {}
    for name, file in files.items():
        data = datasets.table(
            {"train": file, "dev": file},
            tokenizer,
            multi_label=True,
            label_separator="|",
            cache_dir=tmp_path / "cache",
        )
        assert data.task_config.labels == ("fear", "joy", "so so")
        assert data.notes[0] == "train: 1 rows have no label."
        assert "2 labels of train are empty or stand twice" in " ".join(data.warnings)
        made[name] = ids(data.train)
        assert ids(data.dev["dev"]) == made[name]
    assert made["json"] == made["tsv"] == [[1, 1, 0], [0, 0, 0], [0, 1, 1], [1, 0, 0]]


def test_a_trained_model_reads_tables_as_it_did(tmp_path, tokenizer):
    (tmp_path / "names.txt").write_text("anger\nlove\njoy\n")
    (tmp_path / "a.tsv").write_text("worda\t2,0\nwordb\t1\n")
    data = datasets.table(
        {"train": tmp_path / "a.tsv"},
        tokenizer,
        Columns(0, label=1, header=False),
        multi_label=True,
        label_names=tmp_path / "names.txt",
        cache_dir=tmp_path / "cache",
    )
    assert ids(data.train) == [[1, 0, 1], [0, 1, 0]]
    again = datasets.table_of_task(
        {"dev": tmp_path / "a.tsv", "new": tmp_path / "a.tsv"},
        tokenizer,
        data.task_config,
        cache_dir=tmp_path / "cache",
    )
    assert ids(again.dev["dev"]) == [[1, 0, 1], [0, 1, 0]]
    assert ids(again.test["new"]) == [[0] * 3] * 2
    (tmp_path / "b.tsv").write_text("worda\t2\nwordb\t1,3\n")
    with pytest.raises(ValueError, match=r"b.tsv, line 2: the label '3' is none"):
        datasets.table_of_task(
            {"dev": tmp_path / "b.tsv"}, tokenizer, data.task_config, cache_dir=tmp_path
        )


def test_unknown_labels_name_their_line(tmp_path):
    file = write(tmp_path / "a.jsonl", [{"text": "a", "label": ["x", "y"]}])
    examples = read_table(file, COLUMNS, several_labels=True).examples
    with pytest.raises(ValueError, match=r"line 1: the label 'y' is none of 'x', 'z'"):
        label_sets.label_set_values(examples, MultiLabel("toy", ["x", "z"]))


@pytest.mark.parametrize("several", [False, True])
def test_lists_are_read_where_they_may_be_alone(tmp_path, several):
    lists = {
        "label": {"text": "a", "label": ["x"]},
        "text": {"text": ["a"], "label": "x"},
        "nested": {"text": "a", "label": [["x"]]},
        "object": {"text": "a", "label": {"x": 1}},
    }
    for name, row in lists.items():
        file = write(tmp_path / f"{name}.jsonl", [row])
        if several and name == "label":
            [example] = read_table(file, COLUMNS, several_labels=True).examples
            assert example.labels == ("x",) and example.label is None
            continue
        with pytest.raises(ValueError, match=r"line 1: the .* column .* holds a"):
            read_table(file, COLUMNS, several_labels=several)
    message = "pass --multi_label"
    if not several:
        with pytest.raises(ValueError, match=message):
            read_table(tmp_path / "label.jsonl", COLUMNS)


@pytest.mark.parametrize(
    ("content", "match"),
    [("a\n\nb\n", "line 2"), ("a\nb\na\n", "line 3"), ("\n", "line 1|no labels")],
)
def test_files_of_names_name_each_label_once(tmp_path, content, match):
    (tmp_path / "names").write_text(content)
    with pytest.raises(ValueError, match=match):
        label_sets.read_names(tmp_path / "names")


def test_labels_that_predictions_could_not_tell_apart_are_refused(tmp_path, tokenizer):
    file = write(tmp_path / "a.jsonl", [{"text": "a", "label": ["joy, pride", "x"]}])
    (tmp_path / "names").write_text("x\nfear, anger\n")
    for names, match in ((None, "joy, pride"), (tmp_path / "names", "fear, anger")):
        with pytest.raises(ValueError, match=f"label '{match}' holds the separator"):
            datasets.table(
                {"train": file}, tokenizer, multi_label=True, label_names=names
            )
    data = datasets.table(
        {"train": file},
        tokenizer,
        multi_label=True,
        label_separator="|",
        cache_dir=tmp_path / "cache",
    )
    assert data.task_config.labels == ("joy, pride", "x")


def test_what_cannot_be_learned_is_refused(tmp_path, tokenizer):
    file = write(tmp_path / "a.jsonl", [{"text": "a", "label": []}] * 3)

    def table(**settings):
        datasets.table({"train": file}, tokenizer, **settings)

    with pytest.raises(ValueError, match="has no row with a label"):
        table(multi_label=True)
    with pytest.raises(ValueError, match="one of --regression and --multi_label"):
        table(multi_label=True, regression=True)
    with pytest.raises(ValueError, match="add --multi_label"):
        table(label_names=file)
