"""The tokenizer against the original's numbers and other libraries."""

import json
import pickle
import subprocess
import sys
import unicodedata

import numpy as np
import pytest
from sentencepiece import SentencePieceProcessor

from albert_tf.text.tokenizer import AlbertTokenizer
from helpers.tokenization_cases import (
    CONTROL_SYMBOLS,
    WORD_INSIDES,
    WORD_STARTS,
    every_tokenizer,
    nasty_texts,
    train,
    write_wordpieces,
)


@pytest.fixture(scope="module")
def spm_model_file(tmp_path_factory) -> str:
    return train(tmp_path_factory.mktemp("vocabulary") / "small.model")


@pytest.fixture(scope="module")
def vocab_file(tmp_path_factory) -> str:
    return write_wordpieces(tmp_path_factory.mktemp("vocabulary") / "vocab.txt")


@pytest.fixture(scope="module")
def tokenizers(spm_model_file, vocab_file) -> list[AlbertTokenizer]:
    return every_tokenizer(spm_model_file, vocab_file)


@pytest.fixture(scope="module")
def tokenizer(spm_model_file) -> AlbertTokenizer:
    return AlbertTokenizer(spm_model_file)


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


def test_wordpiece_ids_equal_model_gardens(vocab_file):
    library = pytest.importorskip("official.nlp.tools.tokenization")
    original = library.FullTokenizer(vocab_file)
    tokenizer = AlbertTokenizer(vocab_file=vocab_file)
    texts = [*nasty_texts(1500, seed=2), "a" * 250, "[CLS] [unused1] <S> ##ing"]
    for text, ids in zip(texts, tokenizer.encode_batch(texts), strict=True):
        pieces = original.tokenize(text)
        assert ids == original.convert_tokens_to_ids(pieces), text
        assert tokenizer.tokenize(text) == pieces


def test_wordpiece_ids_equal_model_gardens_on_chinese_news(shared_data):
    library = pytest.importorskip("official.nlp.tools.tokenization")
    vocab_file = str(shared_data / "vocabulary" / "vocab_chinese.txt")
    original = library.FullTokenizer(vocab_file)
    lines = (shared_data / "text" / "zh_news.txt").read_text("utf-8").split("\n")
    batch = AlbertTokenizer(vocab_file=vocab_file).encode_batch(lines)
    assert batch == [
        original.convert_tokens_to_ids(original.tokenize(line)) for line in lines
    ]


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


def test_batch_equals_one_by_one_for_any_number_of_threads(tokenizer):
    texts = nasty_texts(300, seed=3)
    expected = [tokenizer.encode(text) for text in texts]
    assert tokenizer.encode_batch(texts) == expected
    assert tokenizer.encode_batch(texts, threads=2) == expected
    assert tokenizer.encode_batch([]) == []


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


def test_special_pieces_never_come_out_of_text(spm_model_file, vocab_file):
    text = "[CLS] [SEP][MASK] <pad> <unk> [PAD] [UNK]"
    for lower_case in (True, False):
        for files in ({"spm_model_file": spm_model_file}, {"vocab_file": vocab_file}):
            tokenizer = AlbertTokenizer(**files, lower_case=lower_case)
            special = {tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id}
            assert special.isdisjoint(tokenizer.encode(text))
            assert tokenizer.mask_id not in tokenizer.encode(text)
    # "[SEP]" is one unknown piece here that reads like the control symbol.
    cased = AlbertTokenizer(spm_model_file, lower_case=False)
    assert "[SEP]" in cased.tokenize("[SEP]")
    assert cased.encode("[SEP]")[-1] == cased.unk_id


def test_special_ids_are_those_of_the_vocabulary(tokenizer, vocab_file):
    def special(t):
        return [t.pad_id, t.unk_id, t.cls_id, t.sep_id, t.mask_id]

    assert special(tokenizer) == [0, 1, 2, 3, 4]
    assert special(AlbertTokenizer(vocab_file=vocab_file)) == [0, 2, 3, 4, 5]


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


def test_wordpiece_word_starts_are_pieces_without_hashes(vocab_file):
    tokenizer = AlbertTokenizer(vocab_file=vocab_file)
    ids = tokenizer.encode("doing 中文.")
    assert tokenizer.tokenize("doing 中文.") == ["d", "##o", "##ing", "中", "文", "."]
    assert tokenizer.word_start_table[ids].tolist() == [True, False, False] + [True] * 3


