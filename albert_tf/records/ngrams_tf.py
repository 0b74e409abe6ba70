"""Chooses n-grams of whole words in many rows at once, in TensorFlow.

The algorithm is that of data creation (`data_prep.pretraining.masking`): a row takes
its words in random order; at each, an n-gram of a random number of words begins, which
is shortened to its segment and to the rest of the row's budget, and dropped if it meets
a chosen word; a row ends with its budget or its words. All rows take their next n-gram
together, in one round of a loop.

What is drawn is given: numbers in [0, 1), so the choice is a function of these alone.
The random order has two parts. At first words are drawn with repetition, and repeated
ones are left out, since most rows need a small part of their words. A row that is not
done then goes on with its other words, sorted by a number of each.
"""

import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.records.compact_tf import PackedRows
from albert_tf.records.draws_tf import round_up
from albert_tf.records.masking_config import MaskingConfig

# Longer than any row.
_FAR = 1 << 30
# The state of a word: at least `_CHOSEN` if it is chosen; `_SEEN` is added where an
# n-gram was to begin.
_SEEN, _CHOSEN = 1, 2


# Numbers in [0, 1) of some rows, by their places in the block, int32 [U]; float32
# [U, 2 S]: the order of all words, and the sizes of the n-grams that begin there.
MoreDraws = Callable[[tf.Tensor], tf.Tensor]


class DrawsLayout(NamedTuple):
    """The places of a row's random numbers, by their use.

    Attributes:
      order: the one of the two segments.
      words, sizes: words that are drawn with repetition, and the number of words of the
        n-gram that begins at each.
      kinds, tokens: P each; replacements of masked tokens, and random tokens.
      total: K, a multiple of 4.
    """

    order: int
    words: slice
    sizes: slice
    kinds: slice
    tokens: slice
    total: int


def draws_layout(max_seq_length: int, masking: MaskingConfig) -> DrawsLayout:
    """Returns the places of the random numbers that a row takes.

    Args:
      max_seq_length: S, tokens of the longest row.
      masking: how to mask; its rate is not used.
    """
    length, most = max_seq_length, masking.max_predictions_per_seq
    # Different words that few rows need more of, and the draws that give them.
    size = np.arange(1, masking.ngram + 1) @ masking.ngram_probabilities()
    words = 4.0 + 2.0 * most**0.5 + most / size
    share = min(words / length, 0.9)
    rounds = math.ceil(-length * math.log(1.0 - share))
    counts = (rounds, rounds, most, most)
    edges = [*itertools.accumulate(counts, initial=1)]
    parts = [slice(*edge) for edge in itertools.pairwise(edges)]
    words_part, sizes, kinds, tokens = parts
    return DrawsLayout(0, words_part, sizes, kinds, tokens, round_up(edges[-1]))


class Words(NamedTuple):
    """The words of all rows, in reading order; N words in R rows.

    Attributes:
      begin: int64 [N + ngram + 1], first token of each word, counting the S places of
        every row; then `_FAR`.
      first: int32 [R], index of a row's first word.
      count: int32 [R], words of a row.
      separator, last: int32 [R], places of the ends of a row's segments.
    """

    begin: tf.Tensor
    first: tf.Tensor
    count: tf.Tensor
    separator: tf.Tensor
    last: tf.Tensor


def find_words(packed: PackedRows, starts: tf.Tensor, ngram: int) -> Words:
    """Finds the words from the marks of their first tokens, bool [R, S]."""
    begin = tf.where(tf.reshape(starts, [-1]))[:, 0]
    end = tf.fill([ngram + 1], tf.constant(_FAR, tf.int64))
    count = tf.reduce_sum(tf.cast(starts, tf.int32), axis=1)
    offset = tf.range(tf.shape(starts)[0]) * starts.shape[1]
    return Words(
        tf.concat([begin, end], axis=0),
        tf.cumsum(count, exclusive=True),
        count,
        packed.separator + offset,
        packed.last + offset,
    )


