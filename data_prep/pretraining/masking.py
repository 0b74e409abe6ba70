"""Whole-word n-gram masks for many rows at once.

ALBERT (section 4.1) masks runs of up to three whole words, a run of n words with
p(n) = (1/n) / (1 + 1/2 + 1/3), and replaces their pieces as BERT does: 80 % by [MASK],
10 % left as they are, 10 % by a random piece.

The original draws row by row in Python loops; here all rows of a block take their
next draw together, in numpy, which makes the same choices about fifty times faster.
Two things differ on purpose: an n-gram never leaves its segment, and the random pieces
are ordinary ones, never control symbols.
"""

from dataclasses import dataclass

import numpy as np

# What becomes of a chosen piece, and the cumulated shares of all but the last.
REPLACEMENTS = ("mask", "kept", "random")
_REPLACEMENT_BOUNDS = (0.8, 0.9)


@dataclass(frozen=True)
class MaskingConfig:
    """How rows are masked.

    Attributes:
      max_predictions_per_seq: P, at most so many pieces of a row are masked.
      masked_lm_prob: wanted share of a row's pieces, [CLS] and [SEP] counted as in the
        original, so that its settings (512 pieces: 77 predictions) carry over.
      ngram: longest run, in words.
      favor_shorter_ngram: p(n) is proportional to 1/n; if False the same weights are
        given out in reverse, so that long runs are likelier.
      do_whole_word_mask: a word is masked whole; if False every piece is a word.
    """

    max_predictions_per_seq: int = 20
    masked_lm_prob: float = 0.15
    ngram: int = 3
    favor_shorter_ngram: bool = True
    do_whole_word_mask: bool = True

    def __post_init__(self):
        for name in ("max_predictions_per_seq", "ngram"):
            if getattr(self, name) < 1:
                raise ValueError(
                    f"{name} must be at least 1. Received {getattr(self, name)}."
                )
        if not 0.0 < self.masked_lm_prob < 1.0:
            raise ValueError(
                "masked_lm_prob is a share of the pieces, between 0 and 1, e.g. 0.15. "
                f"Received {self.masked_lm_prob}."
            )

    def ngram_probabilities(self) -> np.ndarray:
        """Probability of 1, 2, ... `ngram` words; float64 [ngram]."""
        weights = 1.0 / np.arange(1, self.ngram + 1)
        if not self.favor_shorter_ngram:
            weights = weights[::-1]
        return weights / weights.sum()


@dataclass(frozen=True)
class MaskedRows:
    """Masked rows and counts of what was drawn.

    Attributes:
      input_ids: [R, S], the rows with their masked pieces replaced.
      masked_lm_positions: int32 [R, P], masked columns in rising order, then zeros.
      masked_lm_ids: int32 [R, P], the pieces that stood there, then zeros.
      masked_lm_weights: float32 [R, P], 1.0 for each of them, then 0.0.
      ngrams_drawn: int64 [ngram], draws of 1, 2, ... words.
      ngrams_placed: int64 [ngram], runs of 1, 2, ... words that were masked. Fewer and
        shorter: a run is cut at its segment's end and by what is left of the budget,
        and dropped where it meets a masked word.
      replacements: int64 [3], masked pieces by what became of them (REPLACEMENTS).
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
      begin: int64 [W + 1], a word's first piece, counting text pieces of all rows.
      segment_end: int64 [W], index of the first word after the word's segment.
      first: int64 [R], index of a row's first word.
      count: int64 [R], words of a row.
    """

    begin: np.ndarray
    segment_end: np.ndarray
    first: np.ndarray
    count: np.ndarray


def segment_starts(is_text: np.ndarray) -> np.ndarray:
    """Marks the first piece of each segment, a segment being a run of text pieces.

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
) -> MaskedRows:
    """Chooses whole-word n-grams and replaces their pieces.

    Args:
      input_ids: int [R, S], packed rows.
      is_text: bool [R, S], False for [CLS], [SEP] and padding, which are never masked
        and end a segment.
      word_starts: bool [R, S], True where a piece starts a word. The first piece of a
        segment always does.
      config: how to mask.
      mask_id: id of [MASK].
      ordinary_ids: int [K], pieces that may be drawn as random replacements.
      rng: the only source of randomness.
    Returns:
      The rows, [R, S] and [R, P]. Every row that has text has a prediction.
    """
    segment_first = segment_starts(is_text)
    # [CLS] and a [SEP] for each segment belong to the length.
    lengths = 1 + is_text.sum(axis=1) + segment_first.sum(axis=1)
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
    kinds = np.searchsorted(_REPLACEMENT_BOUNDS, rng.random(len(places)), side="right")
    random_ids = ordinary_ids[rng.integers(len(ordinary_ids), size=len(places))]
    masked_ids = input_ids.copy()
    masked_ids.ravel()[places] = np.choose(kinds, (mask_id, labels, random_ids))

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
    """Words by which every row can be masked.

    Where not one word of a row fits its budget (text without spaces, or a row of a
    few pieces), each piece of that row counts as a word: a row without a prediction
    would teach nothing.
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
    """Reads the words off the marks of their first pieces."""
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
    and how many words the n-gram that starts there shall have. It is shortened to the
    segment and to the rest of the budget; it is dropped if nothing is left or if it
    meets a word that is chosen already. A row ends with its budget or its words.

    Args:
      words: W words of R rows.
      budget: int [R], upper bound on chosen pieces of a row.
      config: the distribution of n.
      rng: the only source of randomness.
    Returns:
      (chosen, drawn, placed): bool [W], and counts of n = 1, 2, ..., int64 [ngram].
    """
    cumulated = np.cumsum(config.ngram_probabilities())[:-1]
    drawn = np.zeros(config.ngram, np.int64)
    placed = np.zeros(config.ngram, np.int64)
    # A word beyond the last, so that a look past an n-gram's end needs no bound.
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

        size = 1 + np.searchsorted(cumulated, rng.random(len(active)), side="right")
        drawn += np.bincount(size, minlength=config.ngram + 1)[1:]
        end = np.minimum(begin + size, words.segment_end[begin])
        limit = words.begin[begin] + left[active]
        for _ in range(config.ngram):
            end -= words.begin[end] > limit
        free = end > begin
        for offset in range(config.ngram):
            free &= ~(chosen[begin + offset] & (begin + offset < end))
        rows, begin, end = active[free], begin[free], end[free]
        placed += np.bincount(end - begin, minlength=config.ngram + 1)[1:]
        left[rows] -= words.begin[end] - words.begin[begin]
        for offset in range(config.ngram):
            inside = begin + offset < end
            chosen[begin[inside] + offset] = True

        step += 1
        active = active[(left[active] > 0) & (words.count[active] > step)]
    return chosen[: len(words.segment_end)], drawn, placed


def _scatter(shape, rows, slots, values, dtype) -> np.ndarray:
    array = np.zeros(shape, dtype)
    array[rows, slots] = values
    return array
