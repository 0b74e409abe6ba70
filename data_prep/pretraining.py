"""A block of documents -> chunks -> pairs of segments -> masked rows.

    text.prepare_text           files -> ids in segments, in a folder
    pretraining.make_rows       a block of a segment -> masked rows         (here)
    shards.make_shards          all blocks -> files of shuffled rows

A block and a duplicate have a random generator of their own, so their rows depend on
the text, the settings and the seed, never on what else is made, where, or in what
order. All rows of a block are made together on numpy arrays of ids.

Where this differs from the original ALBERT: a chunk of one sentence is split in two at
a word instead of being paired with another document's text, so segments are always
consecutive text (paper, section 3.1); one row in ten is short (section 4.1), not every
row of one document in ten; and a sentence too long for a row is cut, not truncated.
"""

import itertools
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from albert_tf import packing
from albert_tf.tokenization import AlbertTokenizer
from data_prep.masking import (
    REPLACEMENTS,
    MaskedRows,
    MaskingConfig,
    mask_rows,
    segment_starts,
)
from data_prep.others import OtherDocuments
from data_prep.statistics import Statistics
from data_prep.store import TokenizedCorpus

# What a row's two segments are (Table 5 of the paper), and what labels 0 and 1 mean.
PAIR_OBJECTIVES = {
    # Consecutive text, swapped in half of the rows: ALBERT's own.
    "sop": ("in order", "swapped"),
    # Half of the second segments are text of another document: BERT's.
    "nsp": ("next", "random"),
    # Consecutive text, always in order.
    "none": ("in order", "unused"),
}

ONE_WORD = "chunks of one word"

# What a random generator is for; a part of its key.
ROWS, ASSIGNMENT, SHUFFLE = range(3)


@dataclass(frozen=True)
class PretrainingDataConfig:
    """Settings of pretraining rows; the flags of the same names set them.

    Attributes:
      max_seq_length: S, pieces in a row, [CLS], [SEP] and padding included.
      short_seq_prob: share of rows that are made shorter, to a random length.
      dupe_factor: how often each document is used, with other pairs and masks.
      random_seed: with the text, decides every byte that is written.
      pair_objective: a key of PAIR_OBJECTIVES.
      masking: how rows are masked.
    """

    max_seq_length: int = 512
    short_seq_prob: float = 0.1
    dupe_factor: int = 40
    random_seed: int = 12345
    pair_objective: str = "sop"
    masking: MaskingConfig = field(default_factory=MaskingConfig)

    def __post_init__(self):
        smallest = packing.SPECIAL_PIECES_OF_PAIR + 2
        if self.max_seq_length < smallest:
            raise ValueError(
                f"max_seq_length must be at least {smallest} ([CLS] a [SEP] b [SEP]). "
                f"Received {self.max_seq_length}."
            )
        if not 0.0 <= self.short_seq_prob <= 1.0:
            raise ValueError(
                "short_seq_prob is a share of the rows, from 0 to 1, e.g. 0.1. "
                f"Received {self.short_seq_prob}."
            )
        if self.dupe_factor < 1:
            raise ValueError(
                f"dupe_factor must be at least 1. Received {self.dupe_factor}."
            )
        if not 0 <= self.random_seed < 2**63:
            raise ValueError(
                f"random_seed must be from 0 to 2**63 - 1. Received {self.random_seed}."
            )
        if self.pair_objective not in PAIR_OBJECTIVES:
            raise ValueError(
                f"pair_objective must be one of {', '.join(PAIR_OBJECTIVES)}. "
                f"Received {self.pair_objective!r}."
            )

    @property
    def max_text_pieces(self) -> int:
        """Pieces of a row that are text: both segments together."""
        return self.max_seq_length - packing.SPECIAL_PIECES_OF_PAIR

    def settings(self) -> dict[str, int | float | bool]:
        """All settings under the names of their flags, fit for JSON."""
        values = asdict(self)
        return values | values.pop("masking")

    def rng(self, purpose: int, *key: int) -> np.random.Generator:
        """A generator for one purpose and at most two numbers, apart from all others.

        Philox is counter-based: each key below starts 2**64 draws from the next one.
        """
        counter = [0, purpose, *key, *[0] * (2 - len(key))]
        bits = np.random.Philox(key=self.random_seed, counter=counter)
        return np.random.Generator(bits)


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


