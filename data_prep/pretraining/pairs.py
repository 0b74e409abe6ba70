"""Text -> pairs of segments, one a row, by each of the objectives.

`settings.PAIR_OBJECTIVES` says what the pairs of each are and what their labels mean.
"""

import itertools
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from albert_tf.text import packing
from data_prep.corpus.statistics import Statistics
from data_prep.corpus.tokenized_corpus import TokenizedCorpus
from data_prep.pretraining.config import PretrainingDataConfig
from data_prep.pretraining.random_documents import OtherDocuments

ONE_WORD = "chunks of one word"


@dataclass(frozen=True)
class SegmentPairs:
    """Two segments a row, already in the order in which the row has them.

    Attributes:
      ids: int32 [N], the text that the ranges are of.
      ranges_a, ranges_b: int64 [R, 2], half-open ranges of pieces.
      labels: int64 [R], see PAIR_OBJECTIVES.
    """

    ids: np.ndarray
    ranges_a: np.ndarray
    ranges_b: np.ndarray
    labels: np.ndarray

    def in_order(self) -> "SegmentPairs":
        """Swapped segments put back; all labels 0."""
        swapped = self.labels[:, None] == 1
        ranges_a = np.where(swapped, self.ranges_b, self.ranges_a)
        ranges_b = np.where(swapped, self.ranges_a, self.ranges_b)
        labels = np.zeros_like(self.labels)
        return SegmentPairs(self.ids, ranges_a, ranges_b, labels)


def choose_pairs(
    block: TokenizedCorpus,
    word_starts: np.ndarray,
    config: PretrainingDataConfig,
    others: OtherDocuments | None,
    rng: np.random.Generator,
    statistics: Statistics,
) -> SegmentPairs:
    """The pairs of a block, not longer than a row; see `pretraining.make_rows`."""
    if config.pair_objective == "nsp":
        pairs = choose_next_segments(
            block, word_starts, config, others, rng, statistics
        )
    else:
        chunks = choose_chunks(block, config, rng)
        pairs = choose_segment_pairs(block, chunks, word_starts, rng, statistics)
    if config.pair_objective == "none":
        pairs = pairs.in_order()
    return _truncate(pairs, config.max_text_pieces, rng, statistics)


def choose_chunks(
    block: TokenizedCorpus, config: PretrainingDataConfig, rng: np.random.Generator
) -> np.ndarray:
    """Cuts documents into runs of sentences, one a row.

    Sentences are gathered until they reach the wanted length: that of a whole row or,
    for a share `short_seq_prob` of the rows, a random one. A chunk may be a sentence
    longer than wanted, and the last one of a document shorter.

    Returns:
      int64 [C, 2], half-open ranges of sentences.
    """
    offsets = block.sentence_offsets.tolist()
    wanted = _wanted_lengths(len(offsets) - 1, config, rng)
    chunks = []
    documents = block.document_offsets.tolist()
    for first, document_end in itertools.pairwise(documents):
        while first < document_end:
            reach = offsets[first] + next(wanted)
            end = bisect_left(offsets, reach, first + 1, document_end)
            chunks.append((first, end))
            first = end
    return np.array(chunks)


def _wanted_lengths(
    sentences: int, config: PretrainingDataConfig, rng: np.random.Generator
) -> Iterator[int]:
    """Draws lengths of rows; no row needs less than a sentence."""
    is_short = rng.random(sentences) < config.short_seq_prob
    short = rng.integers(2, config.max_text_pieces, size=sentences, endpoint=True)
    return iter(np.where(is_short, short, config.max_text_pieces).tolist())


