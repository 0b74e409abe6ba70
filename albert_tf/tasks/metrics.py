"""Scores: of pretraining as values and weights, as `losses.py` has them; of whole
data sets, on the host, by scikit-learn and scipy.

Letters in shapes: B batch, P predictions, V vocabulary, R rows of a data set.
"""

import warnings
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf
from scipy import stats
from sklearn import metrics as sklearn_metrics


def masked_lm_correct(outputs, batch):
    """1 where the best piece is the masked one, else 0; float32 [B, P].

    Args:
      outputs: `masked_lm_logits` float32 [B, P, V].
      batch: `masked_lm_ids` int32 [B, P].
    """
    best = tf.argmax(outputs["masked_lm_logits"], axis=-1, output_type=tf.int32)
    return tf.cast(best == batch["masked_lm_ids"], tf.float32)


def sentence_order_correct(outputs, batch):
    """1 where the order is told rightly, else 0; float32 [B].

    Args:
      outputs: `sentence_order_logits` float32 [B, 2].
      batch: `sentence_order_label` int32 [B].
    """
    best = tf.argmax(outputs["sentence_order_logits"], axis=-1, output_type=tf.int32)
    return tf.cast(best == batch["sentence_order_label"], tf.float32)


def _f1(labels, predicted) -> float:
    return sklearn_metrics.f1_score(labels, predicted, zero_division=0.0)


def _matthews(labels, predicted) -> float:
    with warnings.catch_warnings():
        # Of one label alone: 0, as of any constant, and nothing that a user can mend.
        warnings.filterwarnings("ignore", "A single label was found")
        return sklearn_metrics.matthews_corrcoef(labels, predicted)


def _correlation(function: Callable) -> Callable:
    def correlation(labels, predicted) -> float:
        with warnings.catch_warnings():
            # Of constant numbers, or of one: it is not defined, so it is not a number.
            warnings.simplefilter("ignore", stats.ConstantInputWarning)
            if len(labels) < 2:
                return float("nan")
            return function(labels, predicted).statistic

    return correlation


# Under the original's names: (true values [R], predicted values [R]) -> number.
SCORES: Mapping[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "eval_accuracy": sklearn_metrics.accuracy_score,
    "f1": _f1,
    "matthew_corr": _matthews,
    "pearson": _correlation(stats.pearsonr),
    "spearman": _correlation(stats.spearmanr),
}
