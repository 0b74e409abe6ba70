"""Packing in a graph is packing in Python."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.text import packing, packing_tf
from helpers import tiny


@pytest.mark.parametrize("shorten", ["longest", "first", "second"])
def test_packing_in_a_graph_is_packing(shorten):
    rng = np.random.default_rng(2)
    rows = [
        [rng.integers(5, 61, rng.integers(0, 14)).tolist() for _ in range(2)]
        for _ in range(40)
    ]
    first, second = (
        tf.ragged.constant(
            [row[place] for row in rows], tf.int32, row_splits_dtype=tf.int64
        )
        for place in range(2)
    )
    batch, truncated = packing_tf.pack(
        first, second, 16, cls_id=tiny.CLS_ID, sep_id=tiny.SEP_ID, shorten=shorten
    )
    room = 13
    for number, (a, b) in enumerate(rows):
        kept_a, kept_b = packing.truncate_longest_first(len(a), len(b), room)
        if shorten == "first":
            kept_b = min(len(b), room)
            kept_a = min(len(a), room - kept_b)
        elif shorten == "second":
            kept_a = min(len(a), room)
            kept_b = min(len(b), room - kept_a)
        expected = packing.pack_segments(
            a[:kept_a],
            b[:kept_b],
            batch["input_ids"].shape[1],
            cls_id=tiny.CLS_ID,
            sep_id=tiny.SEP_ID,
            pad_id=0,
        )
        for name, values in expected.items():
            assert batch[name][number].numpy().tolist() == values.tolist()
        cut = len(a) + len(b) > room
        assert bool(truncated[number]) == cut
