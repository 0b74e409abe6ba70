"""WordPiece splits as BERT does, and its vocabularies are checked."""

import numpy as np
import pytest

from albert_tf.text.tokenizer import AlbertTokenizer
from helpers.tokenization_cases import (
    nasty_texts,
)


def test_wordpiece_ids_equal_model_gardens(vocab_file):
    library = pytest.importorskip("official.nlp.tools.tokenization")
    original = library.FullTokenizer(vocab_file)
    original.wordpiece_tokenizer.max_input_chars_per_word = 200  # ALBERT's own
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


# A letter of one, two, three and four bytes in UTF-8, and an unknown one.
LETTERS = "aжक𐐨q"


def words_about_the_limit(count: int, seed: int) -> list[str]:
    """Texts of a few words of 195 to 205 characters, or 790 to 1,700."""
    rng = np.random.default_rng(seed)
    texts = []
    for _ in range(count):
        words = []
        for _ in range(rng.integers(1, 4)):
            length = (
                rng.integers(195, 206) if rng.integers(4) else rng.integers(790, 1700)
            )
            kinds = rng.integers(0, 4, rng.integers(1, 4))
            letters = [LETTERS[k] for k in rng.choice(kinds, length)]
            if not rng.integers(5):
                letters[rng.integers(length)] = LETTERS[4]
            words.append("".join(letters))
        texts.append("".join(f"{w}{rng.choice([' ', '. ', '中'])}" for w in words))
    return texts


def test_a_word_above_200_characters_is_unknown_in_every_script(tmp_path):
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "中", "aa", "##жж"]
    tokens += [f"{mark}{letter}" for letter in LETTERS[:4] for mark in ("", "##")]
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(tokens), encoding="utf-8")
    tokenizer = AlbertTokenizer(vocab_file=path)
    library = pytest.importorskip("official.nlp.tools.tokenization")
    original = library.FullTokenizer(str(path))
    original.wordpiece_tokenizer.max_input_chars_per_word = 200
    texts = words_about_the_limit(40, seed=5)
    encoded = tokenizer.encode_batch(texts)
    found = set()
    for text, ids in zip(texts, encoded, strict=True):
        assert ids == original.convert_tokens_to_ids(original.tokenize(text))
        for word in text.replace("中", " ").replace(".", " ").split():
            unknown = tokenizer.encode(word) == [tokenizer.unk_id]
            assert unknown == (len(word) > 200 or LETTERS[4] in word)
            found.add((len(word.encode()) // len(word), unknown))
    assert len(found) == 8
    graph = tokenizer.graph_tokenizer()
    assert graph(texts).to_list() == encoded
    rows = zip(
        *(each.to_list() for each in graph.encode_with_offsets(texts)), strict=True
    )
    for text, (ids, starts, ends) in zip(texts, rows, strict=True):
        offsets = list(zip(starts, ends, strict=True))
        assert (ids, offsets) == tokenizer.encode_with_offsets(text)
        spelled = "".join(text[start:end] for start, end in offsets)
        assert spelled == text.replace(" ", "")


def test_wordpiece_word_starts_are_pieces_without_hashes(vocab_file):
    tokenizer = AlbertTokenizer(vocab_file=vocab_file)
    ids = tokenizer.encode("doing 中文.")
    assert tokenizer.tokenize("doing 中文.") == ["d", "##o", "##ing", "中", "文", "."]
    assert tokenizer.word_start_table[ids].tolist() == [True, False, False] + [True] * 3


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


def test_line_ends_and_byte_order_mark_do_not_change_a_vocabulary(tmp_path, vocab_file):
    expected = AlbertTokenizer(vocab_file=vocab_file)
    with open(vocab_file, encoding="utf-8") as file:
        windows = file.read().replace("\n", "\r\n")
    path = tmp_path / "vocab.txt"
    path.write_bytes(windows.encode("utf-8-sig"))
    tokenizer = AlbertTokenizer(vocab_file=path)
    assert tokenizer.vocab_size == expected.vocab_size
    assert tokenizer.encode("doing 中") == expected.encode("doing 中")
