"""The best weights of a run so far.

`orbit.actions.NewBestMetric` keeps the best value only. Here weights, report and model
files are stored together, weights whose metric is not defined are never the best, and
early stopping reads the step of the best evaluation after a resumption.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from albert_tf.checkpoints.load import weights_checkpoint
from albert_tf.checkpoints.output_folders import BEST_FOLDER, BEST_REPORT_FILE
from albert_tf.checkpoints.tensorflow_files import explain_writing
from albert_tf.files import make_folder, read_json, write_json, write_whole
from albert_tf.storage import AnyPath
from albert_tf.training.checkpoint_folder import CHECKPOINT_NAME, CheckpointFolder
from albert_tf.training.run_folder import no_check


class BestWeights:
    """The folder `best/` of a run: best weights so far, their evaluation report, and
    the files that make them a complete model."""

    def __init__(
        self,
        output_dir: AnyPath,
        metric: str,
        files: Mapping[str, bytes],
        options: tf.train.CheckpointOptions | None = None,
        check: Callable[[], None] = no_check,
        ema_decay: float = 0.0,
    ):
        """Names the folder; nothing is written yet.

        Args:
          output_dir: the run's output folder.
          metric: the metric to choose by; higher is better. Weights for which it is
            None or NaN are not stored.
          files: name -> content of the files to store next to the weights.
          options: of `devices.checkpoint_options`.
          check: as of `RunFolder`.
          ema_decay: of the averages that the weights are; 0: they are none.
        """
        self._folder, self._metric = output_dir / BEST_FOLDER, metric
        self._ema_decay = ema_decay
        self._files, self._options, self._check = files, options, check

    def report(self) -> dict[str, Any] | None:
        """The best evaluation report, with its `global_step`; None: there is none."""
        return read_json(self._folder / BEST_REPORT_FILE, missing_ok=True) or None

    def offer(self, model: tf.Module, report: Mapping[str, Any], step: int) -> None:
        """Stores the weights if they are better than all before.

        Args:
          model: the model with these weights.
          report: its evaluation report.
          step: optimizer steps done.
        """
        if self._value(report) == -math.inf:
            print(
                f"WARNING: {self._metric} is undefined at step {step}, as a "
                "correlation is if all predictions or all labels are equal: these "
                "weights cannot be the best.",
                flush=True,
            )
            return
        best = self.report()
        if best is not None and not self._value(report) > self._value(best):
            return
        self._check()
        make_folder(self._folder)
        for name, content in self._files.items():
            write_whole(self._folder / name, content)
        weights = CheckpointFolder(
            weights_checkpoint(model, step, self._ema_decay),
            self._folder,
            max_to_keep=1,
            options=self._options,
            check=self._check,
        )
        with explain_writing(self._folder / f"{CHECKPOINT_NAME}-{step}"):
            weights.save(step)
        self._check()
        write_json(self._folder / BEST_REPORT_FILE, {**report, "global_step": step})

    def evaluations_since(self, step: int, eval_steps: int) -> int:
        """Number of evaluations after the best one, up to `step`.

        Args:
          step: optimizer steps done.
          eval_steps: steps between evaluations.
        """
        best = self.report()
        return -(-(step - best["global_step"]) // eval_steps) if best else 0

    def _value(self, report: Mapping[str, Any]) -> float:
        value = report[self._metric]
        return -math.inf if value is None or math.isnan(value) else value
