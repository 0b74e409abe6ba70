"""The tokenizer's ids, offsets and tables hold for both kinds of vocabulary."""

import json
import pickle
import unicodedata

import numpy as np
import pytest

from albert_tf.text.tokenizer import AlbertTokenizer
from helpers.tokenization_cases import (
    CONTROL_SYMBOLS,
    nasty_texts,
    train,
)


def test_batch_equals_one_by_one_for_any_number_of_threads(tokenizer):
    texts = nasty_texts(300, seed=3)
    expected = [tokenizer.encode(text) for text in texts]
    assert tokenizer.encode_batch(texts) == expected
    assert tokenizer.encode_batch(texts, threads=2) == expected
    assert tokenizer.encode_batch([]) == []


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


def test_ordinary_ids_leave_out_what_text_cannot_hold(spm_model_file, vocab_file):
    tokenizer = AlbertTokenizer(spm_model_file)
    assert tokenizer.ordinary_ids.tolist() == list(range(5, tokenizer.vocab_size))
    tokenizer = AlbertTokenizer(vocab_file=vocab_file)
    left_out = set(range(tokenizer.vocab_size)) - set(tokenizer.ordinary_ids.tolist())
    names = ["[PAD]", "[unused1]", "[UNK]", *CONTROL_SYMBOLS, "<S>"]
    assert {tokenizer.id_to_token(i) for i in left_out} == set(names)
    assert tokenizer.ordinary_ids.dtype == np.int32


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


SILENT = [
    # Greek and Latin signs that stand for themselves and are cleaned to a space.
    ("ο Λουδοβίκος ΙΔ΄ και", "ΙΔ΄"),
    ("ΙΔ΄", "ΙΔ΄"),
    ("(ΙΔ΄)", "ΙΔ΄"),
    ("το ᾿Ρίον", "᾿Ρίον"),
    ("rat´¨ sea", "rat´¨"),
    ("rat΄\u0301\u0308΄, sea", "rat΄\u0301\u0308΄"),
    # At the beginning of a word they belong to it, else to the token before them.
    ("\u0301rat sea", "\u0301rat"),
    ("rat΄sea", "sea"),
    ("΄΄rat", "΄΄rat"),
    # On their own they belong to nothing, and what is invisible never does.
    ("rat ΄ sea", "rat"),
    ("rat ΄ sea", "sea"),
    ("\u202brat\u202c\u200b sea", "rat"),
]


def test_an_answer_comes_back_with_signs_that_cleaning_drops(tokenizer):
    texts = [text for text, _ in SILENT]
    graph = tokenizer.graph_tokenizer().encode_with_offsets(texts)
    starts, ends = (each.to_list() for each in graph[1:])
    for place, (text, answer) in enumerate(SILENT):
        _, offsets = tokenizer.encode_with_offsets(text)
        begin = text.index(answer)
        stop = begin + len(answer)
        inside = [(s, e) for s, e in offsets if s < e and e > begin and s < stop]
        assert text[inside[0][0] : inside[-1][1]] == answer
        assert list(zip(starts[place], ends[place], strict=True)) == offsets


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


def test_exactly_one_vocabulary_is_asked_for(spm_model_file, vocab_file):
    for files in ({}, {"spm_model_file": spm_model_file, "vocab_file": vocab_file}):
        with pytest.raises(ValueError, match="exactly one of spm_model_file and"):
            AlbertTokenizer(**files)


def test_missing_or_unfit_model_file_is_refused(tmp_path, vocab_file):
    with pytest.raises(FileNotFoundError, match=r"no vocabulary file .*none\.model"):
        AlbertTokenizer(tmp_path / "none.model")
    with pytest.raises(ValueError, match=r"vocab\.txt is not a SentencePiece model"):
        AlbertTokenizer(vocab_file)
    with pytest.raises(OSError):
        AlbertTokenizer(tmp_path)
