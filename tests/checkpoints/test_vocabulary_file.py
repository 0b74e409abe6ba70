"""One rule says how text is cleaned; a vocabulary is of the kind that is asked for."""

import os
from pathlib import Path

import numpy as np
import pytest

from albert_tf.checkpoints.vocabulary_file import VocabularyFile
from helpers.fine_tuning_toys import write_vocabulary
from helpers.tokenization_cases import train

# Nothing is downloaded.
os.environ["HF_HUB_OFFLINE"] = "1"
import transformers

WORDPIECE, SENTENCEPIECE = "vocab.txt", "spiece.model"


@pytest.mark.parametrize(
    ("name", "stated", "arguments", "expected"),
    [
        # Nothing is stated: the released models' cleaning.
        (WORDPIECE, {}, (), (True, True)),
        (SENTENCEPIECE, {}, (), (True, True)),
        # The case is stated, accents are not.
        (WORDPIECE, {"lower_case": False}, (), (False, False)),
        (SENTENCEPIECE, {"lower_case": False}, (), (False, True)),
        (WORDPIECE, {}, (False, None), (False, False)),
        (SENTENCEPIECE, {}, (False, None), (False, True)),
        # What is stated counts before the rule, an argument before that.
        (WORDPIECE, {"lower_case": False, "strip_accents": True}, (), (False, True)),
        (SENTENCEPIECE, {"strip_accents": False}, (), (True, False)),
        (SENTENCEPIECE, {"strip_accents": False}, (None, True), (True, True)),
        (WORDPIECE, {"lower_case": True}, (False, True), (False, True)),
    ],
)
def test_one_rule_of_text_cleaning(name, stated, arguments, expected):
    vocabulary = VocabularyFile.with_cleaning(name, stated, *arguments)
    assert (vocabulary.lower_case, vocabulary.strip_accents) == expected


# What a configuration of `transformers` may state, and the same in our words.
STATED = [
    ({}, {}),
    ({"do_lower_case": False}, {"lower_case": False}),
    ({"do_lower_case": True}, {"lower_case": True}),
]
LETTERS = ["a", "B", "é", "Ö", "ü", "ñ", "ç", "I"]


@pytest.mark.parametrize(("theirs", "ours"), STATED)
def test_transformers_bert_cleans_text_by_the_same_rule(theirs, ours, tmp_path):
    marks = sorted({*"abeouncBEOUNCI", *"éÖñçöÑüiI"})
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokens += [*marks, *(f"##{mark}" for mark in marks)]
    (tmp_path / WORDPIECE).write_text("\n".join(tokens) + "\n", encoding="utf-8")
    own = VocabularyFile.with_cleaning(tmp_path / WORDPIECE, ours).tokenizer()
    other = transformers.BertTokenizer(str(tmp_path / WORDPIECE), **theirs)
    assert own.metadata()["strip_accents"] is theirs.get("do_lower_case", True)
    rng = np.random.default_rng(3)
    for _ in range(40):
        word = "".join(rng.choice(LETTERS, rng.integers(1, 6)))
        expected = other.convert_tokens_to_ids(other.tokenize(word))
        assert own.encode(word) == expected, word


@pytest.mark.parametrize(("theirs", "ours"), STATED)
def test_transformers_albert_cleans_text_by_the_same_rule(theirs, ours, tmp_path):
    model = train(tmp_path / SENTENCEPIECE)
    own = VocabularyFile.with_cleaning(model, ours).tokenizer()
    other = transformers.AlbertTokenizer(str(model), **theirs)
    assert own.metadata()["strip_accents"] is True
    assert other.keep_accents is False
    rng = np.random.default_rng(4)
    for _ in range(40):
        word = "".join(rng.choice(LETTERS, rng.integers(1, 6)))
        assert own.encode(word) == other.convert_tokens_to_ids(other.tokenize(word))


def test_the_kind_of_a_vocabulary_is_told_by_its_content_or_by_who_names_it(tmp_path):
    words = write_vocabulary(tmp_path).rename(tmp_path / "words")
    pieces = Path(train(tmp_path / "pieces.model")).rename(tmp_path / "pieces.txt")
    for path, is_wordpiece in ((words, True), (pieces, False)):
        found = VocabularyFile.with_cleaning(path, {})
        assert found.is_wordpiece is is_wordpiece
        named = VocabularyFile.with_cleaning(path, {}, is_wordpiece=is_wordpiece)
        assert found == named
        assert found.tokenizer().metadata() == named.tokenizer().metadata()
    with pytest.raises(ValueError, match=r"words is not a SentencePiece model"):
        VocabularyFile.with_cleaning(words, {}, is_wordpiece=False).tokenizer()
    with pytest.raises(ValueError, match=r"pieces\.txt"):
        VocabularyFile.with_cleaning(pieces, {}, is_wordpiece=True).tokenizer()
