"""Vectors of texts, against numpy, from every layer."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.sentence_vectors import EmbeddingModel, layer_output, pool
from helpers.tiny import tiny_config

CONFIG = tiny_config(num_hidden_layers=3, initializer_range=0.3)


@pytest.fixture(scope="module")
def encoder():
    return AlbertEncoder(CONFIG, seed=2)


@pytest.fixture
def batch():
    rng = np.random.default_rng(4)
    lengths = np.array([[7], [3], [5], [1], [6]])
    mask = (np.arange(7) < lengths).astype(np.int32)
    ids = rng.integers(5, 61, (5, 7)).astype(np.int32) * mask
    return {"input_ids": ids, "input_mask": mask, "segment_ids": np.zeros_like(ids)}


def of_each(encoder, batch, pooling, layer):
    """The vector of each row alone, without padding."""
    vectors = []
    for row in range(5):
        length = batch["input_mask"][row].sum()
        alone = {n: v[row : row + 1, :length] for n, v in batch.items()}
        encoded = encoder({n: tf.constant(v) for n, v in alone.items()})
        if pooling == "pooled":
            vectors.append(encoded["pooled_output"].numpy()[0])
            continue
        output = layer_output(encoder, encoded, layer).numpy()[0]
        vectors.append(output.mean(axis=0) if pooling == "mean" else output[0])
    return np.array(vectors)


@pytest.mark.parametrize("layer", [-1, 0, 1, 2, -4])
@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_padding_never_counts(encoder, batch, pooling, layer):
    tensors = {name: tf.constant(value) for name, value in batch.items()}
    found = pool(encoder, encoder(tensors), tensors["input_mask"], pooling, layer)
    expected = of_each(encoder, batch, pooling, layer)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.ptp(expected, axis=0).max() > 0.1


def test_layers_are_counted_from_both_ends(encoder, batch):
    tensors = {name: tf.constant(value) for name, value in batch.items()}
    encoded = encoder(tensors)
    for place in range(4):
        first = layer_output(encoder, encoded, place)
        last = layer_output(encoder, encoded, place - 4)
        assert np.array_equal(first, last)
    outputs = [layer_output(encoder, encoded, place).numpy() for place in range(4)]
    assert np.array_equal(outputs[3], encoded["sequence_output"])
    assert all(np.abs(a - b).max() > 0.1 for a, b in itertools.pairwise(outputs))
    for wrong in (4, -5):
        with pytest.raises(ValueError, match=r"0 \(embeddings\) to 3.*Received"):
            layer_output(encoder, encoded, wrong)
    with pytest.raises(ValueError, match="Only the last layer has a pooled output"):
        pool(encoder, encoded, tensors["input_mask"], "pooled", 1)


@pytest.mark.parametrize("pooling", ["mean", "first", "pooled"])
def test_texts_of_an_example_have_the_vectors_that_they_have_alone(batch, pooling):
    model = EmbeddingModel(CONFIG, pooling=pooling, seed=2)
    tensors = {name: tf.constant(value) for name, value in batch.items()}
    found = model(tensors)["vectors"].numpy()
    raw = of_each(model.encoder, batch, pooling, -1)
    units = raw / np.linalg.norm(raw, axis=1, keepdims=True)
    np.testing.assert_allclose(found, units, atol=1e-5)
    # Two texts an example: the rows of the batch and those before them.
    pairs = {
        n: tf.stack([v, tf.roll(v, 1, axis=0)], axis=1) for n, v in tensors.items()
    }
    both = model(pairs)["vectors"].numpy()
    np.testing.assert_allclose(both[:, 0], found, atol=1e-5)
    np.testing.assert_allclose(both[:, 1], np.roll(found, 1, axis=0), atol=1e-5)
    again = EmbeddingModel.from_config(model.get_config())
    assert again.get_config() == model.get_config()
