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

from albert_tf.model import training_kernels
from albert_tf.model.compilation import compiled_by_xla
from albert_tf.model.inference import FUSED_ACTIVATIONS
from albert_tf.model.kernels import gelu, layer_norm
from albert_tf.model.shared_kernels import SharedKernel

# Keys of these are those of `albert_tf.config.ACTIVATIONS`.
_ACTIVATIONS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "gelu": gelu,
    "gelu_erf": tf.nn.gelu,
    "relu": tf.nn.relu,
    "tanh": tf.nn.tanh,
    "linear": tf.identity,
}
# Activation -> function of rows and a bias, for those that have one of their own.
_BIAS_ACTIVATIONS = {"gelu": training_kernels.bias_gelu}


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
        self._bias_activation = _BIAS_ACTIVATIONS.get(activation, self._activate)
        self._fused_activation = FUSED_ACTIVATIONS.get(activation, self._activation)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Projects vectors: [..., in] -> [..., out], of the compute dtype."""
        kernel = tf.cast(self.kernel, self.compute_dtype)
        bias = self.cast_bias()
        if compiled_by_xla():
            # The axes are kept: a reshape here costs a copy on a TPU.
            return self._activation(tf.einsum("...H,HK->...K", inputs, kernel) + bias)
        # With two axes this is one product of matrices, not a batch of products.
        flat = tf.reshape(inputs, [-1, kernel.shape[0]])
        outputs = self._activation(tf.nn.bias_add(tf.matmul(flat, kernel), bias))
        shape = tf.concat([tf.shape(inputs)[:-1], [kernel.shape[1]]], axis=0)
        outputs = tf.reshape(outputs, shape)
        return tf.ensure_shape(outputs, [*inputs.shape[:-1], kernel.shape[1]])

    def train(
        self, rows: tf.Tensor, kernel: SharedKernel
    ) -> tuple[tf.Tensor, SharedKernel]:
        """The training form of `call`, for layers that share its kernel.

        Args:
          rows: [T, in], of the compute dtype.
          kernel: from `shared_kernel` or from the layer before.
        Returns:
          ([T, out], the kernel for the next layer).
        """
        product, kernel = kernel.multiply(rows)
        return self._bias_activation(product, self.cast_bias()), kernel

    def shared_kernel(self) -> SharedKernel:
        """The kernel as `train` of the first layer takes it."""
        return SharedKernel.of(tf.convert_to_tensor(self.kernel), self.compute_dtype)

    def cast_bias(self) -> tf.Tensor:
        """The bias in the compute dtype."""
        return tf.cast(self.bias, self.compute_dtype)

    def _activate(self, rows: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
        return self._activation(tf.nn.bias_add(rows, bias))

    def infer(self, rows: tf.Tensor) -> tf.Tensor:
        """The inference form of `call`: [T, in] -> [T, out]."""
        kernel = tf.cast(self.kernel, self.compute_dtype)
        product = tf.matmul(tf.cast(rows, self.compute_dtype), kernel)
        return self._fused_activation(tf.nn.bias_add(product, self.cast_bias()))


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

    def add(
        self, rows: tf.Tensor, bias: tf.Tensor | None, residual: tf.Tensor
    ) -> tf.Tensor:
        """Normalizes `rows + bias + residual` in training.

        Args:
          rows: [T, size].
          bias: [size]; None: there is none.
          residual: [T, size].
        """
        gamma, beta = tf.identity(self.gamma), tf.identity(self.beta)
        return training_kernels.add_and_normalize(rows, bias, residual, gamma, beta)
