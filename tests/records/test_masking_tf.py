"""Masks drawn while reading follow the paper's distributions, as the static ones do."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.records.draws_tf import draw_range
from albert_tf.records.masking_config import MaskingConfig
from albert_tf.records.masking_tf import masked_rows
from albert_tf.records.ngrams_tf import draws_layout
from data_prep.pretraining.masking import mask_rows
from helpers import compact_rows
from helpers.compact_rows import CLS, FIRST, LAST, MASK, SEP

LENGTH, RATE = 129, 0.15
CONFIG = MaskingConfig(max_predictions_per_seq=19)


def mask(
    text, config=CONFIG, seed=0, length=LENGTH, objective="sop", labels=None, cut_to=0
):
    rows = compact_rows.serialized(compact_rows.columns(*text, labels))
    zero = tf.constant(0, tf.int64)
    columns = cut_to or length
    more = draw_range((seed, 1), zero, len(rows), 4 * columns)
    numbers = draws_layout(columns, config).total
    made = masked_rows(
        tf.constant(rows),
        draw_range((seed, 0), zero, len(rows), numbers),
        lambda chosen: tf.gather(more[:, : 2 * columns], chosen),
        tf.fill([len(rows)], tf.constant(config.masked_lm_prob, tf.float64)),
        compact_rows.rows_format(length, objective),
        config,
        cut_to,
    )
    return {name: value.numpy() for name, value in made.items()}


@pytest.fixture(scope="module")
def many():
    """Rows with over 100,000 masked tokens, and the same rows masked statically."""
    text = compact_rows.pairs(11_000, LENGTH, np.random.default_rng(1))
    made = mask(text)
    restored = made["input_ids"].copy()
    rows, slots = np.nonzero(made["masked_lm_weights"])
    places = rows, made["masked_lm_positions"][rows, slots]
    restored[places] = made["masked_lm_ids"][rows, slots]
    starts = np.zeros(restored.shape, bool)
    _, flags, ranges_a, ranges_b = text
    swapped = made["next_sentence_labels"][:, 0] == 1
    for row, (a, b) in enumerate(zip(ranges_a, ranges_b, strict=True)):
        first, second = (b, a) if swapped[row] else (a, b)
        column = 1
        for begin, end in (first, second):
            starts[row, column : column + end - begin] = flags[begin:end]
            starts[row, column] = True
            column += end - begin + 1
    static = mask_rows(
        restored,
        restored >= FIRST,
        starts,
        CONFIG,
        mask_id=MASK,
        ordinary_ids=np.arange(FIRST, LAST),
        rng=np.random.default_rng(2),
    )
    assert len(rows) > 100_000
    return made, restored, starts, places, static


def runs(weights, positions, starts):
    """Numbers of words in runs of masked words next to each other, by their length."""
    chosen = np.zeros(starts.shape, bool)
    rows, slots = np.nonzero(weights)
    chosen[rows, positions[rows, slots]] = True
    edges = np.diff(np.pad(chosen, ((0, 0), (1, 1))).astype(int), axis=1)
    words = np.cumsum(np.pad(starts & chosen, ((0, 0), (1, 0))), axis=1)
    lengths = words[edges == -1] - words[edges == 1]
    return np.bincount(lengths.clip(max=8), minlength=9) / len(lengths)


def test_runs_of_masked_words_are_as_long_as_those_of_static_masks(many):
    made, _, starts, _, static = many
    found = runs(made["masked_lm_weights"], made["masked_lm_positions"], starts)
    expected = runs(static.masked_lm_weights, static.masked_lm_positions, starts)
    assert found == pytest.approx(expected, abs=0.01)


def test_ngrams_are_six_to_three_to_two():
    # With a small budget hardly any two n-grams touch, and none is shortened but at the
    # end of the budget.
    count = 3000
    ends = np.arange(1, count + 1) * 126
    ids = np.random.default_rng(3).integers(FIRST, LAST, ends[-1])
    text = (
        ids,
        np.ones(len(ids), bool),
        *(np.stack([ends - part, ends - part + 63], axis=1) for part in (126, 63)),
    )
    config = MaskingConfig(max_predictions_per_seq=3, masked_lm_prob=0.02)
    made = mask(text, config)
    starts = (made["input_ids"] >= FIRST) | (made["input_ids"] == MASK)
    static = mask_rows(
        np.where(made["input_ids"] == MASK, FIRST, made["input_ids"]),
        starts,
        starts,
        config,
        mask_id=MASK,
        ordinary_ids=np.arange(FIRST, LAST),
        rng=np.random.default_rng(4),
    )
    found = runs(made["masked_lm_weights"], made["masked_lm_positions"], starts)
    expected = runs(static.masked_lm_weights, static.masked_lm_positions, starts)
    assert found == pytest.approx(expected, abs=0.03)
    # A run of three words is one n-gram, but for two that touch by chance.
    whole = np.mean(np.ptp(made["masked_lm_positions"], axis=1) == 2)
    assert whole == pytest.approx(2 / 11, abs=0.025)


def test_masked_tokens_are_split_eighty_ten_ten(many):
    made, restored, _, places, _ = many
    new, old = made["input_ids"][places], restored[places]
    assert np.mean(new == MASK) == pytest.approx(0.8, abs=0.01)
    assert np.mean(new == old) == pytest.approx(0.1, abs=0.01)
    drawn = new[(new != MASK) & (new != old)]
    counts = np.bincount(drawn, minlength=LAST)
    assert counts[:FIRST].sum() == 0 and np.mean(counts[FIRST:] > 0) > 0.99
    assert counts.max() < 5 * counts[FIRST:].mean()
    outside = np.ones(new.shape, bool)
    changed = made["input_ids"] != restored
    changed[places] = False
    assert outside.all() and not changed.any()


def test_other_shares_of_replacements_are_kept():
    text = compact_rows.pairs(900, LENGTH, np.random.default_rng(5))
    config = MaskingConfig(
        max_predictions_per_seq=19,
        replace_with_mask=0.5,
        replace_with_random=0.3,
        replace_with_keep=0.2,
    )
    made = mask(text, config)
    rows, slots = np.nonzero(made["masked_lm_weights"])
    new = made["input_ids"][rows, made["masked_lm_positions"][rows, slots]]
    labels = made["masked_lm_ids"][rows, slots]
    assert np.mean(new == MASK) == pytest.approx(0.5, abs=0.03)
    assert np.mean(new == labels) == pytest.approx(0.2, abs=0.03)


def test_budgets_are_those_of_static_masks(many):
    made, _, _, _, static = many
    lengths = made["input_mask"].sum(axis=1)
    budget = np.clip(np.rint(lengths * RATE), 1, 19)
    found = made["masked_lm_weights"].sum(axis=1)
    assert np.all((found >= 1) & (found <= budget))
    share = found.sum() / budget.sum()
    assert share > 0.99
    assert share == pytest.approx(static.masked_lm_weights.sum() / budget.sum(), 0.002)


def test_words_are_masked_whole_and_within_the_text(many):
    made, restored, starts, places, _ = many
    is_text = restored >= FIRST
    words = np.where(is_text, starts.ravel().cumsum().reshape(starts.shape), 0)
    chosen = np.zeros(starts.shape, bool)
    chosen[places] = True
    assert not np.any(chosen & ~is_text)
    sizes = np.bincount(words[words > 0])
    masked = np.bincount(words[chosen], minlength=len(sizes))
    in_part = (masked > 0) & (masked < sizes)
    # Only rows in which no word fits the budget are masked token by token.
    rows = np.searchsorted(words.max(axis=1), np.flatnonzero(in_part))
    budget = np.clip(np.rint(made["input_mask"].sum(axis=1) * RATE), 1, 19)
    for row in np.unique(rows):
        assert sizes[np.unique(words[row][is_text[row]])].min() > budget[row]


def test_both_orders_of_segments_are_drawn_for_sop_alone():
    text = compact_rows.pairs(2000, 31, np.random.default_rng(6))
    sop = mask(text, length=31)["next_sentence_labels"]
    assert sop.mean() == pytest.approx(0.5, abs=0.05)
    labels = np.random.default_rng(7).integers(2, size=2000)
    nsp = mask(text, length=31, objective="nsp", labels=labels)
    assert np.array_equal(nsp["next_sentence_labels"][:, 0], labels)
    first = text[3][:, 0] - text[2][:, 0]
    assert np.array_equal(nsp["segment_ids"].argmax(axis=1), first + 2)
    assert not mask(text, length=31, objective="none")["next_sentence_labels"].any()


def test_rows_that_are_longer_than_the_sidecar_says_are_an_error():
    text = compact_rows.pairs(20, 60, np.random.default_rng(8))
    with pytest.raises(tf.errors.InvalidArgumentError, match="than its sidecar says"):
        mask(text, length=20)


@pytest.mark.parametrize("cut_to", [9, 24])
def test_the_longer_segment_loses_its_last_tokens_whatever_the_order(cut_to):
    ids, _, ranges_a, ranges_b = text = compact_rows.pairs(
        60, 31, np.random.default_rng(3)
    )
    config = MaskingConfig(max_predictions_per_seq=4)
    made = mask(text, config, length=31, cut_to=cut_to)
    assert made["input_ids"].shape == (60, cut_to)
    labels = made["next_sentence_labels"][:, 0]
    assert 0 < labels.sum() < 60
    for row, (a, b) in enumerate(zip(ranges_a, ranges_b, strict=True)):
        first, second = (
            ids[slice(*part)] for part in ((b, a) if labels[row] else (a, b))
        )
        while len(first) + len(second) > cut_to - 3:
            if len(first) > len(second):
                first = first[:-1]
            else:
                second = second[:-1]
        restored = made["input_ids"][row].copy()
        used = made["masked_lm_weights"][row] > 0
        places = made["masked_lm_positions"][row][used]
        restored[places] = made["masked_lm_ids"][row][used]
        real = made["input_mask"][row].astype(bool)
        packed = [CLS, *first, SEP, *second, SEP]
        assert restored[real].tolist() == packed
        assert used.any() and set(places) <= set(np.flatnonzero(restored >= FIRST))
