"""Metrics, in two parts.

- `masked_lm_correct` and `sentence_order_correct` are values of a batch that, with the
  weights of `losses.py`, make weighted means; they are computed in TensorFlow.
- `METRICS` are computed on the host by scikit-learn and scipy, from all rows at once.

Letters in shapes: B batch, P predictions, V vocabulary, R rows of a data set.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
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


def _macro_f1(labels: np.ndarray, predicted: np.ndarray) -> float:
    return sklearn_metrics.f1_score(
        labels, predicted, average="macro", zero_division=0.0
    )


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
    "macro_f1": _macro_f1,
    "matthew_corr": _matthews,
    "pearson": _correlation(stats.pearsonr),
    "spearman": _correlation(stats.spearmanr),
}

ClassTable: TypeAlias = dict[str, dict[str, float]]


def class_table(labels: Sequence[str], columns: Sequence[np.ndarray]) -> ClassTable:
    """Names what scikit-learn's `precision_recall_fscore_support` gives of each label.

    Returns:
      Label -> `precision`, `recall`, `f1` and `support`, the number of its rows.
    """
    names = ("precision", "recall", "f1")
    return {
        label: {
            **{name: float(value) for name, value in zip(names, values, strict=True)},
            "support": int(support),
        }
        for label, *values, support in zip(labels, *columns, strict=True)
    }


def table_lines(classes: ClassTable, things: str) -> list[str]:
    """Lines of a table of classes, for people.

    Args:
      classes: as of `class_table`.
      things: what `support` counts, as "entities".
    """
    width = max(map(len, classes), default=0)
    lines = [f"{'':{width}}  precision  recall      F1  {things}"]
    for name, values in classes.items():
        numbers = [f"{100 * values[key]:6.2f}" for key in ("precision", "recall", "f1")]
        lines.append(
            f"{name:{width}}  {numbers[0]:>9}  {numbers[1]}  {numbers[2]}  "
            f"{values['support']:>{len(things)}}"
        )
    return lines
