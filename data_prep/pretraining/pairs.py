"""Cuts text into pairs of segments, one pair a row, by each of the objectives.

`config.PAIR_OBJECTIVES` describes the pairs and labels of each.
"""

import dataclasses
import itertools
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from albert_tf.text import packing
from data_prep.corpus.statistics import Statistics
from data_prep.corpus.tokenized_corpus import TokenizedCorpus, TokenizedText
from data_prep.pretraining.config import NO_LABEL, PretrainingDataConfig

# A reason that `choose_pairs` counts, as a report prints it.
ONE_WORD = "chunks of one word"

# A block draws its documents from so many segments at random: a segment holds hundreds
# of documents, and reading another one for each row would take most of the time.
_SEGMENTS = 4
_ATTEMPTS = 20


class OtherText(Protocol):
    """Text of other documents, for pairs whose second segment is not consecutive."""

    def draw(
        self, document: int, tokens: int, inside: bool, rng: np.random.Generator
    ) -> np.ndarray:
        """Draws text of another document, from a random sentence on.

        Args:
          document: number of the document to avoid, counted from the block's first.
          tokens: whole sentences are taken until there are so many tokens, or to the
            document's end.
          inside: whether to start at a word inside the sentence, if it has several.
          rng: the only source of randomness.
        Returns:
          int32, at least one token.
        """
        ...


@dataclass(frozen=True)
class SegmentPairs:
    """Two segments for each of R rows, in the row's order.

    Attributes:
      ids: int32 [N], the text.
      ranges_a, ranges_b: int64 [R, 2], half-open ranges of tokens in `ids`.
      labels: int64 [R], see PAIR_OBJECTIVES; NO_LABEL for none.
    """

    ids: np.ndarray
    ranges_a: np.ndarray
    ranges_b: np.ndarray
    labels: np.ndarray

    def in_order(self) -> "SegmentPairs":
        """Returns the pairs with swapped segments put back, and labels 0 for 1."""
        swapped = self.labels[:, None] == 1
        ranges_a = np.where(swapped, self.ranges_b, self.ranges_a)
        ranges_b = np.where(swapped, self.ranges_a, self.ranges_b)
        labels = np.minimum(self.labels, 0)
        return SegmentPairs(self.ids, ranges_a, ranges_b, labels)


def choose_pairs(
    block: TokenizedCorpus,
    word_starts: np.ndarray,
    config: PretrainingDataConfig,
    others: OtherText | None,
    rng: np.random.Generator,
    statistics: Statistics,
) -> SegmentPairs:
    """Chooses the pairs of a block, none longer than a row; see `rows.make_rows`."""
    if config.pair_objective == "nsp":
        if others is None:
            raise ValueError("pair_objective=nsp needs text of other documents.")
        pairs = choose_next_segments(
            block, word_starts, config, others, rng, statistics
        )
    else:
        chunks = choose_chunks(block, config, rng)
        pairs = choose_segment_pairs(block, chunks, word_starts, rng, statistics)
    if config.pair_objective == "none":
        pairs = pairs.in_order()
        pairs = dataclasses.replace(pairs, labels=np.zeros_like(pairs.labels))
    return _truncate(pairs, config.max_text_tokens, rng, statistics)


