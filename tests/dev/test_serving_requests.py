"""Requests have the numbers of tokens that they are meant to have."""

import numpy as np
import pytest

from albert_tf.text.tokenizer import AlbertTokenizer
from dev import serving_requests
from helpers.fine_tuning_toys import write_vocabulary


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    """Every word is one token, [UNK]."""
    return AlbertTokenizer(vocab_file=write_vocabulary(tmp_path_factory.mktemp("v")))


def lengths(tokenizer, texts):
    return [len(tokenizer.encode(text)) + 2 for text in texts]


def test_texts_have_4_to_120_tokens(tokenizer):
    rng = np.random.default_rng(7)
    even = lengths(tokenizer, serving_requests.even_texts(tokenizer, 30, rng))
    assert even == [4 * place for place in range(1, 31)]
    mixed = lengths(tokenizer, serving_requests.mixed_texts(tokenizer, rng))
    assert len(mixed) == 16 and min(mixed) == 4 and max(mixed) == 120


def test_texts_fit_if_words_have_several_tokens(shared_data):
    path = shared_data / "vocabulary" / "30k-clean.model"
    tokenizer = AlbertTokenizer(path)
    rng = np.random.default_rng(7)
    texts = [serving_requests.text_of(tokenizer, n, rng) for n in range(4, 90)]
    assert lengths(tokenizer, texts) == list(range(4, 90))


def test_rows_of_ids_are_random_and_full(tokenizer):
    rng = np.random.default_rng(7)
    batch = serving_requests.random_ids(tokenizer, 3, 11, rng)
    ids = batch["input_ids"]
    assert ids.shape == (3, 11) and ids.dtype == np.int32
    assert (batch["input_mask"] == 1).all() and (batch["segment_ids"] == 0).all()
    assert (ids[:, 0] == tokenizer.cls_id).all()
    assert (ids[:, -1] == tokenizer.sep_id).all()
    assert np.isin(ids[:, 1:-1], tokenizer.ordinary_ids).all()
    assert len({*map(tuple, ids)}) == 3


def test_rows_of_texts_are_padded_to_the_longest(tokenizer):
    texts = ["worda wordb lovely", "wordc", "awful wordd"]
    batch = serving_requests.pack(tokenizer, texts)
    cls, sep, pad = tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id
    own = [tokenizer.encode(text) for text in texts]
    assert batch["input_ids"].tolist() == [
        [cls, *own[0], sep],
        [cls, *own[1], sep, pad, pad],
        [cls, *own[2], sep, pad],
    ]
    assert batch["input_mask"].tolist() == [[1] * 5, [1, 1, 1, 0, 0], [1, 1, 1, 1, 0]]
    assert not batch["segment_ids"].any()
