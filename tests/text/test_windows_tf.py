"""The windows of a graph are those of data preparation."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.text import packing
from albert_tf.text.windows import WindowRule, windows_of
from albert_tf.text.windows_tf import pack_windows


@pytest.mark.parametrize("pair", [False, True])
def test_random_texts_have_the_same_windows(pair):
    rng = np.random.default_rng(9)
    for _ in range(25):
        rule = WindowRule(*(int(rng.integers(*b)) for b in ((5, 16), (1, 14), (1, 6))))
        texts = [
            [rng.integers(5, 99, rng.integers(0, 40)).tolist() for _ in range(7)]
            for _ in range(1 + pair)
        ]
        ragged = [tf.ragged.constant(each, tf.int32, ragged_rank=1) for each in texts]
        second = ragged[1] if pair else None
        batch, truncated = pack_windows(ragged[0], second, rule, cls_id=2, sep_id=3)
        width = batch["input_ids"].shape[2]
        for row in range(7):
            expected = windows_of(texts[0][row], texts[1][row] if pair else None, rule)
            assert bool(truncated[row]) == expected.truncated
            for place in range(batch["input_ids"].shape[1]):
                found = {
                    name: values[row, place].numpy() for name, values in batch.items()
                }
                if place >= len(expected.segments):
                    assert not found["input_mask"].any()
                    continue
                packed = packing.pack_segments(
                    *expected.segments[place],
                    max_seq_length=width,
                    cls_id=2,
                    sep_id=3,
                    pad_id=0,
                )
                for name, values in found.items():
                    assert values.tolist() == packed[name].tolist(), name


def test_an_empty_batch_is_one():
    rule = WindowRule(9, 4, 3)
    none = tf.RaggedTensor.from_row_lengths(
        tf.zeros([0], tf.int32), tf.zeros([0], tf.int64)
    )
    batch, truncated = pack_windows(none, None, rule, cls_id=2, sep_id=3)
    assert batch["input_ids"].shape[0] == 0 and truncated.shape == (0,)