def choose_chunks(
    block: TokenizedCorpus, config: PretrainingDataConfig, rng: np.random.Generator
) -> np.ndarray:
    """Cuts documents into runs of sentences, one run a row.

    Sentences are gathered until they reach the wanted length: that of a whole row or,
    for a share `short_seq_prob` of the rows, a random one. A chunk may be longer than
    wanted by part of a sentence, and the last one of a document shorter.

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
    """Draws lengths of rows, one for each sentence, since a row takes at least one."""
    is_short = rng.random(sentences) < config.short_seq_prob
    short = rng.integers(2, config.max_text_tokens, size=sentences, endpoint=True)
    return iter(np.where(is_short, short, config.max_text_tokens).tolist())


def choose_segment_pairs(
    block: TokenizedCorpus,
    chunks: np.ndarray,
    word_starts: np.ndarray,
    rng: np.random.Generator,
    statistics: Statistics,
) -> SegmentPairs:
    """Splits each chunk in two and swaps the two in half of the cases.

    The split is where a random sentence begins. A chunk of one sentence is split at a
    random word. Such a chunk, and one that begins or ends inside a sentence which was
    cut, stays in order and has no label: how its segments begin and end would tell it.
    A chunk of one word is skipped and counted.

    Args:
      block: the text, N tokens.
      chunks: int [C, 2], half-open ranges of sentences.
      word_starts: bool [N], whether a token starts a word.
      rng: the only source of randomness.
      statistics: skipped chunks are counted there.
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
    whole = np.flatnonzero(~block.is_cut)
    first_whole = np.searchsorted(whole, first, side="right")
    inner_sentences = np.searchsorted(whole, last, side="left") - first_whole
    one_sentence = inner_sentences == 0

    places = np.where(one_sentence, inner_words, inner_sentences)
    place = (rng.random(len(chunks)) * places).astype(np.int64)
    # `place` is looked up both ways; "clip" keeps the unused one in bounds.
    split = np.where(
        one_sentence,
        words.take(first_word + place, mode="clip"),
        block.sentence_offsets[whole.take(first_whole + place, mode="clip")],
    )
    has_label = ~(one_sentence | block.is_cut[first] | block.is_cut[last])
    # Exactly half of the pairs, so that labels are even in small data too.
    swapped = np.zeros(len(chunks), bool)
    order = rng.permutation(len(chunks))[has_label]
    swapped[has_label] = order.argsort().argsort() % 2 == rng.integers(2)

    usable = places > 0
    statistics.skipped[ONE_WORD] += int(np.sum(~usable))
    in_order = np.stack([begin, split, split, end], axis=1).reshape(-1, 2, 2)
    pairs = np.where(swapped[:, None, None], in_order[:, ::-1], in_order)[usable]
    labels = np.where(has_label, swapped, NO_LABEL)[usable]
    return SegmentPairs(block.ids, pairs[:, 0], pairs[:, 1], labels)


def choose_next_segments(
    block: TokenizedCorpus,
    word_starts: np.ndarray,
    config: PretrainingDataConfig,
    others: OtherText,
    rng: np.random.Generator,
    statistics: Statistics,
) -> SegmentPairs:
    """Cuts documents into pairs; half of the second segments are of other documents.

    As in BERT, the text that such a segment replaces begins the next row. A chunk of
    one sentence is split at a word. Its replacement then begins inside a sentence as
    well, so that nothing but the meaning tells the labels apart.

    Args:
      block: the text, N tokens.
      word_starts: bool [N], whether a token starts a word.
      config: lengths.
      others: text of other documents.
      rng: the only source of randomness.
      statistics: skipped chunks and lost tokens are counted there.
    """
    offsets = block.sentence_offsets.tolist()
    wanted = _wanted_lengths(len(offsets) - 1, config, rng)
    pairs = _NextSegments(block.ids)
    documents = itertools.pairwise(block.document_offsets.tolist())
    for document, (first, document_end) in enumerate(documents):
        while first < document_end:
            begin, length = offsets[first], next(wanted)
            last = bisect_left(offsets, begin + length, first + 1, document_end)
            end, is_one_sentence = offsets[last], last == first + 1
            splits = offsets[first + 1 : last]
            if is_one_sentence:
                splits = 1 + begin + np.flatnonzero(word_starts[begin + 1 : end])
            if not len(splits):
                statistics.skipped[ONE_WORD] += 1
                first = last
                continue
            place, is_random = int(rng.integers(len(splits))), rng.integers(2)
            split = int(splits[place])
            if not is_random:
                pairs.add((begin, split), (split, end))
                first = last
                continue
            tokens = max(1, length - (split - begin))
            other = others.draw(document, tokens, is_one_sentence, rng)
            pairs.add_random((begin, split), other)
            if is_one_sentence:
                statistics.truncated_pieces += end - split
                first = last
            else:
                first += 1 + place
    return pairs.finish()


class _NextSegments:
    """Gathers pairs whose second segment is the next (0) or a random one (1)."""

    def __init__(self, ids: np.ndarray):
        self._ids, self._size = [ids], len(ids)
        self._ranges: list[tuple[tuple[int, int], tuple[int, int]]] = []
        self._labels: list[int] = []

    def add(self, range_a: tuple[int, int], range_b: tuple[int, int]) -> None:
        """Adds a pair of consecutive text."""
        self._ranges.append((range_a, range_b))
        self._labels.append(0)

    def add_random(self, range_a: tuple[int, int], other: np.ndarray) -> None:
        """Adds a pair whose second segment is text of another document."""
        end = self._size + len(other)
        self._ranges.append((range_a, (self._size, end)))
        self._labels.append(1)
        self._ids.append(other)
        self._size = end

    def finish(self) -> SegmentPairs:
        """Returns all pairs."""
        ranges = np.array(self._ranges, np.int64).reshape(-1, 2, 2)
        labels = np.array(self._labels, np.int64)
        return SegmentPairs(
            np.concatenate(self._ids), ranges[:, 0], ranges[:, 1], labels
        )


