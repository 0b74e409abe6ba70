"""Learning-rate schedules, LAMB and AdamW, with the original's maths.

Neither optimizer corrects the bias of the moments. Variables named LayerNorm or bias
get no weight decay, and under LAMB a trust ratio of 1. Differences from the original:
gradients are clipped after they were summed over replicas (the original clips those of
each core), and the learning rate is 0 before `start_warmup_step` (there it is
negative).

An average of the weights is computed in the optimizer's own pass. Keras' `use_ema` does
not fit: it also averages in steps that are skipped, passes over the weights once more,
has no rate for short runs, and copies the averages into the model for good.
"""

import dataclasses
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from albert_tf.checkpoints.load import released_name
from albert_tf.config import OptimizerConfig
from albert_tf.model.compilation import compiled_by_xla
from albert_tf.training import devices, model_parts, schedules

_NO_DECAY = re.compile("LayerNorm|layer_norm|bias")
# Elements of a variable whose update XLA computes on a CPU.
_LEAST_COMPILED = 1 << 16


@tf_keras.utils.register_keras_serializable(package="albert_tf", name="schedule")
class _Schedule(tf_keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up to the peak, followed by one of `optimizer_config.SCHEDULES`.

    The polynomial decay starts at step 0 and runs during warm-up too, so the rate is a
    little below the peak when warm-up ends, as in the original and for the released
    models. The others start from the peak.
    """

    def __init__(self, config: OptimizerConfig, time_share: tf.Variable | None = None):
        super().__init__()
        self._config, self._time_share = config, time_share
        schedules.check_steps(config)

    def __call__(self, step: int | tf.Tensor) -> tf.Tensor:
        """Step index -> float32 learning rate."""
        config = self._config
        step = tf.cast(step, tf.float32)
        place = step
        if self._time_share is not None:
            place = tf.maximum(step, self._time_share * config.num_train_steps)
        rate = _DECAYS[config.lr_schedule](config, place)
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


def _polynomial(config: OptimizerConfig, step: tf.Tensor) -> tf.Tensor:
    # A product with the reciprocal, as in the original's compiled graph: near the
    # end it differs from a quotient in the fourth digit.
    left = tf.maximum(1.0 - step * (1.0 / config.num_train_steps), 0.0)
    return _between(config, tf.pow(left, config.poly_power))


def _cosine(config: OptimizerConfig, step: tf.Tensor) -> tf.Tensor:
    """Half a cosine (Loshchilov and Hutter 2017), from the end of warm-up."""
    start = schedules.warmup_end(config)
    done = _share_done(step, start, config.num_train_steps - start)
    return _between(config, 0.5 * (1.0 + tf.cos(math.pi * done)))


def _warmup_stable_decay(config: OptimizerConfig, step: tf.Tensor) -> tf.Tensor:
    """The peak until the last steps, then 1 - sqrt (Hägele et al. 2024)."""
    steps = config.num_decay_steps
    done = _share_done(step, config.num_train_steps - steps, steps)
    decayed = _between(config, 1.0 - tf.sqrt(done))
    # The peak's own bits before the decay, whatever the rate of its end.
    return tf.where(done > 0.0, decayed, config.learning_rate)


def _constant(config: OptimizerConfig, step: tf.Tensor) -> tf.Tensor:
    return tf.zeros_like(step) + config.learning_rate


_DECAYS = {
    "polynomial": _polynomial,
    "cosine": _cosine,
    "wsd": _warmup_stable_decay,
    "constant": _constant,
}


def _between(config: OptimizerConfig, share: tf.Tensor) -> tf.Tensor:
    """The rate at a share of the way from the end's up to the peak."""
    span = config.learning_rate - config.end_learning_rate
    return span * share + config.end_learning_rate


def _share_done(step: tf.Tensor, start: int, steps: int) -> tf.Tensor:
    """Share of some steps that are done before a step, within [0, 1]."""
    return tf.clip_by_value((step - start) / steps, 0.0, 1.0)


def learning_rate(
    config: OptimizerConfig, time_share: tf.Variable | None = None
) -> Callable[[int | tf.Tensor], tf.Tensor]:
    """The schedule: a callable from step index to float32 learning rate.

    Args:
      config: schedule, peak, steps and warm-up. The first update uses step 0.
      time_share: share of the time that is used, a float32 scalar in [0, 1]; None: the
        decay follows the steps alone.
    Raises:
      ValueError: as `schedules.check_steps`.
    """
    return _Schedule(config, time_share)


def is_decayed(variable_name: str) -> bool:
    """True if weight decay and LAMB's trust ratio apply to a variable."""
    return _NO_DECAY.search(variable_name) is None


def clip_gradients(
    gradients: Sequence[tf.Tensor], config: OptimizerConfig
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Clips gradients, for loops that call `apply_gradients` themselves.

    Args:
      gradients: dense, summed over replicas and micro-batches.
      config: its `clip_norm`.
    Returns:
      (clipped gradients, global norm before clipping, a float32 scalar). If the norm is
      not finite, the gradients are zeros.
    """
    norm = tf.linalg.global_norm(gradients)
    scale = clip_scale(norm, config)
    return [tf.math.multiply_no_nan(g, scale) for g in gradients], norm


def clip_scale(norm: tf.Tensor, config: OptimizerConfig) -> tf.Tensor:
    """The factor that clips gradients to a global norm of at most `clip_norm`.

    Args:
      norm: global norm of the gradients, summed over replicas and micro-batches.
      config: its `clip_norm`.
    Returns:
      Float32 scalar; 0 if the norm is not finite.
    """
    scale = config.clip_norm / tf.maximum(norm, config.clip_norm)
    return tf.where(tf.math.is_finite(norm), scale, 0.0)


def create_optimizer(config: OptimizerConfig) -> "AdamW":
    """LAMB or AdamW with its schedule, for clipped gradients of the whole batch.

    `apply_or_skip` clips to `clip_norm`. `apply_gradients`, and so Keras's `fit`, clips
    by `global_clipnorm` of the optimizer instead, which is None unless it is set.
    """
    return {"lamb": LAMB, "adamw": AdamW}[config.optimizer](config)


@tf_keras.utils.register_keras_serializable(package="albert_tf")
class AdamW(tf_keras.optimizers.Optimizer):
    """Adam without bias correction, with decoupled weight decay.

    Attributes:
      trained_variables: the variables of `build`.
      averages: the average of each of them, in this order; empty without `ema_decay`.
      schedule: step index -> learning rate, before the factor of a variable.
      time_share: share of the time that is used, which the loop sets; None: the rate
        follows the steps alone.
    """

    def __init__(self, config: OptimizerConfig):
        # None: the base class would subtract 0 times each variable.
        super().__init__(name=config.optimizer, weight_decay=None, jit_compile=False)
        self._config = config
        by_time = config.lr_schedule_by == "time"
        self.time_share = devices.shared_number(0.0) if by_time else None
        self.schedule = learning_rate(config, self.time_share)
        self._learning_rate = self._build_learning_rate(self.schedule)
        self.trained_variables: list[tf.Variable] = []
        self.averages: list[tf.Variable] = []
        self._compute_in_one_pass = tf.function(
            self._compute, jit_compile=True, autograph=False
        )
        # 1, or 0 in a step that changes nothing but the step count.
        self._applied = devices.shared_number(1.0)
        self._clip_scale = devices.shared_number(1.0)

    def build(self, variables: Sequence[tf.Variable]) -> None:
        """Creates the two moments of each variable, zeros of its shape, and, if there
        are averages, one that starts as the variable."""
        super().build(variables)
        if getattr(self, "_built", False):
            return
        self._first = [self.add_variable_from_reference(v, "m") for v in variables]
        self._second = [self.add_variable_from_reference(v, "v") for v in variables]
        self.trained_variables = list(variables)
        if self._config.ema_decay:
            add = self.add_variable_from_reference
            self.averages = [add(v, "average") for v in variables]
            self.restart_averages()
        names = [released_name(variable) for variable in variables]
        self._factors = model_parts.rate_factors(names, self._config)
        self._built = True

    def restart_averages(self) -> None:
        """Sets the averages to the weights, outside of graphs and replicas."""
        for variable, average in zip(
            self.trained_variables, self.averages, strict=False
        ):
            average.assign(variable.read_value())

    @property
    def moments(self) -> dict[str, list[tf.Variable]]:
        """Both moments of each variable, in the order of `trained_variables`."""
        return {"first_moment": self._first, "second_moment": self._second}

    def apply_or_skip(
        self, gradients: Sequence[tf.Tensor], variables: Sequence[tf.Variable]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """One step, in replica context, with gradients clipped to `clip_norm`.

        Args:
          gradients: dense, summed over replicas and micro-batches.
          variables: those of `build`, in its order.
        Returns:
          (True if the step was applied, global norm of the gradients), scalars. If the
          norm is not finite, weights and moments keep their bits, but the step is
          counted.
        """
        norm = tf.linalg.global_norm(gradients)
        finite = tf.math.is_finite(norm)
        self._applied.assign(tf.cast(finite, tf.float32))
        self._clip_scale.assign(clip_scale(norm, self._config))
        self.apply_gradients(
            zip(gradients, variables, strict=True), skip_gradients_aggregation=True
        )
        return finite, norm

    def update_step(self, gradient: tf.Tensor, variable: tf.Variable) -> None:
        """One variable's update; called by `apply_gradients`.

        A step that is skipped has a learning rate of 0, and its gradient a weight of 0
        in both moments.
        """
        index = self._index_dict[self._var_key(variable)]
        states = [variable, self._first[index], self._second[index]]
        weight_of_new = None
        if self.averages:
            states.append(self.averages[index])
            weight_of_new = self._weight_of_new()
        compute = self._compute_in_one_pass if _pays(variable) else self._compute
        results = compute(
            [state.read_value() for state in states],
            # Dense: XLA would compile anew for each number of slices.
            tf.convert_to_tensor(gradient),
            tf.convert_to_tensor(self._clip_scale),
            tf.convert_to_tensor(self._applied),
            tf.cast(self._rate_of(variable), variable.dtype),
            weight_of_new,
            decayed=is_decayed(variable.name),
        )
        for state, result in zip(states, results, strict=True):
            state.assign(result)

    def _rate_of(self, variable: tf.Variable) -> tf.Tensor:
        factor = self._factors.get(released_name(variable))
        rate = self.learning_rate
        return rate if factor is None else rate * factor

    def _weight_of_new(self) -> tf.Tensor:
        """Weight of a step's weights in the averages; rule of
        `tf.train.ExponentialMovingAverage` for a number of updates."""
        done = tf.cast(self.iterations, tf.float32) + 1.0
        return 1.0 - tf.minimum(self._config.ema_decay, (1.0 + done) / (10.0 + done))

    def _compute(
        self,
        states: Sequence[tf.Tensor],
        gradient: tf.Tensor,
        scale: tf.Tensor,
        applied: tf.Tensor,
        rate: tf.Tensor,
        weight_of_new: tf.Tensor | None,
        *,
        decayed: bool,
    ) -> tuple[tf.Tensor, ...]:
        """New weights, moments and, if there is one, average of one variable.

        Args:
          states: the variable's value, its first and its second moment, its average.
          gradient: of its shape.
          scale: factor of the gradient.
          applied: 1, or 0 to change nothing, with a scale of 0.
          rate: learning rate.
          weight_of_new: of the new weights in the average; None: there is none.
          decayed: True for weight decay and the trust ratio.
        """
        config, (weights, first, second, *average) = self._config, states
        # A scale of 0 gives 0, even for a gradient that is not finite.
        gradient = tf.math.multiply_no_nan(gradient, scale)
        first = _moved(first, gradient, applied * (1 - config.beta_1))
        second = _moved(second, tf.square(gradient), applied * (1 - config.beta_2))
        update = first / (tf.sqrt(second) + config.epsilon)
        if decayed:
            update += config.weight_decay * weights
            rate = rate * self.trust_ratio(weights, update)
        weights = weights - applied * rate * update
        moved = [_moved(mean, weights, applied * weight_of_new) for mean in average]
        return weights, first, second, *moved

    def trust_ratio(self, weights: tf.Tensor, update: tf.Tensor) -> tf.Tensor | float:
        """Factor of the learning rate for one variable."""
        del weights, update
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


def _pays(variable: tf.Variable) -> bool:
    """True if XLA shall compute the update of a variable, where it is not used yet.

    TensorFlow computes it in some twenty passes over memory, XLA in two or three. GPUs
    pass quickly, and compiling takes longer than it saves for a small variable.
    """
    large = variable.shape.num_elements() >= _LEAST_COMPILED
    return large and "CPU" in variable.device and not compiled_by_xla()


def _moved(mean: tf.Tensor, value: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
    """A running mean, moved toward a new value of that weight."""
    return (1 - weight) * mean + weight * value


@tf_keras.utils.register_keras_serializable(package="albert_tf")
class LAMB(AdamW):
    """AdamW whose steps are scaled to the variable's norm (You et al. 2019)."""

    def trust_ratio(self, weights: tf.Tensor, update: tf.Tensor) -> tf.Tensor:
        """|weights| / |update|, and 1 if either norm is 0."""
        weights_norm, update_norm = tf.norm(weights), tf.norm(update)
        # The denominator is replaced too, so that no quotient by 0 is computed.
        usable = tf.logical_and(weights_norm > 0, update_norm > 0)
        return tf.where(usable, weights_norm / tf.where(usable, update_norm, 1.0), 1.0)
