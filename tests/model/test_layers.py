"""Projections, LayerNorm and initial values."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.config import ACTIVATIONS
from albert_tf.model.layers import Initializer, LayerNorm, Projection


@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_projection_is_a_product_of_matrices(jit_compile):
    layer = Projection("toy", (5, 6), Initializer(0.5, seed=1))
    layer.bias.assign(tf.range(6, dtype=tf.float32))
    inputs = tf.random.stateless_normal([2, 7, 5], [1, 2])
    outputs = tf.function(layer, jit_compile=jit_compile)(inputs)
    expected = np.einsum("bsi,io->bso", inputs, layer.kernel) + np.arange(6)
    np.testing.assert_allclose(outputs, expected, atol=1e-5)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_activation_of_a_configuration_is_known(name):
    layer = Projection("toy", (2, 2), Initializer(0.5, seed=1), name)
    layer.kernel.assign(tf.eye(2))
    negative, positive = layer(tf.constant([[-1.0, 2.0]])).numpy()[0]
    expected = {
        "gelu": (-0.1588, 1.9546),
        "gelu_erf": (-0.1587, 1.9545),
        "relu": (0, 2),
        "tanh": (np.tanh(-1), np.tanh(2)),
        "linear": (-1, 2),
    }
    np.testing.assert_allclose((negative, positive), expected[name], atol=5e-5)


def test_initial_values_depend_on_seed_and_name_alone():
    one, other = Initializer(0.5, seed=1), Initializer(0.5, seed=1)
    other.weights("b", (3, 4))
    first = one.weights("a", (3, 4))
    assert np.array_equal(first, other.weights("a", (3, 4)))
    assert not np.array_equal(first, one.weights("b", (3, 4)))
    assert not np.array_equal(first, Initializer(0.5, seed=2).weights("a", (3, 4)))
    assert abs(first.numpy()).max() <= 1.0


def test_layer_norm_starts_as_plain_normalization():
    layer = LayerNorm("toy", 8, Initializer(0.5, seed=1))
    rows = layer(tf.random.stateless_normal([3, 8], [1, 2], mean=4.0)).numpy()
    np.testing.assert_allclose(rows.mean(-1), 0, atol=1e-5)
    np.testing.assert_allclose(rows.std(-1), 1, atol=1e-5)
    assert [v.name for v in layer.variables] == ["toy/gamma:0", "toy/beta:0"]
