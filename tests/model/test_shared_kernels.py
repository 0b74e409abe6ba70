"""Products with a kernel that several layers share."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.model.shared_kernels import SharedKernel

LAYERS, ROWS, SIZE = 4, 7, 5


def gradients(kernel, rows, dtype, shared):
    """Gradients of the kernel and the rows after four layers."""
    hidden = tf.cast(rows, dtype)
    with tf.GradientTape() as tape:
        tape.watch([kernel, hidden])
        passed, output = SharedKernel.of(kernel, dtype), hidden
        for _ in range(LAYERS):
            if shared:
                output, passed = passed.multiply(output)
            else:
                output = tf.matmul(output, tf.cast(kernel, dtype))
            output = tf.nn.tanh(output)
        loss = tf.reduce_sum(tf.cast(output, tf.float32) ** 2)
    return tape.gradient(loss, [kernel, hidden])


@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_gradient_is_that_of_all_layers(dtype, in_graph):
    rng = np.random.default_rng(6)
    kernel = tf.constant(rng.normal(size=(SIZE, SIZE)), tf.float32)
    rows = tf.constant(rng.normal(size=(ROWS, SIZE)), tf.float32)
    run = tf.function(gradients) if in_graph else gradients
    found = run(kernel, rows, dtype, shared=True)
    expected = gradients(kernel, rows, dtype, shared=False)
    assert found[0].dtype == tf.float32
    for one, other in zip(found, expected, strict=True):
        one, other = (tf.cast(part, tf.float32).numpy() for part in (one, other))
        bound = 1e-5 if dtype == "float32" else 0.05 * abs(other).max()
        np.testing.assert_allclose(one, other, atol=bound)


def test_the_sum_over_layers_is_float32():
    """In bfloat16 it would lose the small gradients of later layers."""
    kernel, rows = tf.ones([1, 1]), tf.ones([1, 1], tf.bfloat16)
    with tf.GradientTape() as tape:
        tape.watch(kernel)
        shared, total = SharedKernel.of(kernel, "bfloat16"), 0.0
        for weight in (256.0, 1.0):
            product, shared = shared.multiply(rows)
            total += weight * tf.cast(product, tf.float32)
    assert tape.gradient(total, kernel).numpy().item() == 257.0
