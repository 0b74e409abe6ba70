"""Text is cleaned as the files of transformers say; transformers is the oracle."""

import json

import pytest

from albert_tf.checkpoints import model_dir
from helpers.transformers_models import transformers

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "A", "ä", "Ä", "##b"]
TEXTS = ["a A ä Ä", "ab Ab äb ÄB"]


@pytest.mark.parametrize("keeps", ["both", "tokenizer.json", "vocab.txt"])
@pytest.mark.parametrize("lower_case", [True, False])
@pytest.mark.parametrize("strip_accents", [True, False, None])
def test_tokens_are_those_of_transformers(keeps, lower_case, strip_accents, tmp_path):
    file = tmp_path / "tokens.txt"
    file.write_text("\n".join(TOKENS) + "\n", encoding="utf-8")
    cleaning = {"do_lower_case": lower_case, "strip_accents": strip_accents}
    theirs = transformers.BertTokenizerFast(vocab_file=str(file), **cleaning)
    folder = tmp_path / "saved"
    theirs.save_pretrained(folder)
    (folder / "vocab.txt").write_text(file.read_text(encoding="utf-8"))
    if keeps == "tokenizer.json":
        (folder / "vocab.txt").unlink()
        (folder / "tokenizer_config.json").unlink()
    elif keeps == "vocab.txt":
        (folder / "tokenizer.json").unlink()
    vocabulary = model_dir.read_vocabulary(folder)
    expected = "tokenizer.json" if keeps == "tokenizer.json" else "vocab.txt"
    assert vocabulary.path.name == expected
    tokenizer = vocabulary.tokenizer()
    for text in TEXTS:
        assert theirs(text)["input_ids"] == [2, *tokenizer.encode(text), 3]


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("tokenizer_config.json", {"tokenize_chinese_chars": False}, "chinese_chars=F"),
        ("tokenizer_config.json", {"do_basic_tokenize": False}, "do_basic_tokenize=F"),
        ("tokenizer_config.json", {"word_tokenizer_type": "mecab"}, "type='mecab'"),
        (
            "tokenizer.json",
            {
                "model": {"type": "WordPiece"},
                "normalizer": {"handle_chinese_chars": False},
            },
            "tokenize_chinese_chars=False",
        ),
    ],
)
def test_texts_that_are_split_otherwise_are_refused(name, values, words, tmp_path):
    (tmp_path / name).write_text(json.dumps(values))
    with pytest.raises(ValueError, match=words) as caught:
        model_dir.read_cleaning(tmp_path)
    message = str(caught.value)
    assert str(tmp_path / name) in message and "\n" not in message


def test_a_unigram_tokenizer_json_is_no_vocabulary(tmp_path):
    values = {"model": {"type": "Unigram", "vocab": [["a", 0.0]]}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(values))
    assert model_dir.find_vocabulary(tmp_path) is None
    assert model_dir.read_cleaning(tmp_path) == {}
