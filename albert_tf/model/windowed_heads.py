"""Classifiers and regressions of texts that have several windows.

Letters in shapes: B batch, W windows, S sequence, H hidden.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tf_keras

from albert_tf.config import AlbertConfig
from albert_tf.model.dropout import resolve_seed
from albert_tf.model.heads import MISSING_LOGIT, ClassificationModel, flatten_rows


def pool_windows(vectors: tf.Tensor, is_present: tf.Tensor, pooling: str) -> tf.Tensor:
    """Makes one vector of those of the windows of a text.

    Args:
      vectors: [B, W, H].
      is_present: bool [B, W], true for windows that the text has, the first ones.
      pooling: one of `task_config.WINDOW_POOLINGS`: "mean" or "max" of the windows that
        there are, or the "first" one.
    Returns:
      float32 [B, H].
    """
    vectors = tf.cast(vectors, tf.float32)
    if pooling == "first":
        return vectors[:, 0]
    present = is_present[..., tf.newaxis]
    if pooling == "max":
        return tf.reduce_max(tf.where(present, vectors, MISSING_LOGIT), axis=1)
    total = tf.reduce_sum(tf.where(present, vectors, 0.0), axis=1)
    counts = tf.reduce_sum(tf.cast(present, tf.float32), axis=1)
    return total / tf.maximum(counts, 1.0)


@tf_keras.utils.register_keras_serializable(package="albert_tf")
class WindowedClassificationModel(ClassificationModel):
    """A classifier whose head takes the pooled outputs of all windows of a text.

    Its weights are those of `ClassificationModel`, and so are its answers where a text
    has one window.
    """

    def __init__(
        self,
        config: AlbertConfig | Mapping[str, Any],
        *,
        window_pooling: str = "mean",
        **kwargs,
    ):
        """Makes all variables.

        Args:
          config: as in `AlbertEncoder`.
          window_pooling: as of `pool_windows`.
          **kwargs: as in `ClassificationModel`.
        """
        super().__init__(config, **kwargs)
        self._window_pooling = window_pooling

    def call(
        self,
        inputs: Mapping[str, tf.Tensor],
        training: bool | None = False,
        dropout_seed: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """Computes the logits of a batch of texts.

        Args:
          inputs: dict of int32 [B, W, S]: `input_ids`, `input_mask`, `segment_ids`. A
            window whose mask is 0 throughout is missing. Or [B, S]: one window each.
          training: True to apply dropout.
          dropout_seed: as in the encoder.
        Returns:
          dict of `logits` float32 [B, num_outputs].
        """
        ids = inputs["input_ids"]
        if ids.shape.rank == 2:
            return super().call(inputs, training, dropout_seed)
        seed = resolve_seed(training, dropout_seed)
        shape = tf.shape(ids)
        flat = flatten_rows(inputs)
        encoded = self.encoder(flat, training=training, dropout_seed=seed)
        outputs = encoded["pooled_output"]
        size = [outputs.shape[-1]]
        outputs = tf.reshape(outputs, tf.concat([shape[:2], size], axis=0))
        present = tf.reduce_any(inputs["input_mask"] > 0, axis=-1)
        pooled = pool_windows(outputs, present, self._window_pooling)
        pooled = tf.ensure_shape(pooled, [ids.shape[0], *size])
        return {"logits": self.head(pooled, seed)}

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments as JSON values."""
        return {**super().get_config(), "window_pooling": self._window_pooling}
