"""One optimizer step, the same for any number of replicas and micro-batches.

Loss and gradient are those of the whole global batch. The weights of its losses are
summed over all replicas before the forward pass; each micro-batch then adds its share
of the gradient; the sum is reduced over replicas, clipped, and applied.
"""

from collections.abc import Mapping

import tensorflow as tf
import tf_keras

from albert_tf.config import OptimizerConfig
from albert_tf.tasks import losses
from albert_tf.tasks.base import Task
from albert_tf.training import optimization


class TrainStep:
    """A function of features and a seed, to be called in replica context."""

    def __init__(
        self,
        task: Task,
        model,
        optimizer,
        optimizer_config: OptimizerConfig,
        micro_batches: int = 1,
        jit_compile: bool = False,
    ):
        """Args:
        task: what to minimise.
        model: from `task.build_model`.
        optimizer: built on the model's trainable variables.
        optimizer_config: its `clip_norm`.
        micro_batches: parts of a replica's batch whose gradients are accumulated.
        jit_compile: whether XLA compiles the gradient's computation.
        """
        self._task, self._model, self._optimizer = task, model, optimizer
        self._optimizer_config = optimizer_config
        self._micro_batches = micro_batches
        # A function of its own only where XLA compiles it: reduction stays outside.
        self._local_gradients = (
            tf.function(self._accumulate, jit_compile=True)
            if jit_compile
            else self._accumulate
        )

    @property
    def model(self) -> tf_keras.Model:
        """What it trains."""
        return self._model

    def __call__(self, features: Mapping, seed: tf.Tensor) -> dict[str, tuple]:
        """Updates the model.

        Args:
          features: this replica's part of the global batch, as parsed from records.
          seed: int32 [2] of dropout, another on every replica and in every step.
        Returns:
          Name -> (mean, weight) of this replica: each loss, `gradient_norm`, and
          `skipped`, 1 for a step whose gradient was not finite.
        """
        batch = self._task.read_batch(features)
        replica = tf.distribute.get_replica_context()
        weights = {
            name: tf.reduce_sum(loss.weights(batch))
            for name, loss in self._task.losses.items()
        }
        global_weights = replica.all_reduce("sum", weights)
        gradients, sums = self._local_gradients(batch, global_weights, seed)
        gradients = replica.all_reduce("sum", gradients)
        gradients, norm = optimization.clip_gradients(gradients, self._optimizer_config)
        applied = self._optimizer.apply_or_skip(
            gradients, self._model.trainable_variables, norm
        )
        report = {
            name: (losses.weighted_mean(sums[name], weights[name]), weights[name])
            for name in sums
        }
        # Means over the steps that count.
        counts = tf.cast(applied, tf.float32)
        report = {
            name: (tf.where(applied, mean, 0.0), counts * weight)
            for name, (mean, weight) in report.items()
        }
        report["gradient_norm"] = (tf.where(applied, norm, 0.0), counts)
        report["skipped"] = (1.0 - counts, tf.ones([]))
        return report

    def _accumulate(self, batch, global_weights, seed):
        """Gradients and loss sums of this replica's batch, part by part."""
        parts = self._micro_batches
        if parts == 1:
            return self._gradients(batch, global_weights, seed)
        cut = {name: _cut(value, parts) for name, value in batch.items()}

        def add_part(index, gradients, sums):
            part_seed = tf.random.experimental.stateless_fold_in(seed, index)
            part = {name: value[index] for name, value in cut.items()}
            more, more_sums = self._gradients(part, global_weights, part_seed)
            gradients = [old + new for old, new in zip(gradients, more, strict=True)]
            return index + 1, gradients, {n: sums[n] + more_sums[n] for n in sums}

        zeros = [tf.zeros(v.shape) for v in self._model.trainable_variables]
        _, gradients, sums = tf.while_loop(
            lambda index, *_: index < parts,
            add_part,
            (tf.constant(0), zeros, {name: tf.zeros([]) for name in self._task.losses}),
            parallel_iterations=1,
            maximum_iterations=parts,
        )
        return gradients, sums

    def _gradients(self, batch, global_weights, seed):
        """Gradients of the global loss's share that these rows have, and loss sums."""
        variables = self._model.trainable_variables
        with tf.GradientTape() as tape:
            outputs = self._model(batch, training=True, dropout_seed=seed)
            sums = {
                name: tf.reduce_sum(loss.values(outputs, batch) * loss.weights(batch))
                for name, loss in self._task.losses.items()
            }
            total = tf.add_n(
                [losses.weighted_mean(sums[n], global_weights[n]) for n in sums]
            )
        gradients = tape.gradient(total, variables)
        # Dense, so that the norm is the gradient's own: that of slices counts the
        # rows of a piece which stands twice in the batch one by one.
        return [tf.convert_to_tensor(gradient) for gradient in gradients], sums


def _cut(tensor: tf.Tensor, parts: int) -> tf.Tensor:
    """[B, ...] -> [parts, B / parts, ...]; only the length of rows may be unknown."""
    rows = [parts, tensor.shape[0] // parts]
    cut = tf.reshape(tensor, tf.concat([rows, tf.shape(tensor)[1:]], axis=0))
    return tf.ensure_shape(cut, [*rows, *tensor.shape[1:]])
