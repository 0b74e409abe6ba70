"""One optimizer step, the same for any number of replicas and micro-batches.

Loss and gradient are those of the whole global batch. The weights of its losses are
summed over all replicas before the forward pass; each micro-batch then adds its share
of the gradient; the sum is reduced over replicas, clipped, and applied.
"""

from collections.abc import Mapping

import tensorflow as tf
import tf_keras

from albert_tf.tasks import losses
from albert_tf.tasks.base import Task
from albert_tf.training import optimization
from albert_tf.training.loss_scale import LossScale

Tensors = Mapping[str, tf.Tensor]
# In the report of a step: the loss of each row.
ROW_LOSSES = "row_losses"


class TrainStep:
    """One optimizer step: a function of features and a seed, for replica context."""

    def __init__(
        self,
        task: Task,
        model: tf_keras.Model,
        optimizer: optimization.AdamW,
        micro_batches: int = 1,
        jit_compile: bool = False,
        loss_scale: LossScale | None = None,
        num_layers: int | None = None,
        keeps_row_losses: bool = False,
    ):
        """Keeps what a step needs; call it in the strategy's scope.

        Args:
          task: its losses are minimized.
          model: from `task.build_model`.
          optimizer: built on the variables to train.
          micro_batches: parts of a replica's batch whose gradients are accumulated.
          jit_compile: compile the computation of the gradients with XLA.
          loss_scale: scale of the loss in float16; None: it is not scaled.
          num_layers: layers to apply, for a task that can grow; None: all.
          keeps_row_losses: whether reports have the loss of each row; not with several
            parts.
        """
        self._keeps_row_losses = keeps_row_losses
        self._task, self._model, self._optimizer = task, model, optimizer
        self._micro_batches, self._loss_scale = micro_batches, loss_scale
        self._depth = {} if num_layers is None else {"num_layers": num_layers}
        # XLA compiles the local gradients; the reduction over replicas stays outside.
        self._local_gradients = (
            tf.function(self._accumulate, jit_compile=True, autograph=False)
            if jit_compile
            else self._accumulate
        )

    @property
    def model(self) -> tf_keras.Model:
        """The model that is trained."""
        return self._model

    def __call__(
        self, features: Mapping[str, tf.Tensor], seed: tf.Tensor
    ) -> dict[str, tuple[tf.Tensor, tf.Tensor]]:
        """Updates the model.

        Args:
          features: this replica's part of the global batch, as parsed from records.
          seed: int32 [2] of dropout, different on every replica and in every step.
        Returns:
          Name -> (mean, weight) of this replica: each loss, `gradient_norm`, and
          `skipped`, 1 for a step whose gradient was not finite. If they are kept, under
          `ROW_LOSSES` the sum of the losses of each row, float32 [B], twice.
        """
        batch = self._task.read_batch(features)
        replica = tf.distribute.get_replica_context()
        weights = {
            name: tf.reduce_sum(loss.weights(batch))
            for name, loss in self._task.losses.items()
        }
        global_weights = replica.all_reduce("sum", weights)
        gradients, sums = self._local_gradients(batch, global_weights, seed)
        row_losses = sums.pop(ROW_LOSSES, None)
        gradients = replica.all_reduce("sum", gradients)
        if self._loss_scale:
            gradients = self._loss_scale.unscale(gradients)
        applied, norm = self._optimizer.apply_or_skip(
            gradients, self._optimizer.trained_variables
        )
        if self._loss_scale:
            self._loss_scale.update(applied)
        report = {
            name: (losses.weighted_mean(sums[name], weights[name]), weights[name])
            for name in sums
        }
        # A skipped step has a weight of 0 in the means over steps.
        counts = tf.cast(applied, tf.float32)
        report = {
            name: (tf.where(applied, mean, 0.0), counts * weight)
            for name, (mean, weight) in report.items()
        }
        report["gradient_norm"] = (tf.where(applied, norm, 0.0), counts)
        report["skipped"] = (1.0 - counts, tf.ones([]))
        if row_losses is not None:
            report[ROW_LOSSES] = (row_losses, row_losses)
        return report

    def _accumulate(
        self, batch: Tensors, global_weights: Tensors, seed: tf.Tensor
    ) -> tuple[list[tf.Tensor], dict[str, tf.Tensor]]:
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

        zeros = [tf.zeros(v.shape) for v in self._optimizer.trained_variables]
        _, gradients, sums = tf.while_loop(
            lambda index, *_: index < parts,
            add_part,
            (tf.constant(0), zeros, {name: tf.zeros([]) for name in self._task.losses}),
            parallel_iterations=1,
            maximum_iterations=parts,
        )
        return gradients, sums

    def _gradients(
        self, batch: Tensors, global_weights: Tensors, seed: tf.Tensor
    ) -> tuple[list[tf.Tensor], dict[str, tf.Tensor]]:
        """Gradients of these rows' share of the global loss, times the loss scale, and
        sums of each loss."""
        variables = self._optimizer.trained_variables
        with tf.GradientTape() as tape:
            outputs = self._model(
                batch, training=True, dropout_seed=seed, **self._depth
            )
            weighted = {
                name: loss.values(outputs, batch) * loss.weights(batch)
                for name, loss in self._task.losses.items()
            }
            sums = {name: tf.reduce_sum(value) for name, value in weighted.items()}
            total = tf.add_n(
                [losses.weighted_mean(sums[n], global_weights[n]) for n in sums]
            )
            if self._loss_scale:
                total = self._loss_scale.scale(total)
        gradients = tape.gradient(total, variables)
        if self._keeps_row_losses:
            sums[ROW_LOSSES] = self._row_losses(weighted, batch)
        # Dense, since the norm of slices is wrong: it counts a token that occurs twice
        # in the batch as two rows.
        return [tf.convert_to_tensor(gradient) for gradient in gradients], sums

    def _row_losses(self, weighted: Tensors, batch: Tensors) -> tf.Tensor:
        """Sum over the losses of each row's weighted mean, float32 [B]."""
        means = []
        for name, loss in self._task.losses.items():
            values, weights = weighted[name], loss.weights(batch)
            inner = list(range(1, values.shape.rank))
            values, weights = (tf.reduce_sum(v, inner) for v in (values, weights))
            means.append(losses.weighted_mean(values, weights))
        return tf.add_n(means)


def _cut(tensor: tf.Tensor, parts: int) -> tf.Tensor:
    """[B, ...] -> [parts, B / parts, ...]; B must be known, other sizes need not be."""
    rows = [parts, tensor.shape[0] // parts]
    cut = tf.reshape(tensor, tf.concat([rows, tf.shape(tensor)[1:]], axis=0))
    return tf.ensure_shape(cut, [*rows, *tensor.shape[1:]])