def choose_segment_pairs(
    block: TokenizedCorpus,
    chunks: np.ndarray,
    word_starts: np.ndarray,
    rng: np.random.Generator,
    statistics: Statistics,
) -> SegmentPairs:
    """Splits each chunk in two and swaps the two in half of the cases.

    The split is at a random sentence; in a chunk of one sentence, at a random word. A
    chunk of one word is skipped and counted.

    Args:
      block: the text.
      chunks: int [C, 2], half-open ranges of sentences.
      word_starts: bool, where a piece of the block starts a word.
      rng: the only source of randomness.
      statistics: is told what was skipped.
    Returns:
      At most C pairs, not yet truncated.
    """
    first, last = chunks.T
    begin, end = block.sentence_offsets[first], block.sentence_offsets[last]
    starts = word_starts.copy()
    starts[begin] = True
    words = np.flatnonzero(starts)
    first_word = np.searchsorted(words, begin, side="right")
    inner_words = np.searchsorted(words, end, side="left") - first_word
    inner_sentences = last - first - 1
    one_sentence = inner_sentences == 0

    places = np.where(one_sentence, inner_words, inner_sentences)
    place = (rng.random(len(chunks)) * places).astype(np.int64)
    # Both readings of `place` are looked up; "clip" keeps the unused one in bounds.
    split = np.where(
        one_sentence,
        words.take(first_word + place, mode="clip"),
        block.sentence_offsets.take(first + 1 + place, mode="clip"),
    )
    # Half of a block, not a coin toss each: labels are even in small data too.
    swapped = rng.permutation(len(chunks)) % 2 == rng.integers(2)

    usable = places > 0
    statistics.skipped[ONE_WORD] += int(np.sum(~usable))
    in_order = np.stack([begin, split, split, end], axis=1).reshape(-1, 2, 2)
    pairs = np.where(swapped[:, None, None], in_order[:, ::-1], in_order)[usable]
    labels = swapped[usable].astype(np.int64)
    return SegmentPairs(block.ids, pairs[:, 0], pairs[:, 1], labels)


def choose_next_segments(
    block: TokenizedCorpus,
    word_starts: np.ndarray,
    config: PretrainingDataConfig,
    others: OtherDocuments,
    rng: np.random.Generator,
    statistics: Statistics,
) -> SegmentPairs:
    """Cuts documents into pairs of which half have a second segment from elsewhere.

    As BERT does it: the text that such a segment stands in for begins the next row. A
    chunk of one sentence is split at a word, and then so does the other text begin
    inside a sentence, so that nothing but the meaning tells the labels apart.

    Args:
      block, word_starts: the text, and bool, where a piece of it starts a word.
      config: lengths.
      others: gives text of other documents.
      rng, statistics: as for `choose_segment_pairs`.
    """
    offsets = block.sentence_offsets.tolist()
    wanted = _wanted_lengths(len(offsets) - 1, config, rng)
    ids, size = [block.ids], len(block.ids)
    labels, ranges_a, ranges_b = [], [], []
    documents = itertools.pairwise(block.document_offsets.tolist())
    for document, (first, document_end) in enumerate(documents):
        while first < document_end:
            begin, length = offsets[first], next(wanted)
            last = bisect_left(offsets, begin + length, first + 1, document_end)
            end, is_one_sentence = offsets[last], last == first + 1
            if is_one_sentence:
                inner = np.flatnonzero(word_starts[begin + 1 : end])
                places = (begin + 1 + inner).tolist()
            else:
                places = offsets[first + 1 : last]
            next_first = last
            if not places:
                statistics.skipped[ONE_WORD] += 1
            else:
                place, is_random = rng.integers(len(places)), rng.integers(2)
                split = places[place]
                labels.append(is_random)
                ranges_a.append((begin, split))
                ranges_b.append((split, end))
            if places and is_random:
                pieces = max(1, length - (split - begin))
                ids.append(others.draw(document, pieces, is_one_sentence, rng))
                ranges_b[-1] = (size, size + len(ids[-1]))
                size = ranges_b[-1][1]
                if is_one_sentence:
                    statistics.truncated_pieces += end - split
                else:
                    next_first = first + 1 + place
            first = next_first
    return SegmentPairs(
        np.concatenate(ids),
        np.array(ranges_a, np.int64).reshape(-1, 2),
        np.array(ranges_b, np.int64).reshape(-1, 2),
        np.array(labels, np.int64),
    )


def _truncate(
    pairs: SegmentPairs,
    max_pieces: int,
    rng: np.random.Generator,
    statistics: Statistics,
) -> SegmentPairs:
    """Shortens both segments of each row until they fit it together."""
    lengths = [np.diff(ranges)[:, 0] for ranges in (pairs.ranges_a, pairs.ranges_b)]
    cuts = packing.truncate_pair_randomly(*lengths, max_pieces, rng)
    ranges_a = pairs.ranges_a[:, :1] + np.stack(cuts[:2], axis=1)
    ranges_b = pairs.ranges_b[:, :1] + np.stack(cuts[2:], axis=1)
    kept = np.diff(ranges_a).sum() + np.diff(ranges_b).sum()
    statistics.truncated_pieces += int(sum(lengths).sum() - kept)
    return SegmentPairs(pairs.ids, ranges_a, ranges_b, pairs.labels)
