"""Dropout: masks are functions of seed and site, whose numbers never change."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.dropout import (
    EMBEDDING_SITE,
    HEAD_SITE,
    Dropout,
    block_sites,
    resolve_seed,
)
from albert_tf.model.heads import ClassificationModel
from helpers.tiny import tiny_config

SEED = tf.constant([5, 6])


def test_sites_are_numbered_as_they_always_were():
    """Other numbers would change the masks of a run that resumes."""
    assert (EMBEDDING_SITE, HEAD_SITE) == (0, 1_073_741_824)
    assert block_sites(0) == (1, 2, 3) and block_sites(23) == (70, 71, 72)


def test_a_mask_is_a_function_of_seed_and_site():
    values = tf.ones([7, 11])
    dropout = Dropout(0.4)
    first = dropout(values, SEED, 3)
    assert np.array_equal(first, dropout(values, SEED, tf.constant(3)))
    assert not np.array_equal(first, dropout(values, SEED, 4))
    assert set(np.unique(first)) == {0, np.float32(1 / 0.6)}


def test_the_masks_are_those_of_earlier_releases():
    dropped = Dropout(0.5)(tf.ones([16]), SEED, block_sites(1).feed_forward)
    assert "".join("01"[int(v > 0)] for v in dropped) == "1000001100001110"


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_nothing_is_dropped_without_a_rate_or_a_seed(rate):
    values = tf.ones([5])
    assert Dropout(rate)(values, None, 0) is values
    assert Dropout(0.0)(values, SEED, 0) is values


def test_float32_stays_float32_under_bfloat16():
    dropout = Dropout(0.3, dtype="mixed_bfloat16")
    assert dropout(tf.ones([5]), SEED, 0).dtype == tf.float32


def test_a_fresh_seed_is_taken_only_in_training_and_only_if_none_is_given():
    assert resolve_seed(False, SEED) is None and resolve_seed(None, None) is None
    assert resolve_seed(True, SEED) is SEED
    fresh = [resolve_seed(True, None).numpy().tolist() for _ in range(2)]
    assert fresh[0] != fresh[1]


def test_outputs_under_dropout_are_those_of_earlier_releases():
    config = tiny_config(
        num_hidden_layers=2,
        hidden_dropout_prob=0.3,
        attention_probs_dropout_prob=0.2,
        initializer_range=0.5,
    )
    model = ClassificationModel(config, num_outputs=2, seed=3, head_dropout=0.4)
    ids = tf.reshape(tf.range(5, 19), [2, 7])
    batch = {"input_ids": ids, "input_mask": ids * 0 + 1, "segment_ids": ids * 0}
    logits = model(batch, training=True, dropout_seed=SEED)["logits"]
    expected = [[1.4414337, -1.4306365], [-2.1764085, -3.0831189]]
    np.testing.assert_allclose(logits, expected, atol=1e-5)
