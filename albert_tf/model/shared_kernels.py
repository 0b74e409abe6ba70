"""Products with kernels that several layers share.

Automatic differentiation computes a gradient for each layer and adds them all at the
end, so that as many matrices as there are layers stay in memory. Here layers pass the
kernel on, from the first to the last, and its gradient comes back the same way: each
layer adds its own to the sum of those after it. The sum is float32 whatever the layers
compute in, and the kernel is cast once for all of them.
"""

from typing import NamedTuple

import tensorflow as tf

from albert_tf.model.compilation import in_one_pass, pays


class SharedKernel(NamedTuple):
    """A kernel on its way through the layers.

    Attributes:
      value: [in, out] in the compute dtype, without a gradient.
      source: float32 [in, out], the same numbers; its gradient is that of all layers
        that it passes.
    """

    value: tf.Tensor
    source: tf.Tensor

    @classmethod
    def of(cls, kernel: tf.Tensor, compute_dtype: str) -> "SharedKernel":
        """The kernel, float32 [in, out], as the first layer takes it."""
        return cls(tf.stop_gradient(tf.cast(kernel, compute_dtype)), kernel)

    def multiply(self, rows: tf.Tensor) -> tuple[tf.Tensor, "SharedKernel"]:
        """[T, in] -> ([T, out], the kernel for the next layer)."""
        product, source = _multiply(rows, self.value, self.source)
        return product, SharedKernel(self.value, source)


@tf.custom_gradient
def _multiply(rows: tf.Tensor, value: tf.Tensor, source: tf.Tensor):
    def gradient(upstream, later_layers):
        of_rows = tf.matmul(upstream, value, transpose_b=True)
        of_kernel = tf.matmul(rows, upstream, transpose_a=True)
        add = _add_in_one_pass if pays(later_layers, of_kernel) else _add
        return of_rows, None, add(later_layers, of_kernel)

    return (tf.matmul(rows, value), tf.identity(source)), gradient


def _add(later_layers: tf.Tensor, of_kernel: tf.Tensor) -> tf.Tensor:
    return later_layers + tf.cast(of_kernel, later_layers.dtype)


# TensorFlow would also turn a chain of its own additions into one at the end.
_add_in_one_pass = in_one_pass(_add)
