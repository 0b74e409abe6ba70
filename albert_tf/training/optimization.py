"""Learning-rate schedule, LAMB and AdamW, with the original's maths.

Neither optimizer corrects the bias of the moments. Variables named LayerNorm or bias
get no weight decay, and under LAMB a trust ratio of 1. Differences from the original:
gradients are clipped after they were summed over replicas (the original clips those of
each core), and the learning rate is 0 before `start_warmup_step` (there it is
negative).
"""

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from albert_tf.config import OptimizerConfig

_NO_DECAY = re.compile("LayerNorm|layer_norm|bias")


@tf_keras.utils.register_keras_serializable(package="albert_tf", name="schedule")
class _Schedule(tf_keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up over a polynomial decay that starts at step 0.

    The decay runs during warm-up too, so the rate is a little below the peak when
    warm-up ends, as in the original and for the released models.
    """

    def __init__(self, config: OptimizerConfig):
        super().__init__()
        self._config = config

    def __call__(self, step: int | tf.Tensor) -> tf.Tensor:
        """Step index -> float32 learning rate."""
        config = self._config
        step = tf.cast(step, tf.float32)
        # A product with the reciprocal, as in the original's compiled graph: near the
        # end it differs from a quotient in the fourth digit.
        left = tf.maximum(1.0 - step * (1.0 / config.num_train_steps), 0.0)
        span = config.learning_rate - config.end_learning_rate
        rate = span * tf.pow(left, config.poly_power) + config.end_learning_rate
        if config.num_warmup_steps:
            done = (step - config.start_warmup_step) / config.num_warmup_steps
            warming = config.learning_rate * tf.maximum(done, 0.0)
            rate = tf.where(done < 1.0, warming, rate)
        return rate

    def get_config(self) -> dict[str, Any]:
        return dataclasses.asdict(self._config)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "_Schedule":
        return cls(OptimizerConfig(**config))


def learning_rate(config: OptimizerConfig) -> Callable[[int | tf.Tensor], tf.Tensor]:
    """The schedule: a callable from step index to float32 learning rate.

    Args:
      config: peak, steps, warm-up and power. The first update uses step 0.
    """
    return _Schedule(config)


def is_decayed(variable_name: str) -> bool:
    """True if weight decay and LAMB's trust ratio apply to a variable."""
    return _NO_DECAY.search(variable_name) is None


def clip_gradients(
    gradients: Sequence[tf.Tensor], config: OptimizerConfig
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Clips gradients to a global norm of at most `clip_norm`.

    Args:
      gradients: dense, already summed over replicas and micro-batches.
      config: its `clip_norm`.
    Returns:
      (clipped gradients, global norm before clipping, a float32 scalar). If the norm is
      not finite, the gradients are zeros.
    """
    norm = tf.linalg.global_norm(gradients)
    scale = config.clip_norm / tf.maximum(norm, config.clip_norm)
    finite = tf.math.is_finite(norm)
    return [tf.where(finite, scale * g, 0.0) for g in gradients], norm


def create_optimizer(config: OptimizerConfig) -> "AdamW":
    """LAMB or AdamW with its schedule, for clipped gradients of the whole batch."""
    return {"lamb": LAMB, "adamw": AdamW}[config.optimizer](config)


@tf_keras.utils.register_keras_serializable(package="albert_tf")
class AdamW(tf_keras.optimizers.Optimizer):
    """Adam without bias correction, with decoupled weight decay."""

    def __init__(self, config: OptimizerConfig):
        super().__init__(name=config.optimizer, jit_compile=False)
        self._config = config
        self._learning_rate = self._build_learning_rate(learning_rate(config))
        # 1, or 0 in a step that changes nothing but the step count.
        self._applied = tf.Variable(
            1.0, trainable=False, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA
        )

    def build(self, variables: Sequence[tf.Variable]) -> None:
        """Creates the two moments of each variable, zeros of its shape."""
        super().build(variables)
        if getattr(self, "_built", False):
            return
        self._first = [self.add_variable_from_reference(v, "m") for v in variables]
        self._second = [self.add_variable_from_reference(v, "v") for v in variables]
        self._built = True

    @property
    def moments(self) -> dict[str, list[tf.Variable]]:
        """Both moments of each variable, in the order of `build`."""
        return {"first_moment": self._first, "second_moment": self._second}

    def apply_or_skip(
        self,
        gradients: Sequence[tf.Tensor],
        variables: Sequence[tf.Variable],
        norm: tf.Tensor,
    ) -> tf.Tensor:
        """One step, in replica context, with gradients that are summed and clipped.

        Args:
          gradients: from `clip_gradients`.
          variables: those of `build`, in its order.
          norm: from `clip_gradients`; if it is not finite, weights and moments keep
            their bits, but the step is counted.
        Returns:
          Bool scalar: True if the step was applied.
        """
        finite = tf.math.is_finite(norm)
        self._applied.assign(tf.cast(finite, tf.float32))
        self.apply_gradients(
            zip(gradients, variables, strict=True), skip_gradients_aggregation=True
        )
        return finite

    def update_step(self, gradient: tf.Tensor, variable: tf.Variable) -> None:
        """One variable's update; called by `apply_gradients`.

        A step that is skipped gives the gradient, 0, a weight of 0 in both moments, and
        has a learning rate of 0.
        """
        config = self._config
        index = self._index_dict[self._var_key(variable)]
        first, second = self._first[index], self._second[index]
        applied = tf.cast(self._applied, tf.float32)
        _update_mean(first, gradient, applied * (1 - config.beta_1))
        _update_mean(second, tf.square(gradient), applied * (1 - config.beta_2))
        update = first / (tf.sqrt(second) + config.epsilon)
        rate = applied * tf.cast(self.learning_rate, variable.dtype)
        if is_decayed(variable.name):
            update += config.weight_decay * variable
            rate = rate * self.trust_ratio(variable, update)
        variable.assign_sub(rate * update)

    def trust_ratio(
        self, variable: tf.Variable, update: tf.Tensor
    ) -> tf.Tensor | float:
        """Factor of the learning rate for one variable."""
        del variable, update
        return 1.0

    def get_config(self) -> dict[str, Any]:
        """The configuration as JSON values, with which Keras saves a model."""
        return dataclasses.asdict(self._config)

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None
    ) -> "AdamW":
        """Builds the optimizer that `get_config` describes."""
        return cls(OptimizerConfig(**config))


def _update_mean(mean: tf.Variable, value: tf.Tensor, weight: tf.Tensor) -> None:
    """Moves a running mean toward a new value of that weight."""
    mean.assign((1 - weight) * mean + weight * value)


@tf_keras.utils.register_keras_serializable(package="albert_tf")
class LAMB(AdamW):
    """AdamW whose steps are scaled to the variable's norm (You et al. 2019)."""

    def trust_ratio(self, variable: tf.Variable, update: tf.Tensor) -> tf.Tensor:
        """|variable| / |update|, and 1 if either norm is 0."""
        variable_norm, update_norm = tf.norm(variable), tf.norm(update)
        # The denominator is replaced too, so that no quotient by 0 is computed.
        usable = tf.logical_and(variable_norm > 0, update_norm > 0)
        return tf.where(usable, variable_norm / tf.where(usable, update_norm, 1.0), 1.0)
