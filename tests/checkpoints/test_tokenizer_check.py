"""Rows and texts must be those of a model's vocabulary and text cleaning."""

import pytest

from albert_tf.checkpoints import tokenizer_check
from albert_tf.files import sha256, write_json
from albert_tf.text.tokenizer import AlbertTokenizer
from helpers.fine_tuning_toys import write_vocabulary


@pytest.fixture
def metadata(tmp_path):
    return AlbertTokenizer(vocab_file=write_vocabulary(tmp_path)).metadata()


def test_the_digest_is_the_folders_or_that_of_the_file_next_to_the_weights(
    tmp_path, metadata
):
    stated = tokenizer_check.stated_tokenizer(tmp_path)
    assert stated == {"vocabulary_sha256": sha256(tmp_path / "vocab.txt")}
    write_json(tmp_path / "tokenizer.json", metadata)
    (tmp_path / "vocab.txt").write_text("another")
    assert tokenizer_check.stated_tokenizer(tmp_path / "model.ckpt-3") == metadata
    assert tokenizer_check.stated_tokenizer(tmp_path / "nowhere" / "x") == {}


@pytest.mark.parametrize(
    ("key", "other"),
    [("vocabulary_sha256", "0f" * 32), ("lower_case", False), ("vocab_size", 9)],
)
def test_another_value_is_refused_with_both(tmp_path, metadata, key, other):
    write_json(tmp_path / "tokenizer.json", metadata)
    tokenizer_check.check_tokenizer(tmp_path, metadata, "rows were made with")
    tokenizer_check.check_tokenizer(tmp_path, {**metadata, key: None}, "rows")
    made_with = {**metadata, key: other}
    mine, theirs = str(metadata[key])[:12], str(other)[:12]
    words = f"{tmp_path} has {key}={mine}.*rows were made with {key}={theirs}"
    with pytest.raises(ValueError, match=words):
        tokenizer_check.check_tokenizer(tmp_path, made_with, "rows were made with")
