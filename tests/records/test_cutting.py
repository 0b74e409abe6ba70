"""Rows that are cut shorter, beside the same done row by row in plain Python."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.records.cutting import MASKED_TOKENS_CUT, cut_rows
from albert_tf.text import packing
from helpers.tiny import CLS_ID, PAD_ID, SEP_ID, random_rows

LENGTH, PREDICTIONS = 23, 7


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(7)
    rows = list(random_rows(60, rng, LENGTH, PREDICTIONS))
    # A row without padding, and one with a short segment.
    assert any(row["input_mask"].all() for row in rows)
    return rows


def batch_of(rows):
    return {
        name: tf.constant(np.stack([np.asarray(row[name]) for row in rows]))
        if name == "masked_lm_weights"
        else tf.constant(np.stack([row[name] for row in rows]), tf.int32)
        for name in rows[0]
    }


def cut_one(row, length):
    """The row cut by lists: removes the last token of the longer segment."""
    real = int(row["input_mask"].sum())
    ids, starts = row["input_ids"][:real].tolist(), row["token_boundary"][:real]
    separator = ids.index(SEP_ID)
    parts = [[*range(1, separator)], [*range(separator + 1, real - 1)]]
    while len(parts[0]) + len(parts[1]) + packing.SPECIAL_TOKENS_OF_PAIR > length:
        max(parts[1], parts[0], key=len).pop()
    places = [0, *parts[0], separator, *parts[1], real - 1]
    packed = packing.pack_segments(
        *[[ids[place] for place in part] for part in parts],
        length,
        cls_id=CLS_ID,
        sep_id=SEP_ID,
        pad_id=PAD_ID,
    )
    padding = [0] * (length - len(places))
    packed["token_boundary"] = [*starts[places], *padding]
    new_place = {old: new for new, old in enumerate(places)}
    masks = {"masked_lm_positions": [], "masked_lm_ids": [], "masked_lm_weights": []}
    for place, token, weight in zip(
        *(row[name].tolist() for name in masks), strict=True
    ):
        is_kept = weight > 0 and place in new_place
        masks["masked_lm_positions"].append(new_place[place] if is_kept else 0)
        masks["masked_lm_ids"].append(token if is_kept else 0)
        masks["masked_lm_weights"].append(weight if is_kept else 0)
    lost = row["masked_lm_weights"].sum() - sum(masks["masked_lm_weights"])
    labels = {"next_sentence_labels": row["next_sentence_labels"]}
    return {**packed, **masks, **labels, MASKED_TOKENS_CUT: lost}


@pytest.mark.parametrize("length", [5, 6, 11, 16, LENGTH - 1])
def test_rows_are_cut_as_one_by_one(rows, length):
    found = tf.function(cut_rows)(batch_of(rows), length)
    expected = [cut_one(row, length) for row in rows]
    assert found.keys() == expected[0].keys()
    for name, values in found.items():
        wanted = np.stack([row[name] for row in expected])
        np.testing.assert_array_equal(values, wanted, err_msg=name)
    assert found["input_ids"].shape == (60, length)
    lost = float(tf.reduce_sum(found[MASKED_TOKENS_CUT]))
    assert lost > 0 or length == LENGTH - 1


def test_masked_tokens_stay_masked_and_in_place(rows):
    cut = cut_rows(batch_of(rows), 11)
    whole = [dict(row) for row in rows]
    for row in whole:
        # The rows without masks.
        places = row["masked_lm_positions"][row["masked_lm_weights"] > 0]
        row["input_ids"] = row["input_ids"].copy()
        row["input_ids"][places] = row["masked_lm_ids"][: len(places)]
    unmasked = cut_rows(batch_of(whole), 11)["input_ids"].numpy()
    kept = cut["masked_lm_weights"].numpy() > 0
    positions = cut["masked_lm_positions"].numpy()
    found = np.take_along_axis(unmasked, positions, axis=1)[kept]
    np.testing.assert_array_equal(found, cut["masked_lm_ids"].numpy()[kept])
    changed = (unmasked != cut["input_ids"].numpy()).sum()
    assert changed == kept.sum() > 20


def test_the_cut_does_not_depend_on_the_label(rows):
    batch = batch_of(rows)
    swapped = {**batch, "next_sentence_labels": 1 - batch["next_sentence_labels"]}
    for name, values in cut_rows(swapped, 9).items():
        if name != "next_sentence_labels":
            np.testing.assert_array_equal(values, cut_rows(batch, 9)[name])
