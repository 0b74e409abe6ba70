"""A model's folder tells what it holds, and how text is cleaned for it."""

import json

import pytest

from albert_tf.checkpoints import model_dir
from albert_tf.checkpoints.model_dir import ModelDir, VocabularyFile
from albert_tf.serving import export
from helpers.fine_tuning_toys import write_vocabulary
from helpers.tiny_weights import convert, random_model, write_model
from helpers.tokenization_cases import train

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


def cased_folder(tmp_path, kind):
    """A cased model of transformers' files, which say nothing of accents."""
    folder = tmp_path / "cased"
    folder.mkdir()
    if kind == WORDPIECE:
        write_vocabulary(folder)
    else:
        train(folder / SENTENCEPIECE)
    settings = {"do_lower_case": False}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    size = ModelDirOf(folder).vocab_size
    config, weights = random_model(vocab_size=size)
    return write_model(folder, weights, config)


def ModelDirOf(folder):
    return model_dir.read_vocabulary(folder).tokenizer()


@pytest.mark.parametrize(
    ("kind", "accents"), [(WORDPIECE, False), (SENTENCEPIECE, True)]
)
def test_a_folder_that_does_not_state_accents_is_read_alike(kind, accents, tmp_path):
    folder = cased_folder(tmp_path, kind)
    model = ModelDir.read(folder)
    expected = model.tokenizer().metadata()
    assert (expected["lower_case"], expected["strip_accents"]) == (False, accents)
    assert export.from_folder(model).tokenizer.metadata() == expected
    convert(folder, tmp_path / "own", "own")
    assert model_dir.read_metadata(tmp_path / "own") == expected
