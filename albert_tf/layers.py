"""Small parts that the encoder and the heads are made of, and their initial values.

Every variable carries the name it has in the released TensorFlow 1 checkpoints. Layers
make their variables when they are constructed, all sizes being known, and a variable's
initial value depends on (seed, name) alone, not on what was built before it.
"""

import zlib

import numpy as np
import tensorflow as tf
import tf_keras

_LAYER_NORM_EPSILON = 1e-12
# sqrt(2 / pi), and that times 0.044715: the constants of gelu's tanh form.
_GELU_LINEAR = float(np.sqrt(2.0 / np.pi))
_GELU_CUBIC = 0.044715 * _GELU_LINEAR


@tf.custom_gradient
def gelu(x):
    """The original's gelu, the tanh form; it differs from erf's by up to 4e-4.

    The gradient keeps `x` alone and is written out: a third of the element-wise passes
    that TensorFlow derives.
    """

    def tanh_part(square):
        return tf.tanh(x * (_GELU_LINEAR + _GELU_CUBIC * square))

    def gradient(upstream):
        square = tf.square(x)
        tanh = tanh_part(square)
        slope = _GELU_LINEAR + 3.0 * _GELU_CUBIC * square
        return upstream * (0.5 * (1.0 + tanh) * (1.0 + x * slope * (1.0 - tanh)))

    return 0.5 * x * (1.0 + tanh_part(tf.square(x))), gradient


@tf.custom_gradient
def layer_norm(x, gamma, beta):
    """Layer normalisation over the last axis, in float32.

    Args:
      x: float32 [..., size].
      gamma: float32 [size].
      beta: float32 [size].
    Returns:
      float32 [..., size]. The gradient keeps `x` and two numbers a row.
    """
    mean, variance = tf.nn.moments(x, axes=[-1], keepdims=True)
    scale = tf.math.rsqrt(variance + _LAYER_NORM_EPSILON)

    def gradient(upstream):
        normal = (x - mean) * scale
        leading = list(range(x.shape.rank - 1))
        inner = upstream * gamma
        along = tf.reduce_mean(inner * normal, axis=-1, keepdims=True)
        shift = tf.reduce_mean(inner, axis=-1, keepdims=True)
        x_gradient = scale * (inner - shift - normal * along)
        gamma_gradient = tf.reduce_sum(upstream * normal, axis=leading)
        return x_gradient, gamma_gradient, tf.reduce_sum(upstream, axis=leading)

    return (x - mean) * scale * gamma + beta, gradient


_ACTIVATIONS = {
    "gelu": gelu,
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

    def call(self, inputs):
        """[..., in] -> [..., out], in the compute dtype."""
        kernel = tf.cast(self.kernel, self.compute_dtype)
        bias = tf.cast(self.bias, self.compute_dtype)
        # Two axes and no more: a product of matrices, not a batch of them.
        flat = tf.reshape(inputs, [-1, kernel.shape[0]])
        outputs = self._activation(tf.nn.bias_add(tf.matmul(flat, kernel), bias))
        shape = tf.concat([tf.shape(inputs)[:-1], kernel.shape[1:]], axis=0)
        outputs = tf.reshape(outputs, shape)
        outputs.set_shape([*inputs.shape[:-1], kernel.shape[1]])
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
        values = tf.cast(inputs, tf.float32)
        normal = layer_norm(values, tf.identity(self.gamma), tf.identity(self.beta))
        return tf.cast(normal, self.compute_dtype)


class Dropout(tf_keras.layers.Layer):
    """Dropout whose mask is a function of (seed, site) and nothing else.

    So a resumed or recomputed step drops what the first one dropped.
    """

    def __init__(self, rate: float, **kwargs):
        super().__init__(**kwargs)
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
