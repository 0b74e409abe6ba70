"""The loss that classifiers are trained with, by the options of fine-tuning."""

from collections.abc import Sequence

import numpy as np
from sklearn.utils.class_weight import compute_class_weight

from albert_tf.field_rules import number
from albert_tf.records.reader import read_rows
from albert_tf.records.sidecar import RecordSet
from albert_tf.task_config import Classification, MultiLabel, TaskConfig
from albert_tf.tasks.losses import PLAIN, ClassificationLoss
from albert_tf.training.fine_tuning_config import FineTuningConfig

BALANCED = "balanced"


def create_loss(
    options: FineTuningConfig, task_config: TaskConfig, rows: RecordSet | None
) -> ClassificationLoss:
    """Builds the loss.

    Args:
      options: its weights, label smoothing and focal loss.
      task_config: the labels.
      rows: to train on, which "balanced" weights count the labels of; None: there is
        no training.
    Raises:
      ValueError: weights that cannot be read, or of labels that the task lacks; a
        label without rows, which no weight can balance; or a task without labels.
    """
    if rows is None:
        return PLAIN
    weights: Sequence[float] = ()
    if options.class_weights:
        if not isinstance(task_config, Classification | MultiLabel):
            raise ValueError(
                f"Class weights are for classifiers, not for {task_config.task_name}: "
                "leave --class_weights out."
            )
        if options.class_weights == BALANCED:
            weights = _balanced(task_config, rows)
        else:
            weights = parse(options.class_weights, task_config.labels)
        listed = zip(task_config.labels, weights, strict=True)
        text = ", ".join(f"{label} {weight:.3g}" for label, weight in listed)
        print(f"Class weights: {text}.", flush=True)
    return ClassificationLoss(
        tuple(weights), options.label_smoothing, options.focal_gamma
    )


def parse(text: str, labels: Sequence[str]) -> list[float]:
    """Reads "label:weight,...", in which labels that are not named weigh 1.

    Raises:
      ValueError: a part is not a label and a weight above 0, or names a label twice or
        none of `labels`.
    """
    given: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = part.rpartition(":")
        name = name.strip()
        try:
            weight = float(value)
        except ValueError:
            weight = 0.0
        if name not in labels or name in given or not (number(weight) and weight > 0):
            raise ValueError(
                f"--class_weights is {BALANCED!r}, or label:weight,... with a number "
                f"above 0 for each of some labels. Received {part!r}; labels are "
                f"{', '.join(map(repr, labels))!s:.200}."
            )
        given[name] = weight
    return [given.get(label, 1.0) for label in labels]


def _balanced(task_config: Classification | MultiLabel, rows: RecordSet) -> list[float]:
    found = [row["label_ids"] for path in rows.paths for row in read_rows(path)]
    ids = np.array(found)
    places = np.arange(len(task_config.labels))
    if isinstance(task_config, MultiLabel):
        counts = (ids > 0).sum(axis=0)
    else:
        counts = np.bincount(ids.ravel(), minlength=len(places))
    if not counts.all():
        label = task_config.labels[int(counts.argmin())]
        raise ValueError(
            f"No row to train on has the label {label!r}, which no weight can balance: "
            "give rows of it, or weights as label:weight,..."
        )
    if isinstance(task_config, MultiLabel):
        return ((len(ids) - counts) / counts).tolist()
    return compute_class_weight("balanced", classes=places, y=ids.ravel()).tolist()
