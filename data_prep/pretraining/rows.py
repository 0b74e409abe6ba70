"""Makes masked rows of a block of documents.

    tokenize.prepare_text   files -> ids in segments, in a folder
    rows.make_rows          a block of a segment -> masked rows             (here)
        pairs.choose_pairs      -> pairs of segments, one or several a row
        masking.mask_rows       -> n-gram masks
    shards.make_shards      all blocks -> files of shuffled rows

Each block and duplicate has its own random generator, so its rows depend on the text,
the configuration and the seed, never on other rows, the machine or the order of work.
All rows of a block are made together on numpy arrays of ids.

Differences from the original ALBERT: a chunk of one sentence is split in two at a word,
without an order label, instead of being paired with another document's text, so
segments are always consecutive text (paper, section 3.1); one row in ten is short
(section 4.1), not every row of one document in ten; and a sentence too long for a row
is cut, not truncated.
"""

import itertools

import numpy as np

from albert_tf.records.compact import pack_compact
from albert_tf.records.features import Strings
from albert_tf.text import packing
from albert_tf.text.packed_rows import assign_rows, join_rows
from data_prep.corpus.segmenter import RowTokenizer
from data_prep.corpus.statistics import Statistics
from data_prep.corpus.tokenized_corpus import TokenizedCorpus
from data_prep.pretraining.config import (
    NO_LABEL,
    PAIR_OBJECTIVES,
    WITHOUT_LABEL,
    PretrainingDataConfig,
)
from data_prep.pretraining.masking import (
    REPLACEMENTS,
    MaskedRows,
    mask_rows,
    segment_starts,
)
from data_prep.pretraining.pairs import OtherText, SegmentPairs, choose_pairs


def make_rows(
    block: TokenizedCorpus,
    tokenizer: RowTokenizer,
    config: PretrainingDataConfig,
    rng: np.random.Generator,
    statistics: Statistics,
    others: OtherText | None = None,
) -> dict[str, np.ndarray | Strings]:
    """Makes the rows of a block, in text order; masked ones unless the configuration
    asks for compact ones.

    Args:
      block: whole documents or a part of one.
      tokenizer: the one that encoded the block; gives special ids, word starts, and the
        tokens for random replacement.
      config: lengths and masks.
      rng: the only source of randomness.
      statistics: counts of the rows are added to it.
      others: text of other documents; needed for "nsp" only.
    Returns:
      The features of `config.features`, each with a leading dimension R.
      `token_boundary` is 1 for [CLS] and [SEP] too, as in the original.
    """
    word_starts = tokenizer.word_start_table[block.ids]
    pairs = choose_pairs(block, word_starts, config, others, rng, statistics)
    if config.masking is None:
        return _compact_rows(pairs, tokenizer, config, statistics)
    packed = _pack(pairs, tokenizer, config)
    stored_ids, is_real = packed["input_ids"], packed["input_mask"] == 1
    # If a segmenter found words, a stored id also tells whether it starts one.
    size = tokenizer.vocab_size
    input_ids = np.where(stored_ids < size, stored_ids, stored_ids - size)
    # Text never encodes to these ids, so only those added by packing are found.
    is_special = (input_ids == tokenizer.cls_id) | (input_ids == tokenizer.sep_id)
    is_text = is_real & ~is_special
    starts = tokenizer.word_start_table[stored_ids] | segment_starts(is_text)
    masked = mask_rows(
        input_ids,
        is_text,
        starts,
        config.masking,
        mask_id=tokenizer.mask_id,
        ordinary_ids=tokenizer.ordinary_ids,
        rng=rng,
        pairs=(input_ids == tokenizer.cls_id).sum(axis=1),
    )
    _count_rows(statistics, is_real, masked)
    _count_labels(statistics, config.pair_objective, pairs.labels)
    return {
        **packed,
        "input_ids": masked.input_ids,
        "token_boundary": (is_real & (starts | is_special)).astype(np.int32),
        "masked_lm_positions": masked.masked_lm_positions,
        "masked_lm_ids": masked.masked_lm_ids,
        "masked_lm_weights": masked.masked_lm_weights,
    }


