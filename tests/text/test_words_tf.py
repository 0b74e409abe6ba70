"""The split into words in a graph is that of Python."""

import numpy as np
import tensorflow as tf
from text.test_words import CASES

from albert_tf.text.words import split_words
from albert_tf.text.words_tf import split_words as split_in_graph

CHARACTERS = [*"ab Z9.,-$\t\u00a0\u3000\n", *"é\u0301北京😀“”‘\u200b\x07\u0600İ"]


def assert_equal(texts):
    found = tf.function(split_in_graph)(tf.constant(texts, tf.string))
    starts, ends = found.starts.to_list(), found.ends.to_list()
    expected = [split_words(text) for text in texts]
    assert [
        list(zip(s, e, strict=True)) for s, e in zip(starts, ends, strict=True)
    ] == expected
    words = [
        text[start:end]
        for text, ranges in zip(texts, expected, strict=True)
        for start, end in ranges
    ]
    assert [word.decode() for word in found.texts.numpy()] == words


def test_words_and_places_are_those_of_python():
    rng = np.random.default_rng(1)
    random = ["".join(rng.choice(CHARACTERS, rng.integers(0, 30))) for _ in range(300)]
    assert_equal(["", *CASES, *random, " "])
    assert_equal([""])
    assert_equal([])


def test_an_invalid_byte_is_one_character():
    found = split_in_graph(tf.constant([b"a\xff\xfe b", b"ok"]))
    assert found.starts.to_list() == [[0, 4], [0]]
    assert found.ends.to_list() == [[3, 5], [2]]
