"""A job: everything that one run is asked to do."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from albert_tf.config import AlbertConfig, OptimizerConfig, TrainConfig
from albert_tf.records.sidecar import RecordSet
from albert_tf.tasks.base import Task
from albert_tf.training import schedules


@dataclasses.dataclass(frozen=True)
class Job:
    """All that `run` is asked to do.

    Attributes:
      task: the task.
      model_config: the model's configuration.
      optimizer_config: the optimizer and schedule.
      train_config: sizes, intervals, precision, seed and output folder.
      train_rows: rows to train on; None: no training.
      eval_rows: rows to evaluate on; None: no evaluation.
      init_checkpoint: weights to start from if the output folder has no checkpoint.
      unshare: allow layers that share weights in `init_checkpoint` to start as copies
        of them.
      files: name -> content of files stored next to the weights, so that the folder is
        a complete model: the vocabulary and the task configuration.
      settings: JSON values that `results.json` keeps next to the configurations.
    """

    task: Task
    model_config: AlbertConfig
    optimizer_config: OptimizerConfig
    train_config: TrainConfig
    train_rows: RecordSet | None = None
    eval_rows: RecordSet | None = None
    init_checkpoint: str = ""
    unshare: bool = False
    files: Mapping[str, bytes] = dataclasses.field(default_factory=dict)
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        if self.train_rows:
            schedules.check_steps(self.optimizer_config)

    @property
    def record_sets(self) -> list[RecordSet]:
        """The training and evaluation rows, as far as there are any."""
        return [rows for rows in (self.train_rows, self.eval_rows) if rows]