def _pack(
    pairs: SegmentPairs, tokenizer: RowTokenizer, config: PretrainingDataConfig
) -> dict[str, np.ndarray]:
    """Puts pairs into rows.

    Returns:
      All features without those of masks; `input_ids` are not masked.
    """
    texts = np.diff(pairs.ranges_a)[:, 0] + np.diff(pairs.ranges_b)[:, 0]
    lengths = packing.SPECIAL_TOKENS_OF_PAIR + texts
    width = config.max_seq_length
    if config.pack_documents:
        # Rows of single pairs are only moved from here on.
        width = int(lengths.max(initial=1))
    rows = packing.pack_rows(
        pairs.ids,
        pairs.ranges_a,
        pairs.ranges_b,
        width,
        cls_id=tokenizer.cls_id,
        sep_id=tokenizer.sep_id,
        pad_id=tokenizer.pad_id,
    )
    if not config.pack_documents:
        return {**rows, "next_sentence_labels": pairs.labels[:, None]}
    count = config.documents_per_row
    places = assign_rows(lengths, config.max_seq_length, count)

    def of_documents(values: np.ndarray | float, dtype: type) -> np.ndarray:
        array: np.ndarray = np.zeros((places.rows, count), dtype)
        array[places.row, places.number] = values
        return array

    return {
        **join_rows(rows, places, config.max_seq_length, pad_id=tokenizer.pad_id),
        "next_sentence_labels": of_documents(pairs.labels, np.int64),
        "next_sentence_positions": of_documents(places.column, np.int64),
        "next_sentence_weights": of_documents(1.0, np.float32),
    }


def _compact_rows(
    pairs: SegmentPairs,
    tokenizer: RowTokenizer,
    config: PretrainingDataConfig,
    statistics: Statistics,
) -> dict[str, np.ndarray | Strings]:
    """Returns pairs as rows without masks; reading draws the order of those of sop."""
    if config.pair_objective == "sop":
        pairs = pairs.in_order()
        without = int(np.sum(pairs.labels == NO_LABEL))
        statistics.pair_labels.update({WITHOUT_LABEL: without} if without else {})
    else:
        _count_labels(statistics, config.pair_objective, pairs.labels)
    size = tokenizer.vocab_size
    columns = pack_compact(
        # A stored id of a segmenter also tells whether it starts a word.
        np.where(pairs.ids < size, pairs.ids, pairs.ids - size),
        tokenizer.word_start_table[pairs.ids],
        pairs.ranges_a,
        pairs.ranges_b,
        size,
    )
    places = len(pairs.labels) * config.max_seq_length
    ranges = pairs.ranges_a, pairs.ranges_b
    text = sum(int(np.diff(part).sum()) for part in ranges)
    real = text + len(pairs.labels) * packing.SPECIAL_TOKENS_OF_PAIR
    statistics.rows += len(pairs.labels)
    statistics.row_pieces += real
    statistics.padding_pieces += places - real
    return {**columns, "next_sentence_labels": pairs.labels[:, None]}


def _count_labels(
    statistics: Statistics, pair_objective: str, labels: np.ndarray
) -> None:
    """Adds the counts of a block's pairs, by their label, to `statistics`."""
    named = PAIR_OBJECTIVES[pair_objective]
    counts = np.bincount(labels[labels != NO_LABEL], minlength=2).tolist()
    statistics.pair_labels.update(dict(zip(named, counts, strict=True)))
    if without := int(np.sum(labels == NO_LABEL)):
        statistics.pair_labels[WITHOUT_LABEL] += without


def _count_rows(
    statistics: Statistics,
    is_real: np.ndarray,
    masked: MaskedRows,
) -> None:
    """Adds the counts of a block's rows to `statistics`."""
    real = int(is_real.sum())
    statistics.rows += len(is_real)
    statistics.row_pieces += real
    statistics.padding_pieces += is_real.size - real
    for counter, kinds, counts in (
        (statistics.ngrams_drawn, itertools.count(1), masked.ngrams_drawn),
        (statistics.ngrams_placed, itertools.count(1), masked.ngrams_placed),
        (statistics.replacements, REPLACEMENTS, masked.replacements),
    ):
        counter.update(dict(zip(kinds, counts.tolist(), strict=False)))
