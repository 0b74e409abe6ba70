"""A `tokenizer.json` of transformers with WordPiece is the vocabulary that it holds."""

import json
import os

import pytest

from albert_tf.files import sha256
from albert_tf.text import vocabulary_content
from albert_tf.text.tokenizer import AlbertTokenizer

os.environ["HF_HUB_OFFLINE"] = "1"
import transformers

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b", "ä", "你", ",", "B"]


@pytest.fixture
def saved(tmp_path):
    """A folder as transformers saves a tokenizer, and its vocab.txt."""
    file = tmp_path / "vocab.txt"
    file.write_text("\n".join(TOKENS) + "\n", encoding="utf-8")
    fast = transformers.BertTokenizerFast(vocab_file=str(file))
    fast.save_pretrained(tmp_path / "saved")
    return tmp_path / "saved", file


def changed(folder, change):
    """The tokenizer.json with changed values."""
    values = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    change(values)
    file = folder / "changed.json"
    file.write_text(json.dumps(values))
    return file


def test_content_and_digest_are_those_of_its_lines(saved):
    folder, file = saved
    found = folder / "tokenizer.json"
    assert vocabulary_content.read_vocabulary(found) == file.read_bytes()
    assert vocabulary_content.vocabulary_digest(found) == sha256(file)
    assert vocabulary_content.vocabulary_digest(file) == sha256(file)
    own = AlbertTokenizer(vocab_file=found)
    assert own.metadata() == AlbertTokenizer(vocab_file=file).metadata()
    theirs = transformers.BertTokenizerFast.from_pretrained(folder)
    for text in ("ab, 你a", "AB Ä zz"):
        assert theirs(text)["input_ids"] == [2, *own.encode(text), 3]


def test_added_tokens_follow_the_others(saved):
    def add(values):
        values["added_tokens"] += [
            {"id": 12, "content": "y"},
            {"id": 11, "content": "x"},
        ]

    file = changed(saved[0], add)
    content = vocabulary_content.read_vocabulary(file)
    assert content.decode().split() == [*TOKENS, "x", "y"]


@pytest.mark.parametrize(
    ("part", "key", "value", "words"),
    [
        ("model", "type", "Unigram", "type='Unigram', expected 'WordPiece'"),
        ("model", "continuing_subword_prefix", "@@", "'@@', expected '##'"),
        ("model", "unk_token", "<unk>", "expected '\\[UNK\\]'"),
        ("model", "vocab", [["a", 0.0]], 'has no "vocab"'),
        ("model", "vocab", {"[PAD]": 0, "a": 2}, "have no id 1"),
        ("model", "vocab", {"[PAD]": 0, "a": 0}, "have no id 1"),
        ("pre_tokenizer", "type", "Metaspace", "expected 'BertPreTokenizer'"),
        ("normalizer", "type", "NFKC", "expected 'BertNormalizer'"),
    ],
)
def test_what_splits_otherwise_is_refused(part, key, value, words, saved):
    def change(values):
        values["added_tokens"] = []
        values[part][key] = value

    file = changed(saved[0], change)
    with pytest.raises(ValueError, match=words) as caught:
        vocabulary_content.read_vocabulary(file)
    assert str(file) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"lower_case": true}', '"model"'])
def test_other_files_of_the_name_hold_no_vocabulary(content, tmp_path):
    file = tmp_path / "tokenizer.json"
    file.write_text(content)
    assert not vocabulary_content.is_wordpiece_tokenizer(file)
    with pytest.raises(ValueError, match=r"tokenizer\.json"):
        vocabulary_content.read_vocabulary(file)
