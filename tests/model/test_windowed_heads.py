"""Classifiers of texts with several windows."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.heads import ClassificationModel
from albert_tf.model.windowed_heads import WindowedClassificationModel, pool_windows
from helpers.tiny import tiny_config

CONFIG = tiny_config(initializer_range=0.3)
COUNTS = [2, 4, 1]


@pytest.fixture
def batch():
    """Three texts of 2, 4 and 1 windows; the last ones are missing."""
    rng = np.random.default_rng(3)
    lengths = rng.integers(2, 8, (3, 4, 1))
    present = np.arange(4)[:, np.newaxis] < np.array(COUNTS)[:, np.newaxis, np.newaxis]
    mask = ((np.arange(7) < lengths) & present).astype(np.int32)
    ids = rng.integers(5, 61, (3, 4, 7)).astype(np.int32)
    segments = rng.integers(0, 2, (3, 4, 7)).astype(np.int32)
    values = {"input_ids": ids, "input_mask": mask, "segment_ids": segments}
    return {name: tf.constant(value) for name, value in values.items()}


@pytest.mark.parametrize("pooling", ["mean", "max", "first"])
def test_only_windows_that_there_are_count(batch, pooling):
    model = WindowedClassificationModel(
        CONFIG, num_outputs=5, window_pooling=pooling, seed=4
    )
    found = model(batch)["logits"].numpy()
    reduce = {"mean": np.mean, "max": np.max, "first": lambda v, axis: v[0]}[pooling]
    for row, count in enumerate(COUNTS):
        windows = {name: values[row, :count] for name, values in batch.items()}
        pooled = model.encoder(windows)["pooled_output"].numpy()
        vector = tf.constant(reduce(pooled, axis=0)[np.newaxis])
        np.testing.assert_allclose(found[row], model.head(vector)[0], atol=1e-5)
    other = dict(batch, input_ids=batch["input_ids"] * batch["input_mask"])
    np.testing.assert_allclose(model(other)["logits"], found, atol=1e-5)
    again = WindowedClassificationModel.from_config(model.get_config())
    assert again.get_config() == model.get_config()


def test_one_window_has_the_answer_of_the_plain_model(batch):
    plain = ClassificationModel(CONFIG, num_outputs=5, seed=4)
    windowed = WindowedClassificationModel(CONFIG, num_outputs=5, seed=4)
    one = {name: values[:, :1] for name, values in batch.items()}
    flat = {name: values[:, 0] for name, values in batch.items()}
    expected = plain(flat)["logits"]
    np.testing.assert_allclose(windowed(one)["logits"], expected, atol=1e-6)
    np.testing.assert_allclose(windowed(flat)["logits"], expected, atol=1e-6)


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_every_window_has_a_gradient(batch, pooling):
    vectors = tf.constant(np.random.default_rng(1).normal(size=(3, 4, 24)), tf.float32)
    present = tf.reduce_any(batch["input_mask"] > 0, axis=-1)
    with tf.GradientTape() as tape:
        tape.watch(vectors)
        total = tf.reduce_sum(pool_windows(vectors, present, pooling) ** 2)
    gradient = tf.reduce_max(tf.abs(tape.gradient(total, vectors)), axis=-1).numpy()
    assert ((gradient > 0) == present.numpy()).all()
