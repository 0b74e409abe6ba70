"""Tokenized text keeps its sentences and documents, whole and in blocks."""

import itertools

import numpy as np
import pytest
from letters import (
    TOKENIZER,
    make_documents,
    tokenize,
)

from data_prep.statistics import Statistics


@pytest.fixture(scope="module")
def documents():
    return make_documents(700, np.random.default_rng(1))


def test_tokenized_text_keeps_sentences_and_documents(documents):
    statistics = Statistics()
    text = tokenize(documents, statistics=statistics)
    sentences = [
        TOKENIZER.decode(text.ids[begin:end])
        for begin, end in itertools.pairwise(text.sentence_offsets)
    ]
    assert sentences == [TOKENIZER.words(s) for s in itertools.chain(*documents)]
    counts = [len(document) for document in documents]
    assert np.diff(text.document_offsets).tolist() == counts
    assert statistics.documents == len(documents)
    assert statistics.sentences == sum(counts)
    assert statistics.pieces == sum(map(len, sentences))


def test_unknown_pieces_and_sentences_without_pieces_are_counted():
    statistics = Statistics()
    text = tokenize([["ab ?", ""], ["", ""], ["?c d"]], statistics=statistics)
    assert statistics.unknown_pieces == 2
    assert statistics.skipped == {"sentences without a piece": 3}
    assert (statistics.documents, statistics.sentences) == (2, 2)
    assert text.document_offsets.tolist() == [0, 1, 2]


def test_text_without_any_piece_is_an_error():
    with pytest.raises(ValueError, match="no text"):
        tokenize([["", ""]])


def test_long_sentences_are_cut_before_the_word_that_does_not_fit():
    statistics = Statistics()
    text = tokenize([["aaaa bbb cccc dd", "e f"], ["x" * 20]], 8, statistics)
    assert np.diff(text.sentence_offsets).tolist() == [7, 6, 2, 8, 8, 4]
    assert text.document_offsets.tolist() == [0, 3, 6]
    assert TOKENIZER.decode(text.ids) == "AaaaBbbCcccDdEFX" + "x" * 19
    assert statistics.skipped == {"long sentences, cut": 2}
    assert statistics.sentences == 3


def test_blocks_hold_whole_documents_unless_one_is_longer_than_a_block(documents):
    long = make_documents(1, np.random.default_rng(3), sentences=(300, 301))
    text = tokenize([*documents[:150], *long, *documents[150:]])
    blocks = text.cut(700)
    bounds = [first for first, _ in blocks] + [blocks[-1][1]]
    assert bounds[0] == 0 and bounds[-1] == len(text.sentence_offsets) - 1
    assert [end for _, end in blocks] == bounds[1:]
    pieces = np.diff(text.sentence_offsets[bounds])
    assert pieces.max() <= 700
    inside = set(bounds) - set(text.document_offsets.tolist())
    first, end = text.document_offsets[150:152]
    assert inside and all(first < bound < end for bound in inside)
    # No block could have taken in the next document as well.
    next_document = text.document_offsets[
        np.searchsorted(text.document_offsets, bounds[1:-1], side="right")
    ]
    starts = text.sentence_offsets
    assert np.all(starts[next_document] - starts[bounds[:-2]] > 700)


def test_a_block_is_the_same_text_as_its_part_of_the_corpus(documents):
    text = tokenize(documents)
    first, end = text.cut(900)[3]
    block = text.block(first, end)
    offsets = text.sentence_offsets[first : end + 1]
    assert np.array_equal(block.ids, text.ids[offsets[0] : offsets[-1]])
    assert np.array_equal(block.sentence_offsets, offsets - offsets[0])
    assert block.document_offsets[0] == 0
    assert block.document_offsets[-1] == end - first
    assert set(block.document_offsets + first) <= set(text.document_offsets)
