"""The regression task: a number for one text or a pair of texts."""

import tensorflow as tf

from albert_tf.records.features import classifier_features
from albert_tf.task_config import Regression
from albert_tf.tasks import losses
from albert_tf.tasks.base import Arrays, Task, Tensors, WeightedMean
from albert_tf.tasks.metrics import METRICS
from albert_tf.tasks.text_models import build_classifier


def regression_task(task_config: Regression, dropout: float) -> Task:
    """Builds the task of predicting a number, as the similarity of STS-B.

    Its predictions are `values` float32 [R] and `label_ids`.

    Args:
      task_config: name of the task.
      dropout: probability of dropping a value of the head's input.
    """
    windows = task_config.window_pooling is not None
    return Task(
        name=task_config.task_name,
        build_model=build_classifier(task_config, 1, dropout),
        losses={"loss": WeightedMean(losses.regression, losses.row_weights)},
        best_metric="pearson",
        features=lambda _: classifier_features("float32", windows),
        predictions=_predictions,
        host_metrics=correlations,
    )


def _predictions(outputs: Tensors, batch: Tensors) -> dict[str, tf.Tensor]:
    return {"values": outputs["logits"][:, 0], "label_ids": batch["label_ids"]}


def correlations(predictions: Arrays) -> dict[str, float]:
    """Computes `pearson` and `spearman` of `values` [R] and `label_ids` [R]."""
    return {
        name: float(METRICS[name](predictions["label_ids"], predictions["values"]))
        for name in ("pearson", "spearman")
    }
