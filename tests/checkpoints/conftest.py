"""Fixtures of the tests of checkpoints."""

import numpy as np
import pytest
import tensorflow as tf

from helpers.transformers_models import VOCABULARY


@pytest.fixture
def batch():
    rng = np.random.default_rng(4)
    length = 9
    values = {
        "input_ids": rng.integers(0, VOCABULARY, (2, length)),
        "input_mask": np.arange(length) < [[length], [7]],
        "segment_ids": np.arange(length) >= [[3], [5]],
        "masked_lm_positions": np.arange(length)[np.newaxis].repeat(2, 0),
    }
    return {name: tf.constant(value, tf.int32) for name, value in values.items()}
