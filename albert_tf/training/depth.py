"""Growing depth: the first steps of pretraining apply fewer layers than the model has.

Gong et al. 2019, "Efficient Training of BERT by Progressively Stacking", train a model
of few layers and copy them to make a deeper one. Layers that share their weights need
no copy: a model of any depth has the same variables, so here moments, step and
checkpoints go on as they are.
"""

import re
from typing import NamedTuple

from albert_tf.config import AlbertConfig

_FORM = re.compile(r"\d+:\d+(,\d+:\d+)*", re.ASCII)


class Stage(NamedTuple):
    """Steps of one depth.

    Attributes:
      end: the step at which they end, exclusive.
      num_layers: layers that they apply.
    """

    end: int
    num_layers: int


class DepthSchedule(NamedTuple):
    """The number of layers that each step of a training applies.

    Attributes:
      stages: the stages that apply fewer than all layers, from step 0 on; the steps
        after them apply all.
    """

    stages: tuple[Stage, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "DepthSchedule":
        """Reads STEPS:LAYERS,STEPS:LAYERS; empty: all steps apply all layers.

        Raises:
          ValueError: another form, or a stage without steps or layers.
        """
        if not text:
            return cls()
        numbers = [int(number) for number in re.findall(r"\d+", text)]
        if not _FORM.fullmatch(text) or 0 in numbers:
            raise ValueError(
                "depth_schedule must be STEPS:LAYERS,STEPS:LAYERS, whole numbers of at "
                f"least 1, as 50000:3,25000:6. Received {text!r:.80}."
            )
        steps, layers = numbers[::2], numbers[1::2]
        ends = [sum(steps[: index + 1]) for index in range(len(steps))]
        return cls(tuple(map(Stage, ends, layers)))

    @property
    def ends(self) -> list[int]:
        """The step at which each stage ends, rising."""
        return [stage.end for stage in self.stages]

    def layers_after(self, step: int) -> int | None:
        """Layers that the step after `step` steps applies; None: all."""
        return next((p.num_layers for p in self.stages if step < p.end), None)

    def check(self, config: AlbertConfig, num_train_steps: int, can_grow: bool) -> None:
        """Checks that a training can have this schedule.

        Args:
          config: the model.
          num_train_steps: steps of the training.
          can_grow: true if its task can apply fewer layers.
        Raises:
          ValueError: it cannot; a depth is not above that before, not below the
            model's, or not one that the parameter groups divide; no step is left that
            applies all layers.
        """
        if not self.stages:
            return
        if not can_grow:
            raise ValueError("depth_schedule is for pretraining alone: leave it out.")
        layers = [stage.num_layers for stage in self.stages]
        depths = [*layers, config.num_hidden_layers]
        if depths != sorted(set(depths)):
            raise ValueError(
                "depth_schedule: layers must rise and stay below num_hidden_layers, "
                f"{config.num_hidden_layers}, which the steps after it apply. Received "
                f"{', '.join(map(str, layers))}."
            )
        groups = config.groups
        for depth in layers:
            for name, count in groups.items():
                if depth % count:
                    raise ValueError(
                        f"depth_schedule: {name}, {count}, must divide the layers of a "
                        f"stage, so that each keeps its group. Received {depth}."
                    )
        if self.ends[-1] >= num_train_steps:
            raise ValueError(
                f"depth_schedule: its steps, {self.ends[-1]}, must be below "
                f"num_train_steps, {num_train_steps}, so that some apply all layers: "
                "change one of them."
            )
