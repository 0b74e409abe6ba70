"""Pairs of segments cover the text in order and stay within a document."""

import itertools

import numpy as np
import pytest

from data_prep.corpus.statistics import Statistics
from data_prep.corpus.tokenized_corpus import TokenizedCorpus
from data_prep.pretraining.config import NO_LABEL
from data_prep.pretraining.pairs import (
    ONE_WORD,
    choose_chunks,
    choose_next_segments,
    choose_segment_pairs,
)
from helpers.letters import CONFIG, TOKENIZER, make_documents, tokenize


@pytest.fixture(scope="module")
def documents():
    return make_documents(700, np.random.default_rng(1))


def test_chunks_cover_each_document_in_order(documents):
    text = tokenize(documents)
    chunks = choose_chunks(text, CONFIG, np.random.default_rng(4))
    assert chunks[0, 0] == 0 and chunks[-1, 1] == len(text.sentence_offsets) - 1
    assert np.array_equal(chunks[1:, 0], chunks[:-1, 1])
    assert set(text.document_offsets[1:]) <= set(chunks[:, 1])


def test_one_chunk_in_ten_is_short():
    # One-piece sentences reach every wanted length exactly.
    text = TokenizedCorpus(
        ids=np.full(2_000_000, 40, np.int32),
        sentence_offsets=np.arange(2_000_001),
        document_offsets=np.array([0, 2_000_000]),
        is_cut=np.zeros(2_000_001, bool),
    )
    chunks = choose_chunks(text, CONFIG, np.random.default_rng(5))
    lengths = np.diff(chunks)[:-1, 0]
    shares = np.bincount(lengths, minlength=65) / len(lengths)
    # Lengths 2..64 share the short ones, so full ones get one more of the 63 shares.
    assert shares[64] == pytest.approx(0.9 + 0.1 / 63, abs=0.004)
    assert shares[2:64] == pytest.approx(np.full(62, 0.1 / 63), abs=0.0012)
    assert not shares[:2].any()


def test_segments_are_consecutive_and_within_one_document(documents):
    text = tokenize(documents)
    rng = np.random.default_rng(6)
    chunks = choose_chunks(text, CONFIG, rng)
    starts = TOKENIZER.word_start_table[text.ids]
    pairs = choose_segment_pairs(text, chunks, starts, rng, Statistics())
    swapped = pairs.labels[:, None] == 1
    first = np.where(swapped, pairs.ranges_b, pairs.ranges_a)
    second = np.where(swapped, pairs.ranges_a, pairs.ranges_b)
    assert np.array_equal(first[:, 1], second[:, 0])
    assert np.diff(first).min() > 0 and np.diff(second).min() > 0
    document_starts = text.sentence_offsets[text.document_offsets]
    document = np.searchsorted(document_starts, first[:, 0], side="right")
    assert np.all(second[:, 1] <= document_starts[document])
    # Nothing but chunks of one word lies between one pair and the next.
    begins = np.append(first[:, 0], len(text.ids))
    ends = np.append(0, second[:, 1])
    gaps = [starts[a:b] for a, b in zip(ends, begins, strict=True) if a < b]
    sentence_starts = set(text.sentence_offsets.tolist())
    assert gaps and all(begin in sentence_starts for begin in begins.tolist())
    assert sum(gap.sum() for gap in gaps) == len(chunks) - len(pairs.labels)


def test_labelled_pairs_are_of_whole_sentences():
    # Sentences of 3 to 150 tokens; rows have 64, so that many are cut.
    rng = np.random.default_rng(8)
    text = tokenize(make_documents(200, rng, sentences=(1, 9), words=(1, 30)), 64)
    assert 0.05 < text.is_cut.mean() < 0.9
    chunks = choose_chunks(text, CONFIG, rng)
    starts = TOKENIZER.word_start_table[text.ids]
    pairs = choose_segment_pairs(text, chunks, starts, rng, Statistics())
    whole = set(text.sentence_offsets[~text.is_cut].tolist())
    for label, a, b in zip(pairs.labels, pairs.ranges_a, pairs.ranges_b, strict=True):
        inside = not {*a.tolist(), *b.tolist()} <= whole
        assert (label == NO_LABEL) == inside
        first, second = (b, a) if label == 1 else (a, b)
        assert first[1] == second[0], "consecutive, in order without a label"
    labelled = pairs.labels != NO_LABEL
    assert 0.2 < labelled.mean() < 0.9
    assert abs(np.sum(pairs.labels == 1) - labelled.sum() / 2) <= 1


class FixedText:
    """Other text that is a single token, of no letter of the vocabulary."""

    def __init__(self):
        self.calls = []

    def draw(self, document, tokens, inside, rng):
        self.calls.append((document, tokens, inside))
        return np.array([1], np.int32)


def test_next_segments_cover_the_text_unless_they_are_replaced(documents):
    text = tokenize(documents)
    starts = TOKENIZER.word_start_table[text.ids]
    others, statistics = FixedText(), Statistics()
    rng = np.random.default_rng(3)
    pairs = choose_next_segments(text, starts, CONFIG, others, rng, statistics)
    is_random = pairs.labels == 1
    assert 0.4 < is_random.mean() < 0.6
    assert is_random.sum() == len(others.calls)
    assert np.all(pairs.ids[pairs.ranges_b[is_random, 0]] == 1)
    assert np.array_equal(pairs.ranges_a[~is_random, 1], pairs.ranges_b[~is_random, 0])
    # The next row begins with replaced text; in a chunk of one sentence it is lost.
    ends = np.where(is_random, pairs.ranges_a[:, 1], pairs.ranges_b[:, 1])
    gaps = pairs.ranges_a[1:, 0] - ends[:-1]
    assert np.all(gaps >= 0)
    words = statistics.skipped[ONE_WORD]
    lost = np.count_nonzero([inside for _, _, inside in others.calls])
    assert words > 0 and lost > 0 and np.count_nonzero(gaps) <= words + lost


def test_other_text_is_asked_for_documents_in_order(documents):
    text = tokenize(documents[:50])
    starts = TOKENIZER.word_start_table[text.ids]
    others = FixedText()
    rng = np.random.default_rng(4)
    choose_next_segments(text, starts, CONFIG, others, rng, Statistics())
    numbers = [document for document, _, _ in others.calls]
    assert all(a <= b for a, b in itertools.pairwise(numbers))
    assert numbers[0] >= 0 and numbers[-1] < 50
    assert all(1 <= tokens <= CONFIG.max_text_tokens for _, tokens, _ in others.calls)
