"""Small parts that the encoder and the heads are made of, and their initial values.

Every variable carries the name it has in the released TensorFlow 1 checkpoints. Layers
make their variables when they are constructed, all sizes being known, and a variable's
initial value depends on (seed, name) alone, not on what was built before it.
"""

import zlib

import numpy as np
import tensorflow as tf
import tf_keras

from albert_tf.model.kernels import gelu, layer_norm
from albert_tf.model.recomputation import compiled_by_xla

_ACTIVATIONS = {
    "gelu": gelu,
    "gelu_erf": tf.nn.gelu,
    "relu": tf.nn.relu,
    "tanh": tf.nn.tanh,
    "linear": tf.identity,
}


class Initializer:
    """Truncated normal values that depend on the seed and the variable's name."""

    def __init__(self, initializer_range: float, seed: int | None = None):
        """Args:
        initializer_range: standard deviation; values beyond two of them are redrawn.
        seed: same seed, same weights; None takes fresh entropy.
        """
        fresh = np.random.SeedSequence(seed).generate_state(1)[0]
        self._seed = int(fresh) & 0x7FFFFFFF
        self._range = initializer_range

    def weights(self, name: str, shape: tuple[int, ...]) -> tf.Variable:
        """A float32 variable of random values."""
        seed = (self._seed, zlib.crc32(name.encode()) & 0x7FFFFFFF)
        value = tf.random.stateless_truncated_normal(shape, seed, 0.0, self._range)
        return tf.Variable(value, name=name)

    def constant(self, name: str, shape: tuple[int, ...], value: float) -> tf.Variable:
        """A float32 variable that starts at one value."""
        return tf.Variable(tf.fill(shape, value), name=name)


def activation(name: str):
    """The function that a configuration's `hidden_act` names."""
    return _ACTIVATIONS[name]


class Projection(tf_keras.layers.Layer):
    """`activation(inputs @ kernel + bias)` over the last axis."""

    def __init__(self, scope, sizes, initializer, activation_name="linear", **kwargs):
        """Args:
        scope: released name of the variables, less `/kernel` and `/bias`.
        sizes: (input width, output width).
        initializer: an `Initializer`.
        activation_name: as `hidden_act`.
        """
        super().__init__(**kwargs)
        self.kernel = initializer.weights(f"{scope}/kernel", sizes)
        self.bias = initializer.constant(f"{scope}/bias", sizes[1:], 0.0)
        self._activation = activation(activation_name)

    def call(self, inputs, heads: int | None = None):
        """[..., in] -> [..., out], in the compute dtype; [..., heads, out / heads]."""
        kernel = tf.cast(self.kernel, self.compute_dtype)
        bias = tf.cast(self.bias, self.compute_dtype)
        width = kernel.shape[1]
        sizes = [heads, width // heads] if heads else [width]
        if compiled_by_xla():
            # Axes as they are, for a reshape here costs a copy on a TPU.
            kernel = tf.reshape(kernel, [kernel.shape[0], *sizes])
            equation = "...H,HND->...ND" if heads else "...H,HK->...K"
            outputs = tf.einsum(equation, inputs, kernel) + tf.reshape(bias, sizes)
            return self._activation(outputs)
        # Two axes and no more: a product of matrices, not a batch of them.
        flat = tf.reshape(inputs, [-1, kernel.shape[0]])
        outputs = self._activation(tf.nn.bias_add(tf.matmul(flat, kernel), bias))
        outputs = tf.reshape(outputs, tf.concat([tf.shape(inputs)[:-1], sizes], axis=0))
        outputs.set_shape([*inputs.shape[:-1], *sizes])
        return outputs


class LayerNorm(tf_keras.layers.Layer):
    """Layer normalisation in float32 with the original's epsilon, 1e-12."""

    def __init__(self, scope, size, initializer, **kwargs):
        """Args:
        scope: released name of the variables, less `/gamma` and `/beta`.
        size: width of the last axis.
        initializer: an `Initializer`.
        """
        super().__init__(**kwargs)
        self.gamma = initializer.constant(f"{scope}/gamma", (size,), 1.0)
        self.beta = initializer.constant(f"{scope}/beta", (size,), 0.0)

    def call(self, inputs):
        """[..., size] -> the same shape and dtype."""
        return layer_norm(inputs, tf.identity(self.gamma), tf.identity(self.beta))


class Dropout(tf_keras.layers.Layer):
    """Dropout whose mask is a function of (seed, site) and nothing else.

    So a resumed or recomputed step drops what the first one dropped.
    """

    def __init__(self, rate: float, **kwargs):
        # Whatever is dropped keeps its dtype: so do float32 probabilities.
        super().__init__(autocast=False, **kwargs)
        self._rate = rate

    def call(self, inputs, seed, site: int):
        """Args:
        inputs: float tensor of any shape.
        seed: int32 [2], or None to drop nothing.
        site: number that tells this application from the others under the seed.
        """
        if self._rate == 0 or seed is None:
            return inputs
        own_seed = tf.random.experimental.stateless_fold_in(seed, site)
        return tf.nn.experimental.stateless_dropout(inputs, self._rate, own_seed)
