"""The best weights of a run so far, and how long ago that was."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from albert_tf.checkpoints.load import weights_checkpoint
from albert_tf.checkpoints.output_folders import BEST_FOLDER, BEST_REPORT_FILE
from albert_tf.files import read_json, write_json, write_whole


class BestWeights:
    """The folder `best/` of a run: weights, the evaluation that they are there for, and
    what else a model needs."""

    def __init__(self, output_dir: Path, metric: str, files: Mapping[str, bytes]):
        """Args:
        output_dir: of the run.
        metric: the score to choose by; higher is better, and what is not a number is
          worse than any.
        files: name -> content of what lies beside the weights.
        """
        self._folder, self._metric = output_dir / BEST_FOLDER, metric
        self._files = files

    def report(self) -> dict[str, Any] | None:
        """The best evaluation, with its `global_step`; None: there was none."""
        return read_json(self._folder / BEST_REPORT_FILE, missing_ok=True) or None

    def offer(self, model: tf.Module, report: Mapping[str, Any], step: int) -> None:
        """Keeps the weights if no evaluation before was as good."""
        best = self.report()
        if best is not None and not self._value(report) > self._value(best):
            return
        self._folder.mkdir(exist_ok=True)
        for name, content in self._files.items():
            write_whole(self._folder / name, content)
        manager = tf.train.CheckpointManager(
            weights_checkpoint(model),
            str(self._folder),
            max_to_keep=1,
            checkpoint_name="model.ckpt",
        )
        manager.save(checkpoint_number=step)
        write_json(self._folder / BEST_REPORT_FILE, {**report, "global_step": step})

    def evaluations_since(self, step: int, every: int) -> int:
        """Evaluations after the best one, when there was one each `every` steps."""
        best = self.report()
        return -(-(step - best["global_step"]) // every) if best else 0

    def _value(self, report: Mapping[str, Any]) -> float:
        value = report[self._metric]
        return -math.inf if value is None or math.isnan(value) else value
