"""SentencePiece splits as the original does, with the digit-comma rule."""

import json
import subprocess
import sys

import numpy as np
import pytest
from sentencepiece import SentencePieceProcessor

from albert_tf.text.tokenizer import AlbertTokenizer
from helpers.tokenization_cases import (
    WORD_INSIDES,
    WORD_STARTS,
    nasty_texts,
    train,
)


def test_equals_the_original_on_all_reference_texts(shared_data, reference):
    model = shared_data / "vocabulary" / "30k-clean.model"
    tokenizers = {
        case: AlbertTokenizer(model, lower_case=case) for case in (True, False)
    }
    cases = json.loads((reference / "tokenization.json").read_text("utf-8"))
    assert len(cases) == 62
    for case in cases:
        tokenizer, text = tokenizers[case["lower_case"]], case["text"]
        assert tokenizer.normalize(text) == case["normalized"]
        assert tokenizer.tokenize(text) == case["pieces"]
        assert tokenizer.encode(text) == case["ids"]
        assert tokenizer.encode_with_offsets(text)[0] == case["ids"]
        assert tokenizer.tf_encode([text]).to_list() == [case["ids"]]


def test_ids_equal_model_gardens_on_nasty_texts(spm_model_file):
    library = pytest.importorskip("official.nlp.tools.tokenization")
    processor = SentencePieceProcessor(model_file=spm_model_file)
    for lower_case in (True, False):
        tokenizer = AlbertTokenizer(spm_model_file, lower_case=lower_case)
        for text in nasty_texts(1500, seed=1):
            cleaned = library.preprocess_text(text, lower=lower_case)
            assert tokenizer.encode(text) == library.encode_ids(processor, cleaned)


def test_number_and_comma_are_pieces_of_their_own(tokenizer):
    vocabulary = [tokenizer.id_to_token(i) for i in range(tokenizer.vocab_size)]
    affected = [p for p in vocabulary if p[-1] == "," and p[-2:-1].isdigit()]
    assert any(piece.startswith("▁") for piece in affected)
    assert any(not piece.startswith("▁") for piece in affected)
    for piece in affected:
        text = f"a{piece}" if piece[0] != "▁" else piece[1:]
        pieces = tokenizer.tokenize(text)
        assert pieces[-1] == "," and "".join(pieces) == f"▁{text}"
        assert [tokenizer.token_to_id(p) for p in pieces] == tokenizer.encode(text)


def test_one_digit_comma_text_splits_as_in_later_ports(shared_data):
    tokenizer = AlbertTokenizer(shared_data / "vocabulary" / "30k-clean.model")
    assert " ".join(tokenizer.tokenize("(2013, 2013,")) == "▁ ( 2013 , ▁2013 ,"


def test_word_starts_do_not_depend_on_english(tokenizer):
    for piece, starts in (WORD_STARTS | WORD_INSIDES).items():
        piece_id = tokenizer.token_to_id(piece)
        assert tokenizer.id_to_token(piece_id) == piece
        assert tokenizer.starts_word(piece_id) is starts, piece
    for i in range(tokenizer.vocab_size):
        if tokenizer.id_to_token(i).startswith("▁"):
            assert tokenizer.word_start_table[i]
    assert tokenizer.word_start_table.dtype == np.bool_
    for letter in "etaoin":
        assert not tokenizer.starts_word(tokenizer.token_to_id(letter))


def test_byte_pieces_are_neither_ordinary_nor_word_starts(tmp_path):
    model = train(tmp_path / "m", byte_fallback=True, vocab_size=660)
    tokenizer = AlbertTokenizer(model)
    byte_ids = [tokenizer.token_to_id(f"<0x{byte:02X}>") for byte in range(256)]
    assert tokenizer.unk_id not in byte_ids
    assert not np.isin(byte_ids, tokenizer.ordinary_ids).any()
    assert not tokenizer.word_start_table[byte_ids].any()
    text = "rat 😀 a13,"
    ids, offsets = tokenizer.encode_with_offsets(text)
    assert ids == tokenizer.encode(text)
    assert [text[slice(*o)] for o in offsets if o[0] < 5 <= o[1]] == ["😀"] * 4
    assert [text[slice(*o)] for o in offsets[-3:]] == ["1", "3", ","]


def test_sentencepiece_face_does_not_load_tensorflow(spm_model_file):
    code = (
        "import sys; from albert_tf.text.tokenizer import AlbertTokenizer\n"
        f"AlbertTokenizer({spm_model_file!r}).encode_with_offsets('in 2013, für')\n"
        "sys.exit('tensorflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"control_symbols": ["[CLS]", "[SEP]"]}, r"\[MASK\]"),
        ({"control_symbols": ["[SEP]", "[MASK]"]}, r"\[CLS\]"),
        ({"pad_id": -1}, "padding"),
        (
            {
                "control_symbols": ["[CLS]", "[SEP]"],
                "user_defined_symbols": [*WORD_STARTS, "[MASK]"],
            },
            r"\[MASK\]",
        ),
    ],
)
def test_model_without_a_special_piece_is_refused(tmp_path, changes, missing):
    path = train(tmp_path / "flawed.model", **changes)
    with pytest.raises(
        ValueError, match=rf"flawed\.model .*{missing}.*: train"
    ) as error:
        AlbertTokenizer(path)
    assert "\n" not in str(error.value)
