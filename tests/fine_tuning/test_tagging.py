"""Rows of sentences with tags: each word is tagged once, whatever the windows are."""

import numpy as np
import pytest

from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.fine_tuning.tagged_sentences import Sentence
from data_prep.fine_tuning.tagging import row_warnings, tagging_rows
from helpers.fine_tuning_toys import write_vocabulary
from helpers.tagged_toys import LABELS, sentences
from helpers.tokenization_cases import train


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vocabulary")
    return AlbertTokenizer(vocab_file=write_vocabulary(folder))


def of(pairs):
    return [Sentence(words, tags, 1) for words, tags in pairs]


def rows_of(pairs, tokenizer, length=64, stride=16):
    statistics = {}
    rows = tagging_rows(of(pairs), LABELS, tokenizer, length, stride, statistics)
    return list(rows), statistics


def test_the_first_token_of_a_word_carries_its_tag(tmp_path):
    tokenizer = AlbertTokenizer(train(tmp_path / "small.model"))
    words, tags = ["the", "unbelievable", "rat"], ["O", "B-bad", "I-bad"]
    [row], _ = rows_of([(words, tags)], tokenizer)
    pieces = [tokenizer.encode(word) for word in words]
    assert len(pieces[1]) > 1
    flat = [piece for ids in pieces for piece in ids]
    assert row["input_ids"] == [tokenizer.cls_id, *flat, tokenizer.sep_id]
    expected = [0]
    for ids, tag in zip(pieces, tags, strict=True):
        expected += [1 + LABELS.index(tag), *[0] * (len(ids) - 1)]
    assert row["tag_ids"] == [*expected, 0] and row["sentence"] == 0
    assert row["segment_ids"] == [0] * len(row["input_ids"])


@pytest.mark.parametrize(("length", "stride"), [(3, 1), (7, 2), (9, 40), (12, 5)])
def test_each_word_is_tagged_once_with_most_context(tokenizer, length, stride):
    pairs = sentences(30, 1, longest=40)
    rows, statistics = rows_of(pairs, tokenizer, length, stride)
    assert max(len(row["input_ids"]) for row in rows) == length
    found = {}
    for row in rows:
        ids, tags = row["input_ids"], row["tag_ids"]
        assert len(ids) == len(tags) == len(row["segment_ids"]) and any(tags)
        assert (ids[0], ids[-1]) == (tokenizer.cls_id, tokenizer.sep_id)
        words = zip(ids, tags, strict=True)
        found.setdefault(row["sentence"], []).extend(p for p in words if p[1])
    assert list(found) == list(range(30))
    for number, (words, tags) in enumerate(pairs):
        ids = tokenizer.encode(" ".join(words))
        labels = [1 + LABELS.index(tag) for tag in tags]
        assert found[number] == list(zip(ids, labels, strict=True))
    longer = sum(len(words) > length - 2 for words, _ in pairs)
    assert statistics["long_sentences"] == longer > 0


def test_a_word_away_from_borders_is_tagged_with_words_on_both_sides(tokenizer):
    pairs = [(["worda"] * 50, ["O"] * 50)]
    rows, _ = rows_of(pairs, tokenizer, 22, 10)
    for row in rows[1:-1]:
        tagged = np.flatnonzero(row["tag_ids"])
        # Half of what two neighbors share is on either side.
        assert tagged.min() >= 5 and tagged.max() <= 20 - 4


def test_what_has_no_tag_is_to_be_predicted(tokenizer):
    [row], _ = rows_of([(["worda", "lovely"], None)], tokenizer)
    assert row["tag_ids"] == [0, 1, 1, 0]


def test_unseen_tags_words_without_token_and_empty_sentences_are_counted(tokenizer):
    pairs = [
        ([], []),
        (["worda", "\x07", "x"], ["B-ugly", "I-ugly", "B-good"]),
        (["wordb"], ["NN"]),
    ]
    rows, statistics = rows_of(pairs, tokenizer)
    assert [row["sentence"] for row in rows] == [1, 2]
    assert rows[0]["tag_ids"] == [0, 6, 7, 4, 0] and rows[1]["tag_ids"] == [0, 6, 0]
    assert rows[0]["input_ids"][2:4] == [tokenizer.unk_id] * 2
    assert statistics["words_without_token"] == 1 and statistics["unknown_pieces"] == 1
    assert statistics["unseen_tags"] == {"B-ugly": 1, "I-ugly": 1, "NN": 1}
    unseen, empty = row_warnings("dev", statistics)
    assert unseen.startswith(
        "3 words of dev have tags that the model does not know (NN,"
    )
    assert empty.startswith("1 words of dev have no token")
    assert row_warnings("dev", {}) == []


@pytest.mark.parametrize(("length", "stride"), [(2, 1), (3, 0)])
def test_lengths_without_room_are_refused(tokenizer, length, stride):
    with pytest.raises(ValueError, match=f"Received {length} and {stride}"):
        rows_of([(["worda"], ["O"])], tokenizer, length, stride)