def test_ordinary_ids_leave_out_what_text_cannot_hold(spm_model_file, vocab_file):
    tokenizer = AlbertTokenizer(spm_model_file)
    assert tokenizer.ordinary_ids.tolist() == list(range(5, tokenizer.vocab_size))
    tokenizer = AlbertTokenizer(vocab_file=vocab_file)
    left_out = set(range(tokenizer.vocab_size)) - set(tokenizer.ordinary_ids.tolist())
    names = ["[PAD]", "[unused1]", "[UNK]", *CONTROL_SYMBOLS, "<S>"]
    assert {tokenizer.id_to_token(i) for i in left_out} == set(names)
    assert tokenizer.ordinary_ids.dtype == np.int32


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


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("cost ½ … at 5°C", "5°C"),
        ("cafe\u0301 au lait", "cafe\u0301"),
        ("  İn\tthe ﬁn, sea", "ﬁn"),
        ("한국어 in 1999, and", "1999"),
        (unicodedata.normalize("NFD", "한국어 rat"), "rat"),
        ("ﷺ\u200b rat\x07 sea", "rat"),
        ("Ｆｕｌｌ  rat…", "rat"),
        ("ก็ rat", "rat"),
    ],
)
@pytest.mark.parametrize("strip_accents", [True, False])
def test_offsets_find_an_answer_again(spm_model_file, text, answer, strip_accents):
    tokenizer = AlbertTokenizer(spm_model_file, strip_accents=strip_accents)
    begin = text.index(answer)
    stop = begin + len(answer)
    _, offsets = tokenizer.encode_with_offsets(text)
    inside = [(s, e) for s, e in offsets if s < e and e > begin and s < stop]
    assert text[inside[0][0] : inside[-1][1]] == answer


def assert_offsets_hold(tokenizer: AlbertTokenizer, text: str):
    ids, offsets = tokenizer.encode_with_offsets(text)
    pieces = tokenizer.tokenize(text)
    assert ids == tokenizer.encode(text)
    assert len(ids) == len(offsets) == len(pieces)
    filled = [(start, end) for start, end in offsets if start < end]
    for piece, (start, end) in zip(pieces, offsets, strict=True):
        assert 0 <= start <= end <= len(text)
        assert (start == end) == (not piece.strip("▁"))
        stretch = text[start:end]
        assert stretch == stretch.strip()
        if start < end:
            assert end == len(text) or not is_mark(text[end])
            before = text[start - 1 : start]
            assert not is_mark(text[start]) or not before or before.isspace()
        sharing = [(s, e) for s, e in filled if s < end and start < e]
        if len(sharing) == 1 and piece != "[UNK]":
            again = "".join(tokenizer.tokenize(stretch)).replace("▁", "")
            # How a sigma is lowered depends on what stands around the stretch.
            assert again.replace("ς", "σ") == plain(piece).replace("ς", "σ")


def is_mark(character: str) -> bool:
    return unicodedata.category(character).startswith("M")


def plain(piece: str) -> str:
    return piece.strip("▁").removeprefix("##")


def test_offsets_hold_on_nasty_texts(tokenizers):
    for tokenizer in tokenizers:
        is_sentencepiece = tokenizer.token_to_id("▁") != tokenizer.unk_id
        for text in nasty_texts(1200 if is_sentencepiece else 100, seed=4):
            assert_offsets_hold(tokenizer, text)


def test_answers_of_xquad_are_found_again(shared_data):
    expected = [
        ("xquad.en.json", {"spm_model_file": "30k-clean.model"}, 1189),
        ("xquad.de.json", {"spm_model_file": "xquad-16k.model"}, 1177),
        ("xquad.zh.json", {"spm_model_file": "xquad-16k.model"}, 1181),
        ("xquad.zh.json", {"vocab_file": "vocab_chinese.txt"}, 1190),
    ]
    for file, vocabulary, least in expected:
        (kind, name), *_ = vocabulary.items()
        tokenizer = AlbertTokenizer(**{kind: shared_data / "vocabulary" / name})
        articles = json.loads((shared_data / "squad" / file).read_text("utf-8"))["data"]
        found = total = 0
        for paragraph in (p for article in articles for p in article["paragraphs"]):
            text = paragraph["context"]
            _, offsets = tokenizer.encode_with_offsets(text)
            for question in paragraph["qas"]:
                begin = question["answers"][0]["answer_start"]
                stop = begin + len(question["answers"][0]["text"])
                hit = [(s, e) for s, e in offsets if s < e and e > begin and s < stop]
                found += (hit[0][0], hit[-1][1]) == (begin, stop)
                total += 1
        assert total == 1190
        assert found >= least, (file, name)


def test_broken_surrogates_count_as_a_replacement_character(tokenizer):
    assert tokenizer.normalize("a\ud83d b") == "a\ufffd b"
    ids, offsets = tokenizer.encode_with_offsets("rat\ud83d sea")
    assert ids == tokenizer.encode("rat\ufffd sea")
    assert offsets[-1][1] == len("rat\ud83d sea")


