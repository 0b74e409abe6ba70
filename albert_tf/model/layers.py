"""Small layers that the encoder and the heads are made of, and their initial values.

Every variable has the name that it has in the released TensorFlow 1 checkpoints. Layers
make their variables in their constructors, since all sizes are known there. A
variable's initial value depends on (seed, name) alone, not on the order of building.
"""

import zlib
from collections.abc import Callable

import numpy as np
import tensorflow as tf
import tf_keras

from albert_tf.model.inference import FUSED_ACTIVATIONS
from albert_tf.model.kernels import gelu, layer_norm
from albert_tf.model.recomputation import compiled_by_xla

# Keys are those of `albert_tf.config.ACTIVATIONS`.
_ACTIVATIONS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "gelu": gelu,
    "gelu_erf": tf.nn.gelu,
    "relu": tf.nn.relu,
    "tanh": tf.nn.tanh,
    "linear": tf.identity,
}


class Initializer:
    """Makes variables with values that depend on the seed and the variable's name."""

    def __init__(self, initializer_range: float, seed: int | None = None):
        """Fixes how values are drawn.

        Args:
          initializer_range: standard deviation of a truncated normal distribution;
            values beyond two of them are drawn again.
          seed: seed of the weights; None takes fresh entropy.
        """
        fresh = np.random.SeedSequence(seed).generate_state(1)[0]
        self._seed = int(fresh) & 0x7FFFFFFF
        self._range = initializer_range

    def weights(self, name: str, shape: tuple[int, ...]) -> tf.Variable:
        """Makes a float32 variable of random values."""
        seed = (self._seed, zlib.crc32(name.encode()) & 0x7FFFFFFF)
        value = tf.random.stateless_truncated_normal(shape, seed, 0.0, self._range)
        return tf.Variable(value, name=name)

    def constant(self, name: str, shape: tuple[int, ...], value: float) -> tf.Variable:
        """Makes a float32 variable that starts at one value."""
        return tf.Variable(tf.fill(shape, value), name=name)


class Projection(tf_keras.layers.Layer):
    """`activation(inputs @ kernel + bias)` over the last axis."""

    def __init__(
        self,
        scope: str,
        sizes: tuple[int, int],
        initializer: Initializer,
        activation: str = "linear",
        **kwargs,
    ):
        """Makes the variables.

        Args:
          scope: released name of the variables, without `/kernel` and `/bias`.
          sizes: (input width, output width).
          initializer: makes the variables.
          activation: as `hidden_act` of `AlbertConfig`.
          **kwargs: of the base class.
        """
        super().__init__(**kwargs)
        self.kernel = initializer.weights(f"{scope}/kernel", sizes)
        self.bias = initializer.constant(f"{scope}/bias", sizes[1:], 0.0)
        self._activation = _ACTIVATIONS[activation]
        self._fused_activation = FUSED_ACTIVATIONS.get(activation, self._activation)

    def call(self, inputs: tf.Tensor, heads: int | None = None) -> tf.Tensor:
        """Projects vectors; the result has the compute dtype.

        Args:
          inputs: [..., in].
          heads: number of parts to split the last axis into; None: it is not split.
        Returns:
          [..., out], or [..., heads, out / heads].
        """
        kernel = tf.cast(self.kernel, self.compute_dtype)
        bias = tf.cast(self.bias, self.compute_dtype)
        width = kernel.shape[1]
        sizes = [heads, width // heads] if heads else [width]
        if compiled_by_xla():
            # The axes are kept: a reshape here costs a copy on a TPU.
            kernel = tf.reshape(kernel, [kernel.shape[0], *sizes])
            equation = "...H,HND->...ND" if heads else "...H,HK->...K"
            outputs = tf.einsum(equation, inputs, kernel) + tf.reshape(bias, sizes)
            return self._activation(outputs)
        # With two axes this is one product of matrices, not a batch of products.
        flat = tf.reshape(inputs, [-1, kernel.shape[0]])
        outputs = self._activation(tf.nn.bias_add(tf.matmul(flat, kernel), bias))
        outputs = tf.reshape(outputs, tf.concat([tf.shape(inputs)[:-1], sizes], axis=0))
        outputs.set_shape([*inputs.shape[:-1], *sizes])
        return outputs

    def infer(self, rows: tf.Tensor) -> tf.Tensor:
        """The inference form of `call`: [T, in] -> [T, out]."""
        kernel = tf.cast(self.kernel, self.compute_dtype)
        bias = tf.cast(self.bias, self.compute_dtype)
        product = tf.matmul(tf.cast(rows, self.compute_dtype), kernel)
        return self._fused_activation(tf.nn.bias_add(product, bias))


class LayerNorm(tf_keras.layers.Layer):
    """Layer normalization in float32 with the original's epsilon, 1e-12."""

    def __init__(self, scope: str, size: int, initializer: Initializer, **kwargs):
        """Makes the variables.

        Args:
          scope: released name of the variables, without `/gamma` and `/beta`.
          size: width of the last axis.
          initializer: makes the variables.
          **kwargs: of the base class.
        """
        super().__init__(**kwargs)
        self.gamma = initializer.constant(f"{scope}/gamma", (size,), 1.0)
        self.beta = initializer.constant(f"{scope}/beta", (size,), 0.0)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """[..., size] -> the same shape and dtype."""
        return layer_norm(inputs, tf.identity(self.gamma), tf.identity(self.beta))
