"""Tokenized text keeps its sentences and documents, whole and in blocks."""

import itertools

import numpy as np
import pytest

from data_prep.corpus import tokenized_corpus
from data_prep.corpus.reader import Sentence
from data_prep.corpus.statistics import Statistics
from data_prep.corpus.tokenized_corpus import (
    TokenizedCorpus,
    cut_blocks,
    load_corpus,
    load_offsets,
    tokenize_sentences,
)
from helpers.letters import TOKENIZER, make_documents, tokenize


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


def test_text_without_any_piece_has_no_segment():
    statistics = Statistics()
    assert tokenize([["", ""]], statistics=statistics) is None
    assert statistics.skipped == {"sentences without a piece": 2}


def segments_of(documents, statistics, pieces):
    sentences = [
        Sentence(text, "file", line)
        for line, document in enumerate(documents)
        for text in document
    ]
    return list(tokenize_sentences(sentences, TOKENIZER, 9, statistics, pieces))


def test_segments_are_the_text_in_pieces(documents, monkeypatch):
    # Not a multiple of anything, so that documents go on from one to another.
    monkeypatch.setattr(tokenized_corpus, "_SENTENCES_PER_BATCH", 111)
    whole, parts = Statistics(), Statistics()
    text = tokenize(documents[:90], 9, whole)
    segments = segments_of(documents[:90], parts, 1000)
    assert len(segments) > 3 and parts == whole
    assert np.array_equal(np.concatenate([s.corpus.ids for s in segments]), text.ids)
    lengths = [np.diff(s.corpus.sentence_offsets) for s in segments]
    assert np.array_equal(np.concatenate(lengths), np.diff(text.sentence_offsets))
    assert sum(s.new_documents for s in segments) == whole.documents == 90
    # A segment goes on with a document exactly if none starts where it does.
    starts = np.cumsum([0, *map(len, lengths)])[:-1]
    continues = [segment.continues for segment in segments]
    assert continues == [start not in text.document_offsets for start in starts]
    assert any(continues)


@pytest.mark.parametrize("vocab_size", [57, 70_000])
def test_a_saved_corpus_is_read_back(vocab_size, tmp_path, documents):
    text = tokenize(documents[:9])
    dtype = np.uint16 if vocab_size < 1 << 16 else np.int32
    saved = TokenizedCorpus(
        text.ids.astype(dtype),
        text.sentence_offsets,
        text.document_offsets,
        np.arange(len(text.sentence_offsets)) % 3 == 1,
    )
    path = tmp_path / "text.npy"
    path.write_bytes(saved.to_bytes())
    read = load_corpus(str(path))
    assert read.ids.dtype == dtype and np.array_equal(read.ids, text.ids)
    assert np.array_equal(read.sentence_offsets, text.sentence_offsets)
    assert np.array_equal(read.document_offsets, text.document_offsets)
    assert np.array_equal(read.is_cut, saved.is_cut)
    assert np.array_equal(read.block(3, 7).is_cut, saved.is_cut[3:8])
    offsets = load_offsets(str(path))
    assert np.array_equal(offsets[0], text.sentence_offsets)
    assert np.array_equal(offsets[1], text.document_offsets)
    assert read.block(3, 7).ids.dtype == np.int32


def test_long_sentences_are_cut_before_the_word_that_does_not_fit():
    statistics = Statistics()
    text = tokenize([["aaaa bbb cccc dd", "e f"], ["x" * 20]], 8, statistics)
    assert np.diff(text.sentence_offsets).tolist() == [7, 6, 2, 8, 8, 4]
    assert text.document_offsets.tolist() == [0, 3, 6]
    assert TOKENIZER.decode(text.ids) == "AaaaBbbCcccDdEFX" + "x" * 19
    assert statistics.skipped == {"long sentences, cut": 2}
    assert statistics.sentences == 3


def rows_of(pieces):
    return -(-pieces // 20)


def test_blocks_hold_whole_documents_unless_one_fills_more_than_a_block(documents):
    long = make_documents(1, np.random.default_rng(3), sentences=(300, 301))
    text = tokenize([*documents[:150], *long, *documents[150:]])
    blocks = cut_blocks(text.sentence_offsets, text.document_offsets, 20, 35)
    bounds = [first for first, _ in blocks] + [blocks[-1][1]]
    assert bounds[0] == 0 and bounds[-1] == len(text.sentence_offsets) - 1
    assert [end for _, end in blocks] == bounds[1:]
    inside = set(bounds) - set(text.document_offsets.tolist())
    first, end = text.document_offsets[150:152]
    assert inside and all(first < bound < end for bound in inside)
    starts = text.sentence_offsets
    for begin, end in blocks:
        documents_of_block = text.block(begin, end).document_offsets + begin
        pieces = np.diff(starts[documents_of_block])
        assert rows_of(pieces).sum() <= 35
        if end in text.document_offsets[:-1]:
            # The next document would not have found room as well.
            place = np.searchsorted(text.document_offsets, end)
            following = starts[text.document_offsets[place + 1]] - starts[end]
            assert rows_of(pieces).sum() + rows_of(following) > 35


def test_a_sentence_that_fills_more_than_a_block_is_a_block():
    offsets = np.array([0, 5, 500, 505, 510])
    blocks = cut_blocks(offsets, np.array([0, 4]), 10, 2)
    assert blocks == [(0, 1), (1, 2), (2, 4)]


def test_short_documents_fill_a_row_each():
    text = tokenize([["ab c"]] * 100)
    blocks = cut_blocks(text.sentence_offsets, text.document_offsets, 64, 8)
    assert {end - first for first, end in blocks[:-1]} == {8}


def test_a_block_is_the_same_text_as_its_part_of_the_corpus(documents):
    text = tokenize(documents)
    first, end = cut_blocks(text.sentence_offsets, text.document_offsets, 20, 45)[3]
    block = text.block(first, end)
    offsets = text.sentence_offsets[first : end + 1]
    assert np.array_equal(block.ids, text.ids[offsets[0] : offsets[-1]])
    assert np.array_equal(block.sentence_offsets, offsets - offsets[0])
    assert block.document_offsets[0] == 0
    assert block.document_offsets[-1] == end - first
    assert set(block.document_offsets + first) <= set(text.document_offsets)
