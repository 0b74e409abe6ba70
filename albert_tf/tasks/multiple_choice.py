"""The multiple-choice task."""

from collections.abc import Sequence

import tensorflow as tf

from albert_tf.model.heads import MultipleChoiceModel
from albert_tf.tasks import losses
from albert_tf.tasks.base import Task, WeightedMean


def multiple_choice(
    name: str, levels: Sequence[str] = (), dropout: float = 0.1
) -> Task:
    """Which of a question's options is right.

    Its predictions are `probabilities` float32 [R, C], 0 for options that a question
    lacks, `options`, how many it has, `label_ids` and `level`.

    Args:
      name: as reports call it.
      levels: names of the parts of a set that have an accuracy of their own; a row's
        `level` is an index, or none of these.
      dropout: of the head.
    """

    def build_model(config, seed, rematerialize):
        return MultipleChoiceModel(config, dropout, seed, rematerialize)

    def predictions(outputs, batch):
        present = tf.reduce_max(batch["input_mask"], axis=-1)
        return {
            "probabilities": tf.nn.softmax(outputs["logits"]),
            "options": tf.reduce_sum(present, axis=-1),
            **{name: batch[name] for name in ("label_ids", "level")},
        }

    def score(predicted):
        chosen = predicted["probabilities"].argmax(axis=-1)
        correct = chosen == predicted["label_ids"]
        found = {"eval_accuracy": float(correct.mean())}
        for index, level in enumerate(levels):
            of_level = predicted["level"] == index
            if of_level.any():
                found[f"eval_accuracy_{level}"] = float(correct[of_level].mean())
        return found

    return Task(
        name=name,
        build_model=build_model,
        read_batch=dict,
        losses={"loss": WeightedMean(losses.classification, losses.row_weights)},
        metrics={},
        best_metric="eval_accuracy",
        predictions=predictions,
        score=score,
    )
