"""Dynamic loss scaling: training in float16 without losing small gradients.

float16 has no numbers below 6e-8, and gradients of activations are often smaller. The
loss is multiplied by a scale, and so are they; the gradients of the weights, which are
float32, are divided by it. A scale that is too high gives infinite gradients: that step
is skipped and the scale is halved. After many finite ones it is doubled.

tf_keras has the same rule, with these numbers, inside `LossScaleOptimizer`. It cannot
be used: it looks for overflow in the gradients that it is to apply, which are clipped
here and zeros by then, and it does not count a step that it skips, while data and
dropout of a step follow from the count. The state alone is private there.
"""

from collections.abc import Sequence

import tensorflow as tf

from albert_tf.training.devices import shared_number

FLOOR = 1.0
# The largest power of two in float32.
_CEILING = 2.0**127


class LossScale:
    """A power of two that follows the gradients, the same on all replicas."""

    def __init__(self, initial: float = 2.0**15, growth_steps: int = 2_000):
        """Makes the variables; call it in the strategy's scope.

        Args:
          initial: the first scale, a power of two. Too high costs a skipped step for
            each halving, too low costs `growth_steps` steps for each doubling.
          growth_steps: finite steps in a row after which the scale is doubled.
        """
        self._scale = shared_number(float(initial))
        self._good_steps = shared_number(0)
        self._growth_steps = growth_steps

    @property
    def state(self) -> dict[str, tf.Variable]:
        """Variables that a checkpoint stores: the scale, and the finite steps in a row
        since it changed."""
        return {"loss_scale": self._scale, "good_steps": self._good_steps}

    def value(self) -> float:
        """The scale of the next step."""
        return float(self._scale.numpy())

    def scale(self, loss: tf.Tensor) -> tf.Tensor:
        """Multiplies a float32 loss by the scale."""
        return loss * self._scale

    def unscale(self, gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Divides float32 gradients by the scale, without rounding."""
        scale = tf.identity(self._scale)
        return [gradient / scale for gradient in gradients]

    def can_fall(self) -> tf.Tensor:
        """Bool scalar: True if the scale is above its floor, 1."""
        return self._scale > FLOOR

    def update(self, finite: tf.Tensor) -> None:
        """Adapts the scale after a step, in replica context.

        Args:
          finite: bool scalar, the same on all replicas: False if the gradients, summed
            over replicas, were not finite.
        """
        good_steps = tf.where(finite, self._good_steps + 1, 0)
        is_grown = good_steps >= self._growth_steps
        raised = tf.where(is_grown, tf.minimum(self._scale * 2, _CEILING), self._scale)
        lowered = tf.maximum(self._scale / 2, FLOOR)
        self._scale.assign(tf.where(finite, raised, lowered))
        self._good_steps.assign(tf.where(is_grown, 0, good_steps))


def create_loss_scale(precision: str) -> LossScale | None:
    """The loss scale of a precision: one for "float16", None for the others, whose
    range is that of float32."""
    return LossScale() if precision == "float16" else None
