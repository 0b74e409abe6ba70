"""A job: everything that one run is asked to do."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.config import AlbertConfig, OptimizerConfig, TrainConfig
from albert_tf.records.sidecar import RecordSet
from albert_tf.tasks.base import Task
from albert_tf.training import model_parts, phases, schedules
from albert_tf.training.depth import DepthSchedule
from albert_tf.training.phases import Phase


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
      phases: steps of training that share a length of rows and a batch size, in their
        order; none: all steps read `train_rows` as they are, `train_batch_size` at a
        time.
      other_train_rows: training rows of other lengths, a set for each, for phases.
      init_checkpoint: weights to start from if the output folder has no checkpoint.
      unshare: allow layers that share weights in `init_checkpoint` to start as copies
        of them.
      depth_schedule: STEPS:LAYERS,STEPS:LAYERS, the first steps of training and how
        many layers they apply; the steps after them apply all. Empty: all steps do.
      files: name -> content of files stored next to the weights, so that the folder is
        a complete model: the vocabulary and the task configuration.
      settings: JSON values that `results.json` keeps next to the configurations.
      decisive_settings: such values that decide the weights of a training, so that a
        run is resumed with the same ones only.
    """

    task: Task
    model_config: AlbertConfig
    optimizer_config: OptimizerConfig
    train_config: TrainConfig
    train_rows: RecordSet | None = None
    eval_rows: RecordSet | None = None
    phases: Sequence[Phase] = ()
    other_train_rows: Sequence[RecordSet] = ()
    init_checkpoint: str = ""
    unshare: bool = False
    depth_schedule: str = ""
    files: Mapping[str, bytes] = dataclasses.field(default_factory=dict)
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    decisive_settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        if self.train_rows:
            schedules.check_steps(self.optimizer_config)
            steps = self.optimizer_config.num_train_steps
            phases.check(self.phases, steps, self.train_sets)
            hours = self.train_config.max_train_hours
            schedules.check_budget(self.optimizer_config, hours)
            model_parts.check_layers(self.optimizer_config, self.model_config)
            self.depths.check(self.model_config, steps, self.task.can_grow)

    @property
    def keeps_averages(self) -> bool | None:
        """True if evaluations and the best weights are of averaged weights, False if of
        the last ones; None: the training makes no averages."""
        if not self.train_rows or not self.optimizer_config.ema_decay:
            return None
        return self.train_config.use_ema is not False

    @property
    def depths(self) -> DepthSchedule:
        """`depth_schedule`, read."""
        return DepthSchedule.parse(self.depth_schedule)

    @property
    def record_sets(self) -> list[RecordSet]:
        """The training and evaluation rows, as far as there are any."""
        return [*self.train_sets, *([self.eval_rows] if self.eval_rows else ())]

    @property
    def train_sets(self) -> list[RecordSet]:
        """The training rows, a set for each length; empty: no training."""
        return [self.train_rows, *self.other_train_rows] if self.train_rows else []

    @property
    def all_phases(self) -> Sequence[Phase]:
        """The phases; one of all steps if the job names none."""
        steps = self.optimizer_config.num_train_steps
        one = Phase(steps, length=0, batch_size=self.train_config.train_batch_size)
        return self.phases or (one,)
