"""Words of Chinese for whole-word masking: data_prep/segmenter.py, and rows by it."""

import sys

import numpy as np
import pytest

from albert_tf.records.reader import read_rows
from albert_tf.records.sidecar import read_metadata
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.corpus.segmenter import SegmentingTokenizer, make_segmenting
from data_prep.corpus.tokenize import TextConfig
from data_prep.pretraining.config import PretrainingDataConfig
from data_prep.pretraining.job import PretrainingDataJob, make_pretraining_data
from data_prep.pretraining.output_files import expand_outputs

NEWS_LINES = 40


@pytest.fixture(scope="module")
def vocabulary(shared_data):
    return shared_data / "vocabulary"


@pytest.fixture(scope="module")
def tokenizer(vocabulary):
    pytest.importorskip("jieba")
    return AlbertTokenizer(vocab_file=vocabulary / "vocab_chinese.txt")


@pytest.fixture(scope="module")
def news(shared_data):
    text = (shared_data / "text" / "zh_news.txt").read_text("utf-8")
    return text.split("\n")[:NEWS_LINES]


def words_of(tokenizer, text):
    """The words of a text, as the marks of its pieces have them."""
    [ids] = SegmentingTokenizer(tokenizer).encode_batch([text])
    table = SegmentingTokenizer(tokenizer).word_start_table
    words = []
    for i in ids:
        piece = tokenizer.id_to_token(i % tokenizer.vocab_size).removeprefix("##")
        if table[i]:
            words.append(piece)
        else:
            words[-1] += piece
    return words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("南京市长江大桥。", ["南京市", "长江大桥", "。"]),
        ("我们在 Tokenization 里，", ["我们", "在", "tokenization", "里", "，"]),
        ("他穿T恤", ["他", "穿", "t恤"]),
        ("  中国\u3000人民 ", ["中国", "人民"]),
        ("no Chinese", ["no", "chinese"]),
        ("", []),
    ],
)
def test_words_are_the_segmenters(tokenizer, text, words):
    assert words_of(tokenizer, text) == words


def test_pieces_stay_as_they_are_for_both_kinds_of_vocabulary(
    tokenizer, vocabulary, news
):
    for plain in (tokenizer, AlbertTokenizer(vocabulary / "xquad-16k.model")):
        encoded = SegmentingTokenizer(plain).encode_batch(news)
        size = plain.vocab_size
        assert [[i % size for i in ids] for ids in encoded] == plain.encode_batch(news)
        marked = sum(i >= size for ids in encoded for i in ids)
        assert 0.2 < marked / sum(map(len, encoded)) < 0.6


def make(tokenizer, news, folder, segmenter):
    path = folder / "news.txt"
    if not path.exists():
        path.write_text("\n".join(news), encoding="utf-8")
    job = PretrainingDataJob(
        input_paths=[str(path)],
        text_config=TextConfig("lines", language="zh", chinese_segmenter=segmenter),
        tokenizer=tokenizer,
        config=PretrainingDataConfig(max_seq_length=64, dupe_factor=2),
        outputs=expand_outputs(f"{folder}/rows", ""),
        num_workers=1,
    )
    make_pretraining_data(job)
    return folder / "rows"


def test_rows_mask_whole_words_of_several_characters(tokenizer, news, tmp_path):
    (tmp_path / "none").mkdir()
    path = make(tokenizer, news, tmp_path, "jieba")
    by_character = make(tokenizer, news, tmp_path / "none", "none")
    assert read_metadata(path)["chinese_segmenter"] == "jieba"
    assert read_metadata(by_character)["chinese_segmenter"] == "none"
    longest = {}
    for name, file in (("jieba", path), ("none", by_character)):
        masked_words = []
        for row in read_rows(file):
            assert row["input_ids"].max() < tokenizer.vocab_size
            masked = np.zeros(64, bool)
            count = int(row["masked_lm_weights"].sum())
            masked[row["masked_lm_positions"][:count]] = True
            real = int(row["input_mask"].sum())
            starts = np.flatnonzero(row["token_boundary"][:real])
            for word in np.split(masked[:real], starts[1:]):
                assert word.all() or not word.any()
                if word.all():
                    masked_words.append(len(word))
        longest[name] = np.mean(np.array(masked_words) > 1)
    assert longest["jieba"] > 0.3 > 0.1 > longest["none"]


def test_files_made_with_another_segmenter_are_refused(tokenizer, news, tmp_path):
    make(tokenizer, news, tmp_path, "jieba")
    with pytest.raises(ValueError, match="chinese_segmenter"):
        make(tokenizer, news, tmp_path, "none")


def test_without_a_segmenter_the_tokenizer_is_used_as_it_is(tokenizer):
    assert make_segmenting(tokenizer, "none") is tokenizer


def test_a_missing_library_and_an_unknown_name_are_one_line(tokenizer, monkeypatch):
    monkeypatch.setitem(sys.modules, "jieba", None)
    with pytest.raises(ValueError, match=r"jieba: pip install .*\[jieba\]"):
        make_segmenting(tokenizer, "jieba")
    with pytest.raises(ValueError, match=r"one of none, jieba\. Received 'pkuseg'"):
        TextConfig(chinese_segmenter="pkuseg")
