"""Masks n-grams of whole words in many rows at once.

ALBERT (section 4.1) masks runs of up to three whole words, a run of n words with
p(n) = (1/n) / (1 + 1/2 + 1/3), and replaces their tokens as BERT does: 80 % by [MASK],
10 % left as they are, 10 % by a random token.

The original draws row by row in Python loops. Here all rows of a block take their next
draw together in numpy, which makes the same choices about fifty times faster. Two
things differ on purpose: an n-gram never leaves its segment, and the random tokens are
ordinary ones, never control symbols.
"""

from dataclasses import dataclass

import numpy as np

from albert_tf.records.masking_config import MaskingConfig

# The replacements of a chosen token.
REPLACEMENTS = ("mask", "kept", "random")


@dataclass(frozen=True)
class MaskedRows:
    """Masked rows and counts of the draws.

    Attributes:
      input_ids: [R, S], the rows with their masked tokens replaced.
      masked_lm_positions: int32 [R, P], masked columns in rising order, then zeros.
      masked_lm_ids: int32 [R, P], the original tokens there, then zeros.
      masked_lm_weights: float32 [R, P], 1.0 for each of them, then 0.0.
      ngrams_drawn: int64 [ngram], draws of 1, 2, ... words.
      ngrams_placed: int64 [ngram], runs of 1, 2, ... words that were masked. They are
        fewer and shorter, since a run is cut at its segment's end and to the rest of
        the budget, and dropped if it meets a masked word.
      replacements: int64 [3], masked tokens by their replacement (REPLACEMENTS).
    """

    input_ids: np.ndarray
    masked_lm_positions: np.ndarray
    masked_lm_ids: np.ndarray
    masked_lm_weights: np.ndarray
    ngrams_drawn: np.ndarray
    ngrams_placed: np.ndarray
    replacements: np.ndarray


@dataclass(frozen=True)
class _Words:
    """The words of all rows, in reading order; W words in R rows.

    Attributes:
      begin: int64 [W + 1], a word's first token, counting text tokens of all rows.
      segment_end: int64 [W], index of the first word after the word's segment.
      first: int64 [R], index of a row's first word.
      count: int64 [R], words of a row.
    """

    begin: np.ndarray
    segment_end: np.ndarray
    first: np.ndarray
    count: np.ndarray


def segment_starts(is_text: np.ndarray) -> np.ndarray:
    """Marks the first token of each segment, a segment being a run of text tokens.

    Args:
      is_text: bool [R, S], False for [CLS], [SEP] and padding.
    Returns:
      bool [R, S].
    """
    starts = is_text.copy()
    starts[:, 1:] &= ~is_text[:, :-1]
    return starts


def mask_rows(
    input_ids: np.ndarray,
    is_text: np.ndarray,
    word_starts: np.ndarray,
    config: MaskingConfig,
    *,
    mask_id: int,
    ordinary_ids: np.ndarray,
    rng: np.random.Generator,
    pairs: np.ndarray | int = 1,
) -> MaskedRows:
    """Chooses n-grams of whole words and replaces their tokens.

    Args:
      input_ids: int [R, S], packed rows.
      is_text: bool [R, S], False for [CLS], [SEP] and padding, which are never masked
        and end a segment.
      word_starts: bool [R, S], True where a token starts a word. The first token of a
        segment always does.
      config: how to mask.
      mask_id: id of [MASK].
      ordinary_ids: int [K], tokens that may be drawn as random replacements.
      rng: the only source of randomness.
      pairs: int [R], pairs of segments in each row, or one number for all rows.
    Returns:
      The rows, [R, S] and [R, P]. Every row that has text has a prediction.
    """
    segment_first = segment_starts(is_text)
    # [CLS] of each pair and a [SEP] for each segment belong to the length.
    lengths = pairs + is_text.sum(axis=1) + segment_first.sum(axis=1)
    wanted = np.rint(lengths * config.masked_lm_prob).astype(np.int64)
    budget = np.clip(wanted, 1, config.max_predictions_per_seq)
    if config.do_whole_word_mask:
        starts = is_text & word_starts | segment_first
    else:
        starts = is_text
    words = _maskable_words(is_text, segment_first, starts, budget)
    chosen, drawn, placed = _choose_ngrams(words, budget, config, rng)

    text_places = np.flatnonzero(is_text)
    places = text_places[np.repeat(chosen, np.diff(words.begin))]
    labels = input_ids.ravel()[places]
    bounds = config.replacement_bounds
    kinds = np.searchsorted(bounds, rng.random(len(places)), side="right")
    random_ids = ordinary_ids[rng.integers(len(ordinary_ids), size=len(places))]
    mask_ids = np.full_like(labels, mask_id)
    masked_ids = input_ids.copy()
    masked_ids.ravel()[places] = np.choose(kinds, [mask_ids, labels, random_ids])

    rows, positions = np.divmod(places, input_ids.shape[1])
    counts = np.bincount(rows, minlength=len(input_ids))
    slots = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
    shape = (len(input_ids), config.max_predictions_per_seq)
    return MaskedRows(
        input_ids=masked_ids,
        masked_lm_positions=_scatter(shape, rows, slots, positions, np.int32),
        masked_lm_ids=_scatter(shape, rows, slots, labels, np.int32),
        masked_lm_weights=_scatter(shape, rows, slots, 1.0, np.float32),
        ngrams_drawn=drawn,
        ngrams_placed=placed,
        replacements=np.bincount(kinds, minlength=3),
    )