def choose_ngrams(
    words: Words,
    budget: tf.Tensor,
    draws: tf.Tensor,
    layout: DrawsLayout,
    draw_more: MoreDraws,
    masking: MaskingConfig,
    size: int,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Picks disjoint n-grams of whole words until each row's budget is used up.

    Args:
      words: N words of R rows; every row has one.
      budget: int32 [R], upper bound on chosen tokens of a row.
      draws: float32 [R, K] in [0, 1).
      layout: the places of its numbers.
      draw_more: numbers for rows that need more words.
      masking: how to mask.
      size: S, places of a row.
    Returns:
      (places, count): int32 [M], the places of the chosen tokens, rising; int32 [R],
      the chosen tokens of each row.
    """
    state = tf.zeros_like(words.begin, tf.int8)
    count = tf.cast(words.count, tf.float32)
    drawn = tf.cast(draws[:, layout.words] * count[:, None], tf.int32)
    sizes = draws[:, layout.sizes]
    left, state = _take(words, drawn, sizes, budget, state, masking)
    rows = tf.cast(tf.where(left > 0)[:, 0], tf.int32)
    left, state = tf.cond(
        _has_unseen(words, rows, state),
        lambda: _take_rest(words, rows, draw_more(rows), left, state, masking),
        lambda: (left, state),
    )
    return _chosen_places(words, state, size), budget - left


def _has_unseen(words: Words, rows: tf.Tensor, state: tf.Tensor) -> tf.Tensor:
    """Tells whether words of some rows are neither chosen nor seen, bool []."""
    first = tf.gather(words.first, rows)
    places = tf.ragged.range(first, first + tf.gather(words.count, rows))
    return tf.reduce_any(tf.gather(state, places.flat_values) == 0)


def _take_rest(
    words: Words,
    rows: tf.Tensor,
    numbers: tf.Tensor,
    left: tf.Tensor,
    state: tf.Tensor,
    masking: MaskingConfig,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Goes on in some rows with all their words, in the order of a number of each.

    Args:
      words: N words of R rows.
      rows: int32 [U].
      numbers: float32 [U, 2 S], of `MoreDraws`.
      left, state, masking: as for `_take`, of all rows.
    """
    own = Words(words.begin, *(tf.gather(values, rows) for values in words[1:]))
    keys, sizes = tf.split(numbers, 2, axis=1)
    is_word = tf.range(tf.shape(keys)[1]) < own.count[:, None]
    order = tf.argsort(tf.where(is_word, keys, 2.0), stable=True)
    sizes = tf.gather(sizes, order, batch_dims=1)
    # In the places behind the last word nothing is drawn.
    sizes = tf.where(is_word, sizes, -1.0)
    order = tf.where(is_word, order, 0)
    own_left, state = _take(
        own,
        order,
        sizes,
        tf.gather(left, rows),
        state,
        masking,
    )
    return tf.tensor_scatter_nd_update(left, rows[:, None], own_left), state


def _take(
    words: Words,
    drawn: tf.Tensor,
    sizes: tf.Tensor,
    left: tf.Tensor,
    state: tf.Tensor,
    masking: MaskingConfig,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Takes n-grams at words that are drawn, in all rows at once.

    Args:
      words: all words, and those of each of R rows.
      drawn: int32 [R, C], numbers of words in their rows.
      sizes: float32 [R, C], draws of the number of words of each n-gram; -1: no words.
      left: int32 [R], rests of the budgets.
      state: int8 [N + ngram + 1], of all words.
      masking: how to mask.
    Returns:
      `left` and `state` after it.
    """
    # Sizes [C, ngram, R]: the words of each n-gram, and the tokens up to their ends.
    numbers = tf.range(masking.ngram)[:, None]
    word = drawn + words.first[:, None]
    reach = _reach(words, word, sizes, masking)
    word = tf.transpose(word)[:, None] + numbers
    # An n-gram may not begin at a word that was seen, nor have a chosen one.
    bound = tf.where(numbers == 0, tf.constant(_SEEN, tf.int8), _CHOSEN)
    unseen = tf.where(numbers == 0, tf.constant(1, tf.int8), 0)
    rounds = tf.shape(drawn)[1]

    def goes_on(step: tf.Tensor, left: tf.Tensor, state: tf.Tensor) -> tf.Tensor:
        return (step < rounds) & tf.reduce_any(left > 0)

    def take(
        step: tf.Tensor, left: tf.Tensor, state: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        places, ends = word[step], reach[step]
        states = tf.gather(state, places)
        fits = ends <= left
        fits &= ~tf.reduce_any(fits & (states >= bound), axis=0)
        change = tf.cast(fits, tf.int8) * _CHOSEN + tf.cast(states < unseen, tf.int8)
        # Added, not set: the window of a row may end in the words of the next row.
        state = tf.tensor_scatter_nd_add(state, places[:, :, None], change)
        left -= tf.reduce_max(tf.where(fits, ends, 0), axis=0)
        return step + 1, left, state

    _, left, state = tf.while_loop(
        goes_on, take, (tf.constant(0), left, state), parallel_iterations=1
    )
    return left, state


def _reach(
    words: Words, word: tf.Tensor, sizes: tf.Tensor, masking: MaskingConfig
) -> tf.Tensor:
    """Returns the tokens from an n-gram's first to the end of each of its words.

    Args:
      words: all words, and those of each of R rows.
      word: int32 [R, C], the first word of each n-gram.
      sizes, masking: as for `_take`.
    Returns:
      int32 [C, ngram, R]; `_FAR` for words that are not drawn, or in another segment.
    """
    # The n-gram has an n-th word if its draw is at least the n-th bound.
    bounds = [0.0, *np.cumsum(masking.ngram_probabilities())[:-1].tolist()]
    first = tf.cast(tf.gather(words.begin, word), tf.int32)
    separator, last = words.separator[:, None], words.last[:, None]
    end = tf.where(first < separator, separator, last)
    reach, following = [], first
    for number, bound in enumerate(bounds, start=1):
        is_drawn = (sizes >= bound) & (following < end)
        following = tf.cast(tf.gather(words.begin, word + number), tf.int32)
        reach.append(tf.where(is_drawn, tf.minimum(following, end) - first, _FAR))
    return tf.stack([tf.transpose(ends) for ends in reach], axis=1)


def _chosen_places(words: Words, state: tf.Tensor, size: int) -> tf.Tensor:
    """Returns the places of the tokens of chosen words, rising, int32 [M].

    Args:
      words: N words.
      state: int8 [N + ngram + 1].
      size: S, places of a row.
    """
    chosen = tf.where(state >= _CHOSEN)[:, 0]
    begin = tf.cast(tf.gather(words.begin, chosen), tf.int32)
    rows = begin // size
    separator, last = tf.gather(words.separator, rows), tf.gather(words.last, rows)
    following = tf.cast(tf.gather(words.begin, chosen + 1), tf.int32)
    end = tf.minimum(following, tf.where(begin < separator, separator, last))
    return tf.ragged.range(begin, end).flat_values
