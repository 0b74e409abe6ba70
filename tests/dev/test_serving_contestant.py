"""A form of a model is given the requests that it reads, and no others."""

import numpy as np
import pytest

from albert_tf.text.tokenizer import AlbertTokenizer
from dev.serving_contestant import Contestant, reads_texts
from helpers.fine_tuning_toys import write_vocabulary


def batch(rows, length):
    names = ("input_ids", "input_mask", "segment_ids")
    return {name: np.ones([rows, length], np.int32) for name in names}


def answer(asked):
    return asked["input_mask"].sum(axis=1, keepdims=True)


def test_a_form_of_fixed_lengths_reads_one_row_of_them():
    form = Contestant("Lite", "int8", answer, lengths=(5, 9))
    assert form.name == "Lite, int8"
    assert form.request(batch(1, 5))() == [[5]] and form.request(batch(1, 9))() == [[9]]
    for other in (batch(1, 7), batch(2, 5), ["a text"]):
        assert form.request(other) is None


def test_a_form_without_limits_reads_batches_and_texts(tmp_path):
    tokenizer = AlbertTokenizer(vocab_file=write_vocabulary(tmp_path))
    form = reads_texts("Other", "", answer, tokenizer)
    assert form.name == "Other"
    assert form.request(batch(2, 7))().tolist() == [[7], [7]]
    texts = ["worda", "wordb wordc lovely"]
    assert form.request(texts)().tolist() == [[3], [5]]


@pytest.mark.parametrize("lengths", [None, (3,)])
def test_texts_are_read_by_forms_that_have_a_way_to(lengths):
    form = Contestant("Own", "", answer, lambda texts: len(texts), lengths)
    assert form.request(["a", "b"])() == 2
