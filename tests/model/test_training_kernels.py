"""Kernels of training, with the numbers of plain ones wherever XLA compiles them."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model import kernels, training_kernels

ROWS, SIZE = 7, 5


def draw(*shapes, dtype="float32"):
    rng = np.random.default_rng(3)
    return [tf.cast(rng.normal(size=shape), dtype) for shape in shapes]


def run(function, inputs, weights, spec=None):
    """Output and gradients in a graph, whose shapes are fixed without a `spec`."""

    def compute(*inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            output = function(*inputs)
        return [output, *tape.gradient(output, inputs, weights)]

    graph = tf.function(compute, input_signature=spec, autograph=False)
    text = str(graph.get_concrete_function(*inputs).graph.as_graph_def())
    return graph(*inputs), "_XlaMustCompile" in text


def check(function, plain, inputs, dtype):
    [weights] = draw([ROWS, SIZE], dtype=dtype)
    expected, _ = run(plain, inputs, weights)
    fixed, compiled = run(function, inputs, weights)
    assert compiled == (not tf.config.list_logical_devices("GPU"))
    spec = [tf.TensorSpec([None] * x.shape.rank, x.dtype) for x in inputs]
    spec = [s if len(s.shape) == 2 else tf.TensorSpec([SIZE], s.dtype) for s in spec]
    varying, compiled = run(function, inputs, weights, spec)
    assert not compiled
    bound = 2e-5 if dtype == "float32" else 0.1
    for found in (fixed, varying):
        for one, other in zip(found, expected, strict=True):
            assert one.dtype == other.dtype
            one, other = (tf.cast(part, tf.float32) for part in (one, other))
            np.testing.assert_allclose(one, other, atol=bound)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gelu_of_a_sum(dtype):
    def plain(rows, bias):
        return kernels.gelu(rows + bias)

    inputs = draw([ROWS, SIZE], [SIZE], dtype=dtype)
    check(training_kernels.bias_gelu, plain, inputs, dtype)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("has_bias", [False, True])
def test_layer_normalization_of_a_sum(dtype, has_bias):
    def ours(rows, residual, gamma, beta, *bias):
        [bias] = bias or [None]
        return training_kernels.add_and_normalize(rows, bias, residual, gamma, beta)

    def plain(rows, residual, gamma, beta, *bias):
        return kernels.layer_norm(sum(bias, rows) + residual, gamma, beta)

    rows = draw([ROWS, SIZE], [ROWS, SIZE], dtype=dtype)
    inputs = [*rows, *draw([SIZE], [SIZE])]
    if has_bias:
        inputs += draw([1], [SIZE], dtype=dtype)[1:]
    check(ours, plain, inputs, dtype)
