"""Masks follow the paper's distributions and never break their own rules."""

import numpy as np
import pytest

from albert_tf.records.masking_config import MaskingConfig
from data_prep.pretraining.masking import mask_rows, segment_starts

PAD, CLS, SEP, MASK, FIRST, LAST = 0, 2, 3, 4, 5, 700
ORDINARY = np.arange(FIRST, LAST)


def make_rows(count, length, rng):
    """Rows of two segments; ids under 200 continue a word. int [R, S]."""
    ids = rng.integers(FIRST, LAST, (count, length))
    ids[:, 0] = CLS
    for row, middle, end in zip(
        ids,
        rng.integers(2, length // 2, count),
        rng.integers(length // 2 + 2, length, count),
        strict=True,
    ):
        row[[middle, end]] = SEP
        row[end + 1 :] = PAD
    return ids


def mask(ids, config, seed=0):
    return mask_rows(
        ids,
        ids >= FIRST,
        ids >= 200,
        config,
        mask_id=MASK,
        ordinary_ids=ORDINARY,
        rng=np.random.default_rng(seed),
    )


@pytest.fixture(scope="module")
def many():
    """Rows with over 400,000 masked pieces, and their masks."""
    ids = make_rows(15_000, 257, np.random.default_rng(1))
    config = MaskingConfig(max_predictions_per_seq=39)
    masked = mask(ids, config)
    assert masked.masked_lm_weights.sum() > 400_000
    return ids, config, masked


def chosen_pieces(masked, shape):
    """bool [R, S], True where a row has a prediction."""
    chosen = np.zeros(shape, bool)
    rows, slots = np.nonzero(masked.masked_lm_weights)
    chosen[rows, masked.masked_lm_positions[rows, slots]] = True
    return chosen


def words_of(ids):
    """Number of the word of each piece, -1 outside the text; int [R, S]."""
    is_text = ids >= FIRST
    starts = is_text & ((ids >= 200) | segment_starts(is_text))
    return np.where(is_text, starts.ravel().cumsum().reshape(ids.shape), -1)


def test_lengths_are_drawn_six_to_three_to_two(many):
    drawn = many[2].ngrams_drawn
    assert drawn / drawn.sum() == pytest.approx(np.array([6, 3, 2]) / 11, rel=0.02)


def test_reversed_weights_make_long_ngrams_likelier():
    config = MaskingConfig(ngram=4, favor_shorter_ngram=False)
    ids = make_rows(2000, 129, np.random.default_rng(2))
    drawn = mask(ids, config).ngrams_drawn
    assert drawn / drawn.sum() == pytest.approx(np.array([3, 4, 6, 12]) / 25, rel=0.05)


def test_ngrams_of_one_piece_words_are_runs_of_the_placed_lengths():
    # With a budget far under the row's length hardly any two n-grams touch.
    ids = np.random.default_rng(3).integers(200, LAST, (400, 511))
    ids[:, 0], ids[:, -1] = CLS, SEP
    masked = mask(ids, MaskingConfig(max_predictions_per_seq=7))
    chosen = chosen_pieces(masked, ids.shape)
    edges = np.diff(chosen.astype(int), axis=1)
    runs = np.nonzero(edges == -1)[1] - np.nonzero(edges == 1)[1]
    counts = np.bincount(np.minimum(runs, 3), minlength=4)[1:]
    assert counts == pytest.approx(masked.ngrams_placed, rel=0.1)
    assert masked.ngrams_placed @ [1, 2, 3] == masked.masked_lm_weights.sum()


def test_masked_pieces_are_split_eighty_ten_ten(many):
    ids, _, masked = many
    split = masked.replacements / masked.replacements.sum()
    assert split == pytest.approx([0.8, 0.1, 0.1], abs=0.01)
    new = masked.input_ids[chosen_pieces(masked, ids.shape)]
    old = ids[chosen_pieces(masked, ids.shape)]
    assert np.mean(new == MASK) == pytest.approx(0.8, abs=0.01)
    assert np.mean(new == old) == pytest.approx(0.1, abs=0.01)


def test_replacements_are_ordinary_pieces_and_cover_them_evenly(many):
    ids, _, masked = many
    changed = masked.input_ids[(masked.input_ids != ids) & (masked.input_ids != MASK)]
    counts = np.bincount(changed, minlength=LAST)
    assert counts[:FIRST].sum() == 0
    assert np.mean(counts[FIRST:] > 0) > 0.99
    assert counts[FIRST:].max() < 5 * counts[FIRST:].mean()


def test_positions_are_sorted_unique_and_within_the_text(many):
    ids, config, masked = many
    budget = np.clip(np.rint((ids != PAD).sum(axis=1) * 0.15), 1, 39)
    for row in range(len(ids)):
        count = int(masked.masked_lm_weights[row].sum())
        assert 1 <= count <= budget[row]
        assert masked.masked_lm_weights[row].tolist() == [1.0] * count + [0.0] * (
            config.max_predictions_per_seq - count
        )
        positions = masked.masked_lm_positions[row]
        assert np.all(np.diff(positions[:count]) > 0)
        assert np.all(ids[row, positions[:count]] >= FIRST)
        assert (
            not positions[count:].any() and not masked.masked_lm_ids[row, count:].any()
        )


def test_budgets_are_used_up_to_the_last_piece(many):
    ids, _, masked = many
    budget = np.clip(np.rint((ids != PAD).sum(axis=1) * 0.15), 1, 39)
    assert masked.masked_lm_weights.sum() > 0.999 * budget.sum()


def test_labels_put_back_give_the_rows_exactly(many):
    ids, _, masked = many
    restored = masked.input_ids.copy()
    rows, slots = np.nonzero(masked.masked_lm_weights)
    restored[rows, masked.masked_lm_positions[rows, slots]] = masked.masked_lm_ids[
        rows, slots
    ]
    assert np.array_equal(restored, ids)
    assert not np.array_equal(masked.input_ids, ids)


def test_words_are_masked_whole(many):
    ids, _, masked = many
    chosen = chosen_pieces(masked, ids.shape)
    words = words_of(ids)
    pieces = np.bincount(words[words > 0])
    chosen_of_word = np.bincount(words[chosen], minlength=len(pieces))
    assert np.all((chosen_of_word == 0) | (chosen_of_word == pieces))


def test_no_ngram_crosses_the_separator():
    # Segments of two words, n = 3 for certain: what is placed cannot be longer than 2.
    ids = np.full((500, 7), 300)
    ids[:, [0, 3, 6]] = CLS, SEP, SEP
    config = MaskingConfig(ngram=1000, favor_shorter_ngram=False, masked_lm_prob=0.9)
    masked = mask(ids, config)
    assert masked.ngrams_drawn[2:].sum() > 0
    assert masked.ngrams_placed[2:].sum() == 0 and masked.ngrams_placed[1] > 0


def test_first_piece_of_a_segment_is_a_word_of_its_own():
    # Continuation pieces right after [SEP] must not belong to the word before it.
    ids = np.array([[CLS, 300, 100, SEP, 101, 102, 300, SEP]] * 200)
    masked = mask(
        ids, MaskingConfig(ngram=1, max_predictions_per_seq=2, masked_lm_prob=0.3)
    )
    chosen = {tuple(np.flatnonzero(row)) for row in chosen_pieces(masked, ids.shape)}
    assert chosen == {(1, 2), (4, 5), (6,)}


def test_without_whole_words_each_piece_is_chosen_alone():
    ids = np.full((300, 40), 100)
    ids[:, 0], ids[:, -1] = CLS, SEP
    config = MaskingConfig(ngram=1, do_whole_word_mask=False)
    chosen = chosen_pieces(mask(ids, config), ids.shape)
    assert np.all(chosen.sum(axis=1) == 6)
    # Each place of the text is as likely as any other.
    assert chosen[:, 1:-1].mean(axis=0) == pytest.approx(np.full(38, 6 / 38), abs=0.09)


def test_a_row_whose_every_word_is_over_its_budget_is_masked_piece_by_piece():
    ids = np.full((5, 30), 100)
    ids[:, 0], ids[:, -1] = CLS, SEP
    masked = mask(ids, MaskingConfig())
    assert masked.masked_lm_weights.sum(axis=1).tolist() == [4.0] * 5


def test_no_rows_give_no_masks():
    masked = mask(np.zeros((0, 9), int), MaskingConfig())
    assert masked.input_ids.shape == (0, 9)
    assert masked.masked_lm_positions.shape == (0, 20)


def test_the_generator_alone_decides():
    ids = make_rows(20, 60, np.random.default_rng(6))
    first, again, other = (mask(ids, MaskingConfig(), seed) for seed in (7, 7, 8))
    assert np.array_equal(first.input_ids, again.input_ids)
    assert np.array_equal(first.masked_lm_positions, again.masked_lm_positions)
    assert not np.array_equal(first.masked_lm_positions, other.masked_lm_positions)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ngram": 0}, "ngram must be from 1 to 1,000,000. Received 0"),
        ({"ngram": 2**63}, "Received 9223372036854775808"),
        ({"max_predictions_per_seq": 0}, "max_predictions_per_seq must be from 1"),
        ({"masked_lm_prob": 15}, "masked_lm_prob .* Received 15"),
    ],
)
def test_impossible_settings_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        MaskingConfig(**change)