def make_rows(
    block: TokenizedCorpus,
    tokenizer: AlbertTokenizer,
    config: PretrainingDataConfig,
    rng: np.random.Generator,
    statistics: Statistics,
    others: OtherDocuments | None = None,
) -> dict[str, np.ndarray]:
    """Makes the masked rows of a block, in text order.

    Args:
      block: whole documents or a part of one.
      tokenizer: special ids, word starts, and the pieces for random replacement.
      config: lengths and masks.
      rng: the only source of randomness.
      statistics: what was made is added to it.
      others: text of other documents; needed for "nsp" alone.
    Returns:
      The features of `records.pretraining_features`, each with a leading dimension R.
      `token_boundary` is 1 for [CLS] and [SEP] too, as the original has it.
    """
    word_starts = tokenizer.word_start_table[block.ids]
    if config.pair_objective == "nsp":
        pairs = choose_next_segments(
            block, word_starts, config, others, rng, statistics
        )
    else:
        chunks = choose_chunks(block, config, rng)
        pairs = choose_segment_pairs(block, chunks, word_starts, rng, statistics)
        if config.pair_objective == "none":
            pairs = pairs.in_order()
    pairs = _truncate(pairs, config.max_text_pieces, rng, statistics)
    packed = packing.pack_rows(
        pairs.ids,
        pairs.ranges_a,
        pairs.ranges_b,
        config.max_seq_length,
        cls_id=tokenizer.cls_id,
        sep_id=tokenizer.sep_id,
        pad_id=tokenizer.pad_id,
    )
    input_ids, is_real = packed["input_ids"], packed["input_mask"] == 1
    # Text never encodes to these ids, so only the packed ones are found.
    is_special = (input_ids == tokenizer.cls_id) | (input_ids == tokenizer.sep_id)
    is_text = is_real & ~is_special
    starts = tokenizer.word_start_table[input_ids] | segment_starts(is_text)
    masked = mask_rows(
        input_ids,
        is_text,
        starts,
        config.masking,
        mask_id=tokenizer.mask_id,
        ordinary_ids=tokenizer.ordinary_ids,
        rng=rng,
    )
    labels = PAIR_OBJECTIVES[config.pair_objective]
    _count_rows(statistics, is_real, labels, pairs.labels, masked)
    return {
        "input_ids": masked.input_ids,
        "input_mask": packed["input_mask"],
        "segment_ids": packed["segment_ids"],
        "token_boundary": (is_real & (starts | is_special)).astype(np.int32),
        "masked_lm_positions": masked.masked_lm_positions,
        "masked_lm_ids": masked.masked_lm_ids,
        "masked_lm_weights": masked.masked_lm_weights,
        "next_sentence_labels": pairs.labels[:, None],
    }


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
      rng: the only source of randomness.
      statistics: is told what was skipped.
    """
    offsets = block.sentence_offsets.tolist()
    wanted = _wanted_lengths(len(offsets) - 1, config, rng)
    labels, ranges_a, ranges_b = [], [], []
    ids, size = [block.ids], len(block.ids)
    documents = block.document_offsets.tolist()
    for document, (first, document_end) in enumerate(itertools.pairwise(documents)):
        while first < document_end:
            length = next(wanted)
            last = bisect_left(
                offsets, offsets[first] + length, first + 1, document_end
            )
            begin, end = offsets[first], offsets[last]
            inside = last == first + 1
            places = offsets[first + 1 : last]
            if inside:
                places = (
                    begin + 1 + np.flatnonzero(word_starts[begin + 1 : end])
                ).tolist()
            first, kept = last, first
            if not places:
                statistics.skipped[ONE_WORD] += 1
                continue
            place = rng.integers(len(places))
            split = places[place]
            is_random = rng.integers(2)
            labels.append(is_random)
            ranges_a.append((begin, split))
            if not is_random:
                ranges_b.append((split, end))
                continue
            pieces = max(1, length - (split - begin))
            other = others.draw(document, pieces, inside, rng)
            ids.append(other)
            ranges_b.append((size, size + len(other)))
            size += len(other)
            if inside:
                statistics.truncated_pieces += end - split
            else:
                first = kept + 1 + place
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


def _count_rows(
    statistics: Statistics,
    is_real: np.ndarray,
    names: Sequence[str],
    labels: np.ndarray,
    masked: MaskedRows,
) -> None:
    real = int(is_real.sum())
    statistics.rows += len(labels)
    statistics.row_pieces += real
    statistics.padding_pieces += is_real.size - real
    for counter, kinds, counts in (
        (statistics.pair_labels, names, np.bincount(labels, minlength=2)),
        (statistics.ngrams_drawn, itertools.count(1), masked.ngrams_drawn),
        (statistics.ngrams_placed, itertools.count(1), masked.ngrams_placed),
        (statistics.replacements, REPLACEMENTS, masked.replacements),
    ):
        counter.update(dict(zip(kinds, counts.tolist(), strict=False)))
