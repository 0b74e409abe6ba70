"""XNLI's languages, as published."""

import pytest

from albert_tf.records.reader import read_rows
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.fine_tuning import xnli
from data_prep.fine_tuning.glue import GLUE
from helpers.fine_tuning_toys import write_vocabulary
from helpers.superglue_toys import write_xnli

ALL = ("train", "dev", "test")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return AlbertTokenizer(vocab_file=write_vocabulary(tmp_path_factory.mktemp("v")))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_xnli(tmp_path_factory.mktemp("xnli"))


def labels(rows):
    names = GLUE["mnli"].labels
    return [names[int(row["label_ids"])] for row in read_rows(rows.paths[0])]


def test_each_language_is_a_split_of_its_own(folder, tokenizer, tmp_path):
    data = xnli.xnli(folder, tokenizer, ["de", "en"], ALL, cache_dir=tmp_path)
    assert data.task_config.labels == GLUE["mnli"].labels
    # The training files have a spelling of their own.
    assert labels(data.train)[:3] == ["neutral", "contradiction", "entailment"]
    assert {name: rows.total_rows for name, rows in data.dev.items()} == {
        "dev": 8,
        "dev_en": 4,
    }
    assert labels(data.dev["dev"]) == ["neutral", "entailment"] * 4
    assert labels(data.dev["dev_en"]) == ["contradiction"] * 4
    assert {name: rows.total_rows for name, rows in data.test.items()} == {
        "XNLI-de": 6,
        "XNLI-en": 3,
    }
    assert all(rows.metadata["labelled"] for rows in data.test.values())


def test_all_languages_and_another_one_to_train_on(folder, tokenizer, tmp_path):
    data = xnli.xnli(
        folder, tokenizer, ["all"], ALL, train_language="de", cache_dir=tmp_path
    )
    assert data.dev.keys() == {"dev", "dev_en"} and data.train.total_rows == 11
    [inner] = [folder / "XNLI-1.0"]
    assert xnli.xnli(inner, tokenizer, ["en"], ["dev"], cache_dir=tmp_path).dev


def test_what_is_missing_is_named(folder, tokenizer, tmp_path):
    with pytest.raises(ValueError, match=r"language 'fr'; it has de, en"):
        xnli.xnli(folder, tokenizer, ["fr"], ["dev"], cache_dir=tmp_path)
    with pytest.raises(FileNotFoundError, match=r"has no multinli\.train\.en\.tsv"):
        xnli.xnli(folder, tokenizer, ["en"], ["train"], cache_dir=tmp_path)
