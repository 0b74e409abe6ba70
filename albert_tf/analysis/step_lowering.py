"""One training step as StableHLO text, for inspection and compilation."""

from collections.abc import Mapping

import tensorflow as tf

from albert_tf.config import AlbertConfig, OptimizerConfig, TrainConfig
from albert_tf.model.precision import precision_policy
from albert_tf.records.features import Features
from albert_tf.tasks.base import Task
from albert_tf.training import model_parts, optimization
from albert_tf.training.loss_scale import create_loss_scale
from albert_tf.training.step import TrainStep


def build_step(
    task: Task,
    model_config: AlbertConfig,
    optimizer_config: OptimizerConfig,
    train_config: TrainConfig,
) -> TrainStep:
    """The step that a run with these configurations repeats, with fresh weights.

    Args:
      task: its losses are minimized.
      model_config: the model's configuration.
      optimizer_config: the optimizer and schedule.
      train_config: precision, recomputation, accumulation, compilation and seed.
    """
    with precision_policy(train_config.precision):
        model = task.build_model(
            model_config,
            seed=train_config.random_seed,
            rematerialize=train_config.rematerialize,
        )
    optimizer = optimization.create_optimizer(optimizer_config)
    optimizer.build(model_parts.trained_variables(model, optimizer_config))
    return TrainStep(
        task,
        model,
        optimizer,
        train_config.gradient_accumulation_steps,
        train_config.jit_compile,
        create_loss_scale(train_config.precision),
    )


def batch_specs(features: Features, rows: int) -> dict[str, tf.TensorSpec]:
    """Shapes and dtypes of a parsed batch of `rows` rows; int64 features are int32."""
    return {
        name: tf.TensorSpec(
            [rows, *feature.shape],
            tf.int32 if feature.dtype == "int64" else tf.as_dtype(feature.dtype),
        )
        for name, feature in features.items()
    }


def batch_bytes(specs: Mapping[str, tf.TensorSpec]) -> int:
    """Bytes of a batch in memory; every size is known."""
    return sum(spec.shape.num_elements() * spec.dtype.size for spec in specs.values())


def gradient_bytes(step: TrainStep) -> int:
    """Bytes of gradients that a replica adds to those of the others in a step.

    Gradients are dense and have the dtype of their variables, whatever the precision
    and the number of micro-batches. A weight that layers share has one. The step also
    sums one float32 number for each loss.
    """
    return sum(
        variable.shape.num_elements() * variable.dtype.size
        for variable in step.model.trainable_variables
    )


def lower_step(step: TrainStep, specs: Mapping[str, tf.TensorSpec]) -> str:
    """The step of one replica, optimizer included, as StableHLO text.

    Nothing is computed. There are no sums over replicas.

    Args:
      step: from `build_step`.
      specs: from `batch_specs`; every size is known.
    """
    names = sorted(specs)

    @tf.function(jit_compile=True, autograph=False)
    def flat_step(seed, *values):
        return step(dict(zip(names, values, strict=True)), seed)

    compiler_ir = flat_step.experimental_get_compiler_ir(
        tf.TensorSpec([2], tf.int32), *[specs[name] for name in names]
    )
    return compiler_ir(stage="stablehlo", platform_name="CPU")
