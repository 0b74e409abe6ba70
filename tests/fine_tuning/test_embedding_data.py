"""Texts that are near each other, as tables have them."""

import json

import pytest

from albert_tf.records.reader import read_rows
from albert_tf.task_config import Embedding
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.fine_tuning import embedding_data
from helpers.fine_tuning_toys import write_vocabulary

TASK = Embedding("custom", max_seq_length=7)


@pytest.fixture
def tokenizer(tmp_path):
    return AlbertTokenizer(vocab_file=write_vocabulary(tmp_path))


def read(tmp_path, tokenizer, rows, task=TASK, **columns):
    file = tmp_path / "a.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    columns = {"text": "a", "text_pair": "b", **columns}
    task = Embedding(**{**vars(task), "columns": columns})
    files = dict.fromkeys(("train", "dev", "test"), file)
    data = embedding_data.pairs(files, tokenizer, task, cache_dir=tmp_path / "cache")
    splits = (data.train, data.dev["dev"], data.test["test"])
    return data, *([*read_rows(rows.paths[0])] for rows in splits)


def test_texts_are_rows_of_their_own_and_equal_ones_are_known(tmp_path, tokenizer):
    rows = [
        {"a": "worda", "b": "wordb wordc", "c": "wordd"},
        {"a": "worde " * 9, "b": "worda", "c": "wordb wordc"},
    ]
    data, train, _, _ = read(tmp_path, tokenizer, rows, negative="c")
    assert [row["text_keys"].tolist() for row in train] == [[0, 1, 2], [3, 0, 1]]
    for row, made in zip(rows, train, strict=True):
        for name, ids in zip("abc", made["input_ids"], strict=True):
            expected = tokenizer.encode(row[name])[:5]
            expected = [tokenizer.cls_id, *expected, tokenizer.sep_id]
            assert ids[: len(expected)].tolist() == expected
    assert data.train.metadata["statistics"]["truncated_rows"] == 1
    assert not data.test["test"].metadata["labelled"]


def test_scores_are_scaled_and_their_bounds_are_kept(tmp_path, tokenizer):
    task = Embedding("custom", has_scores=True, bounds=(1, 5), max_seq_length=7)
    rows = [{"a": "worda", "b": "wordb", "s": score} for score in (1, 3.5, 5)]
    _, train, dev, test = read(tmp_path, tokenizer, rows, task, label="s")
    assert [float(row["label_ids"]) for row in train] == [0, 0.625, 1]
    assert [float(row["label_ids"]) for row in dev] == [0, 0.625, 1]
    assert [float(row["label_ids"]) for row in test] == [0, 0, 0]
    with pytest.raises(
        ValueError, match=r"line 2: the score 0.5 is not between 1 and 5"
    ):
        read(tmp_path, tokenizer, [rows[0], {**rows[1], "s": 0.5}], task, label="s")


def test_sts_b_has_its_bounds(tmp_path, tokenizer):
    folder = tmp_path / "STS-B"
    folder.mkdir()
    head = "index\tsentence1\tsentence2\tscore\n"
    (folder / "dev.tsv").write_text(
        f"{head}0\tworda\twordb\t5.000\n1\tworda\tworda\t0\n"
    )
    data = embedding_data.sts_b(
        tmp_path, tokenizer, TASK, ["dev"], cache_dir=tmp_path / "cache"
    )
    rows = [*read_rows(data.dev["dev"].paths[0])]
    assert [float(row["label_ids"]) for row in rows] == [1, 0]
    assert data.task_config.has_scores and data.task_config.bounds == (0, 5)
    assert [row["text_keys"].tolist() for row in rows] == [[0, 1], [0, 0]]
