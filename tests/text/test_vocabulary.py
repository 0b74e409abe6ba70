"""Both kinds of vocabulary have the members that the tokenizer uses."""

from pathlib import Path

import pytest

from albert_tf.text.sentencepiece import SentencePieceVocabulary
from albert_tf.text.vocabulary import Vocabulary
from albert_tf.text.wordpiece import WordPieceVocabulary


@pytest.mark.parametrize(
    ("fixture", "kind"),
    [
        ("spm_model_file", SentencePieceVocabulary),
        ("vocab_file", WordPieceVocabulary),
    ],
)
def test_both_kinds_are_vocabularies(fixture, kind, request):
    path = Path(request.getfixturevalue(fixture))
    vocabulary = kind(path, path.read_bytes())
    assert isinstance(vocabulary, Vocabulary)
    size = len(vocabulary.tokens)
    assert vocabulary.word_start_table.shape == (size,)
    assert len(vocabulary.special_ids) == 5
    assert vocabulary.split_tokens.keys() == vocabulary.expansions.keys()
    for token_id, tokens in vocabulary.split_tokens.items():
        ids = vocabulary.expansions[token_id]
        assert [vocabulary.tokens[i] for i in ids] == tokens
