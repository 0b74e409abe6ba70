"""Compact rows are packed as data creation packs the same segments."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.records.compact import pack_compact
from albert_tf.records.compact_tf import pack_text, parse_text
from albert_tf.text import packing
from helpers import compact_rows


@pytest.mark.parametrize("vocab_size", [700, 70_000])
def test_rows_have_the_layout_of_packing(vocab_size):
    length, count = 43, 90
    rng = np.random.default_rng(vocab_size)
    ids, starts, ranges_a, ranges_b = compact_rows.pairs(count, length, rng)
    ids = rng.integers(compact_rows.FIRST, vocab_size, len(ids))
    rows_format = dataclasses.replace(
        compact_rows.rows_format(length), vocab_size=vocab_size
    )
    labels = rng.integers(2, size=count)
    made = {
        **pack_compact(ids, starts, ranges_a, ranges_b, vocab_size),
        "next_sentence_labels": labels[:, None],
    }
    text = parse_text(tf.constant(compact_rows.serialized(made)), rows_format)
    swapped = rng.random(count) < 0.5
    found = pack_text(text, rows_format, tf.constant(swapped))
    first = np.where(swapped[:, None], ranges_b, ranges_a)
    second = np.where(swapped[:, None], ranges_a, ranges_b)
    special = {"cls_id": compact_rows.CLS, "sep_id": compact_rows.SEP}
    packed, marks = (
        packing.pack_rows(values, first, second, length, pad_id=pad, **others)
        for values, pad, others in (
            (ids, compact_rows.PAD, special),
            (starts.astype(int), 0, {"cls_id": 0, "sep_id": 0}),
        )
    )
    assert np.array_equal(found.input_ids, packed["input_ids"])
    assert np.array_equal(found.last, packed["input_mask"].sum(axis=1) - 1)
    size = packed["segment_ids"].sum(axis=1)
    assert np.array_equal(found.separator, found.last - size)
    expected = marks["input_ids"] == 1
    expected[:, 1] = True
    expected[np.arange(count), found.separator.numpy() + 1] = True
    assert np.array_equal(found.starts, expected)
    assert np.array_equal(found.label, np.where(swapped, 1, labels))
