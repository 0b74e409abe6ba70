"""SuperGLUE's tasks on sentences, as published."""

import json

import pytest

from albert_tf.records.reader import read_rows
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.fine_tuning import datasets, superglue
from helpers.fine_tuning_toys import write_vocabulary
from helpers.superglue_toys import LABELS, SIZES, write_superglue


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return AlbertTokenizer(vocab_file=write_vocabulary(tmp_path_factory.mktemp("v")))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_superglue(tmp_path_factory.mktemp("superglue"))


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("name", superglue.SUPERGLUE)
def test_rows_are_those_of_the_files(folder, tokenizer, name, tmp_path):
    splits = ("train", "dev", "test")
    data = datasets.glue(name, folder, tokenizer, splits, cache_dir=tmp_path)
    task = superglue.SUPERGLUE[name]
    published = LABELS[task.folder]
    spelled = [x if isinstance(x, str) else json.dumps(x) for x in published]
    assert sorted(spelled) == list(data.task_config.labels)
    for split, rows in {"train": data.train, **data.dev}.items():
        found = [int(row["label_ids"]) for row in read_rows(rows.paths[0])]
        count = SIZES["train" if split == "train" else "val"]
        names = [spelled[place % len(spelled)] for place in range(count)]
        assert [data.task_config.labels[place] for place in found] == names
    [(test, rows)] = data.test.items()
    assert test == task.folder and not rows.metadata["labelled"]
    assert [row["index"] for row in read_rows(rows.paths[0])] == [
        str(place).encode() for place in range(SIZES["test"])
    ]


def test_the_word_of_wic_is_put_before_both_sentences(folder, tokenizer, tmp_path):
    data = datasets.glue("wic", folder, tokenizer, ["train"], cache_dir=tmp_path)
    rows = lines_of(folder / "WiC/train.jsonl")
    for row, made in zip(rows, read_rows(data.train.paths[0]), strict=True):
        expected = [tokenizer.cls_id]
        for name in ("sentence1", "sentence2"):
            expected += tokenizer.encode(f"{row['word']}: {row[name]}")
            expected.append(tokenizer.sep_id)
        assert made["input_ids"].tolist() == expected
    # A model's task.json says so, for tables to come.
    assert data.task_config.columns["prefix"] == "word"
    again = datasets.table_of_task(
        {"new": folder / "WiC/train.jsonl"},
        tokenizer,
        data.task_config,
        cache_dir=tmp_path,
    )
    new = read_rows(again.test["new"].paths[0])
    old = read_rows(data.train.paths[0])
    for a, b in zip(new, old, strict=True):
        assert a["input_ids"].tolist() == b["input_ids"].tolist()


def test_copa_is_two_options_for_a_question(folder, tokenizer, tmp_path):
    files = datasets.race_files(folder, ["train", "dev", "test"], "copa")
    data = datasets.race(files, tokenizer, input_format="copa", cache_dir=tmp_path)
    assert data.task_config.task_name == "copa" and data.task_config.levels == ()
    rows = lines_of(folder / "COPA/train.jsonl")
    question = {
        "cause": "What was the cause of this?",
        "effect": "What happened as a result?",
    }
    for row, made in zip(rows, read_rows(data.train.paths[0]), strict=True):
        assert int(made["label_ids"]) == row["label"]
        for name, ids in zip(("choice1", "choice2"), made["input_ids"], strict=True):
            expected = [tokenizer.cls_id, *tokenizer.encode(row["premise"])]
            text = f"{question[row['question']]} {row[name]}"
            expected += [tokenizer.sep_id, *tokenizer.encode(text), tokenizer.sep_id]
            assert ids[: len(expected)].tolist() == expected
    assert not data.test["test"].metadata["labelled"]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"question": "why"}, r"line 3: 'question' must be one of cause, effect"),
        ({"label": 2}, "line 3: 'label' must be 0 or 1"),
        ({"choice1": 7}, "line 3: 'choice1' must be text"),
    ],
)
def test_a_row_of_another_kind_is_named(folder, tokenizer, tmp_path, change, match):
    lines = (folder / "COPA/train.jsonl").read_text().splitlines()
    lines[2] = json.dumps({**json.loads(lines[2]), **change})
    (tmp_path / "train.jsonl").write_text("\n".join(lines))
    files = datasets.race_files(tmp_path, ["train"], "copa")
    with pytest.raises(ValueError, match=match):
        datasets.race(files, tokenizer, input_format="copa", cache_dir=tmp_path)
