"""Small vocabularies that the tests of text share, each made once."""

import pytest

from albert_tf.text.tokenizer import AlbertTokenizer
from helpers.tokenization_cases import every_tokenizer, train, write_wordpieces


@pytest.fixture(scope="session")
def spm_model_file(tmp_path_factory) -> str:
    return train(tmp_path_factory.mktemp("vocabulary") / "small.model")


@pytest.fixture(scope="session")
def vocab_file(tmp_path_factory) -> str:
    return write_wordpieces(tmp_path_factory.mktemp("vocabulary") / "vocab.txt")


@pytest.fixture(scope="session")
def tokenizers(spm_model_file, vocab_file) -> list[AlbertTokenizer]:
    return every_tokenizer(spm_model_file, vocab_file)


@pytest.fixture(scope="session")
def tokenizer(spm_model_file) -> AlbertTokenizer:
    return AlbertTokenizer(spm_model_file)