def test_decode_gives_the_normalized_text_back(tokenizer, vocab_file):
    text = "Rat in 2013, a13, (5% für"
    assert (
        tokenizer.decode(np.array(tokenizer.encode(text)))
        == "rat in 2013, a13, (5% fur"
    )
    wordpiece = AlbertTokenizer(vocab_file=vocab_file)
    assert wordpiece.decode(wordpiece.encode("Doing 中.")) == "doing 中 ."


def test_ids_outside_the_vocabulary_are_refused(tokenizer):
    for piece_id in (-1, tokenizer.vocab_size):
        with pytest.raises(ValueError, match=f"Received {piece_id}: "):
            tokenizer.id_to_token(piece_id)
    assert tokenizer.token_to_id("no such piece") == tokenizer.unk_id


def test_metadata_tells_vocabulary_and_settings_apart(tokenizers, spm_model_file):
    described = {json.dumps(t.metadata(), sort_keys=True) for t in tokenizers}
    assert len(described) == len(tokenizers) == 8
    metadata = AlbertTokenizer(spm_model_file).metadata()
    assert metadata == tokenizers[0].metadata()
    assert metadata["vocab_size"] == 420
    assert len(metadata["vocabulary_sha256"]) == 64


def test_pickled_tokenizer_works_without_its_file(tmp_path, vocab_file):
    path = tmp_path / "m"
    text = "İn 2013, für 中文ing"
    for tokenizer in (
        AlbertTokenizer(train(path), strip_accents=False),
        AlbertTokenizer(vocab_file=vocab_file),
    ):
        path.unlink(missing_ok=True)
        expected = tokenizer.tf_encode([text]).to_list()[0]
        copy = pickle.loads(pickle.dumps(tokenizer))
        assert copy.encode(text) == expected
        assert copy.encode_with_offsets(text) == tokenizer.encode_with_offsets(text)
        assert copy.metadata() == tokenizer.metadata()


def test_sentencepiece_face_does_not_load_tensorflow(spm_model_file):
    code = (
        "import sys; from albert_tf.text.tokenizer import AlbertTokenizer\n"
        f"AlbertTokenizer({spm_model_file!r}).encode_with_offsets('in 2013, für')\n"
        "sys.exit('tensorflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_exactly_one_vocabulary_is_asked_for(spm_model_file, vocab_file):
    for files in ({}, {"spm_model_file": spm_model_file, "vocab_file": vocab_file}):
        with pytest.raises(ValueError, match="exactly one of spm_model_file and"):
            AlbertTokenizer(**files)


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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[PAD]\n[UNK]\n[CLS]\n[MASK]\na", r"vocab\.txt has no line \[SEP\]"),
        ("<pad>\n<unk>\n[CLS]\n[SEP]\n[MASK]\n▁the\n▁of", r"\.model file"),
        ("<pad>\t0\n▁the\t-3.07\n", r"\.model file as spm_model_file"),
        ("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\na", "line 8: .*as on line 6"),
        ("[PAD]\n[UNK]\n\n[CLS]\n[SEP]\n[MASK]\na", "line 3: .*''"),
        ("", "empty"),
        (b"\xff\xfe\x00", "not UTF-8"),
    ],
)
def test_unfit_wordpiece_vocabulary_is_refused(tmp_path, content, message):
    path = tmp_path / "vocab.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=message) as error:
        AlbertTokenizer(vocab_file=path)
    assert "\n" not in str(error.value)


def test_missing_or_unfit_model_file_is_refused(tmp_path, vocab_file):
    with pytest.raises(FileNotFoundError, match=r"no vocabulary file .*none\.model"):
        AlbertTokenizer(tmp_path / "none.model")
    with pytest.raises(ValueError, match=r"vocab\.txt is not a SentencePiece model"):
        AlbertTokenizer(vocab_file)
    with pytest.raises(OSError):
        AlbertTokenizer(tmp_path)


def test_line_ends_and_byte_order_mark_do_not_change_a_vocabulary(tmp_path, vocab_file):
    expected = AlbertTokenizer(vocab_file=vocab_file)
    with open(vocab_file, encoding="utf-8") as file:
        windows = file.read().replace("\n", "\r\n")
    path = tmp_path / "vocab.txt"
    path.write_bytes(windows.encode("utf-8-sig"))
    tokenizer = AlbertTokenizer(vocab_file=path)
    assert tokenizer.vocab_size == expected.vocab_size
    assert tokenizer.encode("doing 中") == expected.encode("doing 中")