def _maskable_words(
    is_text: np.ndarray,
    segment_first: np.ndarray,
    starts: np.ndarray,
    budget: np.ndarray,
) -> _Words:
    """Finds words so that every row can be masked.

    If no word of a row fits its budget (text without spaces, or a row of a few tokens),
    each token of that row counts as a word: a row without a prediction would teach
    nothing.
    """
    words = _find_words(is_text, segment_first, starts)
    rows = np.repeat(np.arange(len(is_text)), words.count)
    shortest = np.full(len(is_text), is_text.shape[1])
    np.minimum.at(shortest, rows, np.diff(words.begin))
    unusable = (shortest > budget)[:, None]
    if unusable.any():
        words = _find_words(is_text, segment_first, np.where(unusable, is_text, starts))
    return words


def _find_words(
    is_text: np.ndarray, segment_first: np.ndarray, starts: np.ndarray
) -> _Words:
    """Finds the words from the marks of their first tokens."""
    first_words = np.flatnonzero(segment_first[starts])
    count = starts.sum(axis=1)
    segment_bounds = np.append(first_words, count.sum())
    return _Words(
        begin=np.append(np.flatnonzero(starts[is_text]), np.count_nonzero(is_text)),
        segment_end=np.repeat(segment_bounds[1:], np.diff(segment_bounds)),
        first=np.cumsum(count) - count,
        count=count,
    )


def _choose_ngrams(
    words: _Words, budget: np.ndarray, config: MaskingConfig, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Picks disjoint n-grams of whole words until each row's budget is used up.

    All rows draw together, once a round: the next word in the row's own random order,
    and the number of words of the n-gram that starts there. It is placed if it fits
    (`_fit_ngrams`). A row ends with its budget or its words.

    Args:
      words: W words of R rows.
      budget: int [R], upper bound on chosen tokens of a row.
      config: the distribution of n.
      rng: the only source of randomness.
    Returns:
      (chosen, drawn, placed): bool [W], and counts of n = 1, 2, ..., int64 [ngram].
    """
    cumulative = np.cumsum(config.ngram_probabilities())[:-1]
    drawn = np.zeros(config.ngram, np.int64)
    placed = np.zeros(config.ngram, np.int64)
    # Longer than the words, so that a look past the end of an n-gram needs no bound.
    chosen = np.zeros(len(words.segment_end) + config.ngram, bool)
    left = budget.copy()
    # Each row's words, shuffled in place (Fisher-Yates) only as far as a row gets.
    order = np.arange(len(words.segment_end))
    active = np.flatnonzero(words.count > 0)
    step = 0
    while len(active):
        next_place = words.first[active] + step
        rest = words.count[active] - step
        swapped = next_place + (rng.random(len(active)) * rest).astype(np.int64)
        begin = order[swapped]
        order[swapped] = order[next_place]
        size = 1 + np.searchsorted(cumulative, rng.random(len(active)), side="right")
        drawn += np.bincount(size, minlength=config.ngram + 1)[1:]

        end, is_free = _fit_ngrams(
            words, begin, size, left[active], chosen, config.ngram
        )
        rows, begin, end = active[is_free], begin[is_free], end[is_free]
        placed += np.bincount(end - begin, minlength=config.ngram + 1)[1:]
        left[rows] -= words.begin[end] - words.begin[begin]
        for offset in range(config.ngram):
            inside = begin + offset < end
            chosen[begin[inside] + offset] = True

        step += 1
        active = active[(left[active] > 0) & (words.count[active] > step)]
    return chosen[: len(words.segment_end)], drawn, placed


def _fit_ngrams(
    words: _Words,
    begin: np.ndarray,
    size: np.ndarray,
    left: np.ndarray,
    chosen: np.ndarray,
    longest: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Shortens n-grams to their segments and to the rest of their rows' budgets.

    Args:
      words: all words.
      begin: int64 [A], first word of the n-gram of each active row.
      size: int64 [A], number of words drawn.
      left: int [A], tokens left of the row's budget.
      chosen: bool [W + longest], words that are chosen already.
      longest: upper bound on `size`.
    Returns:
      (end, is_free): int64 [A], the word after each n-gram; bool [A], whether anything
      is left of it and no word of it is chosen.
    """
    end = np.minimum(begin + size, words.segment_end[begin])
    limit = words.begin[begin] + left
    for _ in range(longest):
        end -= words.begin[end] > limit
    is_free = end > begin
    for offset in range(longest):
        is_free &= ~(chosen[begin + offset] & (begin + offset < end))
    return end, is_free


def _scatter(
    shape: tuple[int, int],
    rows: np.ndarray,
    slots: np.ndarray,
    values: np.ndarray | float,
    dtype: type,
) -> np.ndarray:
    """Returns zeros of a shape, with values at (row, slot)."""
    array: np.ndarray = np.zeros(shape, dtype)
    array[rows, slots] = values
    return array
