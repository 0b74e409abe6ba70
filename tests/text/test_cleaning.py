"""Text is cleaned as the original ALBERT and BERT clean it."""

import unicodedata

from albert_tf.text.tokenizer import AlbertTokenizer


def test_lower_casing_is_part_of_encoding(spm_model_file):
    uncased = AlbertTokenizer(spm_model_file)
    cased = AlbertTokenizer(spm_model_file, lower_case=False)
    assert uncased.encode("THE Sea") == uncased.encode("the sea")
    assert cased.unk_id in cased.encode("THE Sea")
    assert uncased.normalize("ΟΔΟΣ ΣΑΣ.") == "οδος σας."


def test_white_space_is_one_space_whatever_it_was(tokenizer):
    text = "\u3000 rat\t\u2028the\n\x1c sea \u00b4 do\u00a0 "
    assert tokenizer.normalize(text) == "rat the sea do"


def test_accents_go_or_stay_by_choice(spm_model_file):
    keeping = AlbertTokenizer(spm_model_file, strip_accents=False)
    dropping = AlbertTokenizer(spm_model_file)
    assert dropping.normalize("Schön für が") == "schon fur か"
    assert keeping.normalize("Schön für が ﬁ½") == "schön für が fi1⁄2"
    decomposed = unicodedata.normalize("NFD", "die größe für")
    assert keeping.encode(decomposed) == keeping.encode("die größe für")
    marks = "e\u0301 q\u0308 か\u3099 n\u0323"
    assert keeping.normalize(marks) == marks


def test_wordpiece_accents_go_or_stay_by_choice(vocab_file):
    keeping = AlbertTokenizer(vocab_file=vocab_file, strip_accents=False)
    dropping = AlbertTokenizer(vocab_file=vocab_file)
    assert dropping.tokenize("Ée") == ["e", "##e"]
    assert keeping.tokenize("Ée") == ["[UNK]"]
    assert keeping.normalize("Ée が\u00ad") == "ée が"


def test_broken_surrogates_count_as_a_replacement_character(tokenizer):
    assert tokenizer.normalize("a\ud83d b") == "a\ufffd b"
    ids, offsets = tokenizer.encode_with_offsets("rat\ud83d sea")
    assert ids == tokenizer.encode("rat\ufffd sea")
    assert offsets[-1][1] == len("rat\ud83d sea")
