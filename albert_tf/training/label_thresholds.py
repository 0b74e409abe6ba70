"""Thresholds of several labels a text, found on rows with labels."""

import dataclasses
from typing import Any

from albert_tf.checkpoints.model_dir import replace_task
from albert_tf.files import read_json, write_json
from albert_tf.storage import AnyPath, PathLike
from albert_tf.task_config import MultiLabel
from albert_tf.tasks.create import create_task
from albert_tf.tasks.multi_label import tune_thresholds
from albert_tf.training.multi_run import FineTuned

SPLIT = "dev"


def tune(
    outcome: FineTuned,
    task_config: MultiLabel,
    model: PathLike,
    results_file: AnyPath | None,
) -> MultiLabel:
    """Finds the thresholds of a model and stores them in its `task.json`.

    The reports of `outcome` get the metrics with these thresholds as `tuned`: those of
    the split that they were found on are too good. Its results get `thresholds`.

    Args:
      outcome: of a training or an evaluation of the model.
      task_config: its task.
      model: its folder or weights.
      results_file: file of the results; None: nothing is written, as by workers that
        are not the chief.
    Returns:
      The task with the thresholds; without rows of "dev", as it was.
    """
    predicted = outcome.predictions.get(SPLIT)
    if predicted is None or not predicted["labelled"]:
        return task_config
    tuned = tune_thresholds(predicted)
    if tuned.without_examples:
        print(
            f"WARNING: {tuned.without_examples} of {len(task_config.labels)} labels "
            f"are those of no row of {SPLIT}: their thresholds stay 0.5.",
            flush=True,
        )
    task_config = dataclasses.replace(task_config, thresholds=tuned.thresholds)
    task = create_task(task_config)
    assert task.host_metrics and task.details
    for name, report in outcome.reports.items():
        found = outcome.predictions[name]
        report["tuned"] = {**task.host_metrics(found), **task.details(found)}
    thresholds: dict[str, Any] = {
        "thresholds": dict(zip(task_config.labels, tuned.thresholds, strict=True)),
        "thresholds_tuned_on": SPLIT,
    }
    if outcome.trained:
        outcome.results.update(thresholds)
    if results_file is not None:
        replace_task(model, task_config.to_dict())
        results = outcome.results
        if not outcome.trained:
            stored = read_json(results_file)
            results = {**stored, "sets": results, **thresholds}
        write_json(results_file, results)
    return task_config
