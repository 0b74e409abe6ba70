"""Places of tokens in a graph are those of the Python tokenizer."""

import json

import pytest
import tensorflow as tf

from albert_tf.text.tokenizer import AlbertTokenizer
from helpers.tokenization_cases import (
    WORD_INSIDES,
    WORD_STARTS,
    every_tokenizer,
    is_same,
    nasty_texts,
    train,
)


def assert_offsets_equal_pythons(tokenizer: AlbertTokenizer, texts: list[str]):
    found = tokenizer.graph_tokenizer().encode_with_offsets(texts)
    assert [each.dtype for each in found] == [tf.int32] * 3
    rows = zip(*(each.to_list() for each in found), strict=True)
    for text, (ids, starts, ends) in zip(texts, rows, strict=True):
        python_ids, offsets = tokenizer.encode_with_offsets(text)
        assert is_same(python_ids, ids)
        if python_ids == ids:
            assert list(zip(starts, ends, strict=True)) == offsets, repr(text)


# Normalisers that spell a letter with two ("ß" with "ss"), that do nothing, and that
# keep white space; characters spelled in bytes; texts without a first "▁".
VOCABULARIES = [
    {},
    {"normalization_rule_name": "nmt_nfkc_cf"},
    {"normalization_rule_name": "identity"},
    {"byte_fallback": True, "vocab_size": 680},
    {"add_dummy_prefix": False, "remove_extra_whitespaces": False},
]


# Without those that overlap others or themselves ("---"): where the splitter cuts one
# of them, the graph cannot tell how much of it belongs to which piece.
SYMBOLS = [s for s in (*WORD_STARTS, *WORD_INSIDES) if s not in ("ーが", "--")]


@pytest.mark.parametrize("changes", VOCABULARIES, ids=str)
def test_graph_offsets_equal_pythons(tmp_path, vocab_file, changes):
    model = train(tmp_path / "own.model", user_defined_symbols=SYMBOLS, **changes)
    texts = [*nasty_texts(2000, seed=77), "", " ", "\x07", "größe Großs Fußss"]
    # Pieces that the digit-comma rule splits, with what the normaliser drops in them.
    texts += ["in 20\x0713\u200b, x", "a13, 17,a", "fu\u030813,", "\u0301a  \u0301"]
    tokenizers = every_tokenizer(model, vocab_file)
    for tokenizer in tokenizers if not changes else tokenizers[1:4]:
        assert_offsets_equal_pythons(tokenizer, texts)


def test_graph_offsets_equal_pythons_on_xquad(shared_data):
    vocabularies = ["30k-clean.model", "xquad-16k.model", "vocab_chinese.txt"]
    for language in ("en", "de", "zh"):
        file = shared_data / "squad" / f"xquad.{language}.json"
        articles = json.loads(file.read_text("utf-8"))["data"]
        texts = [
            p["context"] for article in articles for p in article["paragraphs"][:2]
        ]
        for name in vocabularies:
            path = shared_data / "vocabulary" / name
            assert_offsets_equal_pythons(AlbertTokenizer.from_file(path), texts)
    path = shared_data / "vocabulary" / "xquad-16k.model"
    accented = AlbertTokenizer(path, lower_case=False, strip_accents=False)
    assert_offsets_equal_pythons(accented, texts)


def test_an_invalid_byte_is_one_character_to_offsets(tokenizers):
    text = b"rat \xff\xfe sea"
    for tokenizer in (tokenizers[0], tokenizers[-1]):
        found = tokenizer.graph_tokenizer().encode_with_offsets([text])
        ids, offsets = tokenizer.encode_with_offsets("rat \ufffd\ufffd sea")
        [starts], [ends] = (each.to_list() for each in found[1:])
        assert found[0].to_list() == [ids]
        assert list(zip(starts, ends, strict=True)) == offsets


def test_graph_offsets_survive_a_saved_model(tmp_path, vocab_file):
    folding = train(tmp_path / "cf.model", normalization_rule_name="nmt_nfkc_cf")
    texts = ["Größe in 2013, für", "", "ΑΣ ﬁn 中文 doing 😀"]
    for number, tokenizer in enumerate(
        (AlbertTokenizer(folding), AlbertTokenizer(vocab_file=vocab_file))
    ):
        module, folder = tf.Module(), str(tmp_path / str(number))
        module.tokenizer = tokenizer.graph_tokenizer()
        module.encode = tf.function(
            module.tokenizer.encode_with_offsets,
            input_signature=[tf.TensorSpec([None], tf.string)],
        )
        tf.saved_model.save(module, folder)
        loaded = tf.saved_model.load(folder)
        ids, starts, ends = (
            each.to_list() for each in loaded.encode(tf.constant(texts))
        )
        for place, text in enumerate(texts):
            offsets = list(zip(starts[place], ends[place], strict=True))
            assert (ids[place], offsets) == tokenizer.encode_with_offsets(text)