def _truncate(
    pairs: SegmentPairs,
    max_tokens: int,
    rng: np.random.Generator,
    statistics: Statistics,
) -> SegmentPairs:
    """Shortens the two segments of each row until they fit into it."""
    length_a = np.diff(pairs.ranges_a)[:, 0]
    length_b = np.diff(pairs.ranges_b)[:, 0]
    cuts = packing.truncate_pair_randomly(length_a, length_b, max_tokens, rng)
    ranges_a = pairs.ranges_a[:, :1] + np.stack(cuts[:2], axis=1)
    ranges_b = pairs.ranges_b[:, :1] + np.stack(cuts[2:], axis=1)
    kept = np.diff(ranges_a).sum() + np.diff(ranges_b).sum()
    statistics.truncated_pieces += int(length_a.sum() + length_b.sum() - kept)
    return SegmentPairs(pairs.ids, ranges_a, ranges_b, pairs.labels)


class _Candidate(NamedTuple):
    """A document, or its part in one segment: sentences [first, end)."""

    number: int
    corpus: TokenizedCorpus
    first: int
    end: int


class OtherDocuments:
    """Draws text of documents other than a given one of a block: an `OtherText`."""

    def __init__(
        self,
        text: TokenizedText,
        first_document: int,
        word_start_table: np.ndarray,
        rng: np.random.Generator,
    ):
        """Chooses the segments to draw from.

        Args:
          text: a text of at least two documents.
          first_document: number in the text of the block's first document.
          word_start_table: bool, whether a token starts a word, by its id.
          rng: the only source of randomness.
        """
        self._text = text
        self._first_document = first_document
        self._word_start_table = word_start_table
        # The number of each segment's last document, which may continue in the next.
        following = text.first_documents[1:]
        self._first = text.first_documents[:-1]
        self._last = np.maximum(following - ~text.continues, self._first)
        self._candidates = self._choose_candidates(None, rng)
        self._for_document: dict[int, list[_Candidate]] = {}

    def draw(
        self, document: int, tokens: int, inside: bool, rng: np.random.Generator
    ) -> np.ndarray:
        """Draws text of another document; see `OtherText`."""
        number = self._first_document + document
        corpus, first, end = self._choose(number, rng)[1:]
        sentence = int(rng.integers(first, end))
        offsets = corpus.sentence_offsets
        begin = offsets[sentence]
        if inside:
            ids = corpus.ids[begin + 1 : offsets[sentence + 1]]
            words = np.flatnonzero(self._word_start_table[ids])
            begin += 1 + rng.choice(words) if len(words) else 0
        reach = np.searchsorted(offsets, begin + tokens)
        return corpus.ids[begin : offsets[min(reach, end)]].astype(np.int32)

    def _choose(self, number: int, rng: np.random.Generator) -> _Candidate:
        for _ in range(_ATTEMPTS):
            candidate = self._candidates[rng.integers(len(self._candidates))]
            if candidate.number != number:
                return candidate
        # The chosen segments hold little else, for instance a novel that fills several.
        if number not in self._for_document:
            self._for_document[number] = self._choose_candidates(number, rng)
        candidates = self._for_document[number]
        return candidates[rng.integers(len(candidates))]

    def _choose_candidates(
        self, excluded: int | None, rng: np.random.Generator
    ) -> list[_Candidate]:
        """Returns documents of random segments, except one.

        Segments with many documents are likelier.
        """
        weights = self._last - self._first + 1
        if excluded is not None:
            weights = weights - ((self._first <= excluded) & (excluded <= self._last))
        places = rng.choice(len(weights), _SEGMENTS, p=weights / weights.sum())
        candidates: list[_Candidate] = []
        for segment in np.unique(places):
            corpus = self._text.load(segment)
            bounds = itertools.pairwise(corpus.document_offsets.tolist())
            candidates.extend(
                _Candidate(number, corpus, *sentences)
                for number, sentences in enumerate(bounds, self._first[segment])
                if number != excluded
            )
        return candidates
