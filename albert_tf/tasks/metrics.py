"""Metrics, in two parts.

- `masked_lm_correct` and `sentence_order_correct` are values of a batch that, with the
  weights of `losses.py`, make weighted means; they are computed in TensorFlow.
- `METRICS` are computed on the host by scikit-learn and scipy, from all rows at once.

Letters in shapes: B batch, P predictions, V vocabulary, R rows of a data set.
"""

import warnings
from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
import tensorflow as tf
from scipy import stats
from sklearn import metrics as sklearn_metrics

from albert_tf.tasks.base import Tensors

Metric: TypeAlias = Callable[[np.ndarray, np.ndarray], float]


def masked_lm_correct(outputs: Tensors, batch: Tensors) -> tf.Tensor:
    """1 where the likeliest token is the masked one, else 0; float32 [B, P].

    Args:
      outputs: `masked_lm_logits` float32 [B, P, V].
      batch: `masked_lm_ids` int32 [B, P].
    """
    best = tf.argmax(outputs["masked_lm_logits"], axis=-1, output_type=tf.int32)
    return tf.cast(best == batch["masked_lm_ids"], tf.float32)


def sentence_order_correct(outputs: Tensors, batch: Tensors) -> tf.Tensor:
    """1 where the predicted order is the true one, else 0; float32 [B].

    Args:
      outputs: `sentence_order_logits` float32 [B, 2].
      batch: `sentence_order_label` int32 [B].
    Shapes of packed rows are as in `losses.sentence_order`.
    """
    best = tf.argmax(outputs["sentence_order_logits"], axis=-1, output_type=tf.int32)
    return tf.cast(best == batch["sentence_order_label"], tf.float32)


def _f1(labels: np.ndarray, predicted: np.ndarray) -> float:
    return sklearn_metrics.f1_score(labels, predicted, zero_division=0.0)


def _matthews(labels: np.ndarray, predicted: np.ndarray) -> float:
    with warnings.catch_warnings():
        # With a single label the coefficient is 0, as for any constant prediction; a
        # user can do nothing about it.
        warnings.filterwarnings("ignore", "A single label was found")
        return sklearn_metrics.matthews_corrcoef(labels, predicted)


def _correlation(function: Callable) -> Metric:
    def correlation(labels: np.ndarray, predicted: np.ndarray) -> float:
        with warnings.catch_warnings():
            # Undefined for constant numbers and for a single one: NaN.
            warnings.simplefilter("ignore", stats.ConstantInputWarning)
            if len(labels) < 2:
                return float("nan")
            return function(labels, predicted).statistic

    return correlation


# Under the original's names: (true values [R], predicted values [R]) -> number.
METRICS: Mapping[str, Metric] = {
    "eval_accuracy": sklearn_metrics.accuracy_score,
    "f1": _f1,
    "matthew_corr": _matthews,
    "pearson": _correlation(stats.pearsonr),
    "spearman": _correlation(stats.spearmanr),
}
