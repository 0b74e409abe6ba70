"""Configuration of the optimizer: its rates, their schedule, and what it updates."""

import dataclasses
from dataclasses import field

from albert_tf import field_rules
from albert_tf.field_rules import (
    BELOW_ONE,
    COUNT,
    COUNT_OR_ZERO,
    NOT_NEGATIVE,
    POSITIVE,
)

SCHEDULES = ("polynomial", "cosine", "wsd", "constant")
# Names of the parts of a model that `freeze` takes; "encoder" is the first three.
ENCODER_PARTS = ("embeddings", "block", "pooler")
PARTS = (*ENCODER_PARTS, "encoder", "head")
_UP_TO_ONE = field_rules.rule(
    "a number above 0 and at most 1", lambda v: field_rules.number(v) and 0 < v <= 1
)


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """The optimizer and its learning rate; the paper's section 4.1 as defaults.

    Attributes:
      optimizer: the optimizer.
      learning_rate: peak learning rate, reached at the end of warm-up.
      num_train_steps: optimizer steps; the decay of the learning rate ends there.
      num_warmup_steps: steps of linear warm-up; 0: no warm-up.
      start_warmup_step: step at which warm-up starts; the rate is 0 before it.
      poly_power: power of the polynomial decay; 1: linear.
      end_learning_rate: learning rate after the last step, if it decays.
      weight_decay: decoupled weight decay; not on LayerNorm and biases.
      beta_1: decay rate of the first moment.
      beta_2: decay rate of the second moment.
      epsilon: added to the root of the second moment.
      clip_norm: bound of the gradients' global norm.
      lr_schedule: learning rate after warm-up: "polynomial" decay, counted from step 0;
        "cosine" decay from the end of warm-up; "wsd" (warm-up, stable, decay), at the
        peak until the last num_decay_steps; or "constant".
      num_decay_steps: last steps in which wsd decays, by 1 - sqrt of their share done.
      lr_schedule_by: what the decay follows: "steps", or "time", the used share of
        max_train_hours as if it were that share of num_train_steps; the run ends
        decayed by whichever of the two is used up first. Warm-up counts steps.
      ema_decay: decay rate of an exponential moving average of the weights, as 0.9999;
        0: no average. In step t it is at most (1 + t) / (10 + t), so that short runs
        forget their start.
      layer_decay: factor of the learning rate from a layer to the one below it, as 0.9;
        1: one rate. Of L layers, counted from 0, layer l has the rate times
        layer_decay^(L-l), the embeddings times layer_decay^(L+1), pooler and heads the
        full rate. For models whose layers share no parameters.
      head_learning_rate: peak learning rate of the heads, whose schedule is scaled with
        it; None: learning_rate.
      freeze: parts that keep their weights, separated by commas: embeddings (the
        tables, their LayerNorm and the projection to the layers' width), block (all
        layers), pooler, encoder (these three), or head.
    """

    optimizer: str = field(
        default="lamb", metadata=field_rules.choices("lamb", "adamw")
    )
    learning_rate: float = field(default=0.00176, metadata=POSITIVE)
    num_train_steps: int = field(default=125_000, metadata=COUNT)
    num_warmup_steps: int = field(default=3_125, metadata=COUNT_OR_ZERO)
    start_warmup_step: int = field(default=0, metadata=COUNT_OR_ZERO)
    poly_power: float = field(default=1.0, metadata=POSITIVE)
    end_learning_rate: float = field(default=0.0, metadata=NOT_NEGATIVE)
    weight_decay: float = field(default=0.01, metadata=NOT_NEGATIVE)
    beta_1: float = field(default=0.9, metadata=BELOW_ONE)
    beta_2: float = field(default=0.999, metadata=BELOW_ONE)
    epsilon: float = field(default=1e-6, metadata=POSITIVE)
    clip_norm: float = field(default=1.0, metadata=POSITIVE)
    lr_schedule: str = field(
        default="polynomial", metadata=field_rules.choices(*SCHEDULES)
    )
    num_decay_steps: int = field(default=0, metadata=COUNT_OR_ZERO)
    lr_schedule_by: str = field(
        default="steps", metadata=field_rules.choices("steps", "time")
    )
    ema_decay: float = field(default=0.0, metadata=BELOW_ONE)
    layer_decay: float = field(default=1.0, metadata=_UP_TO_ONE)
    head_learning_rate: float | None = field(
        default=None, metadata=field_rules.optional(POSITIVE)
    )
    freeze: str = ""

    def __post_init__(self):
        field_rules.check_fields(self)
        self._check_schedule()
        self._check_parts()

    @property
    def frozen_parts(self) -> frozenset[str]:
        """The parts that `freeze` names, of `ENCODER_PARTS` and "head"."""
        names = {name.strip() for name in self.freeze.split(",") if name.strip()}
        inner = set(ENCODER_PARTS) if "encoder" in names else set()
        return frozenset(names - {"encoder"} | inner)

    def _check_schedule(self) -> None:
        given = f"Received lr_schedule={self.lr_schedule}"
        if self.lr_schedule != "polynomial" and self.poly_power != 1:
            raise ValueError(
                "poly_power is for lr_schedule=polynomial alone. "
                f"{given} and poly_power={self.poly_power}: leave one out."
            )
        if (self.lr_schedule == "wsd") != (self.num_decay_steps > 0):
            raise ValueError(
                "num_decay_steps must be above 0 for lr_schedule=wsd, and is for it "
                f"alone. {given} and num_decay_steps={self.num_decay_steps}: change "
                "one of them."
            )
        if self.lr_schedule_by == "time" and self.lr_schedule == "constant":
            raise ValueError(
                "lr_schedule_by=time is for a rate that decays. "
                f"{given}: leave one out."
            )

    def _check_parts(self) -> None:
        if not isinstance(self.freeze, str):
            raise ValueError(
                f"freeze must be names separated by commas. Received {self.freeze!r}."
            )
        frozen = self.frozen_parts
        for name in sorted(frozen - set(PARTS)):
            raise ValueError(
                f"freeze has no part {name!r}: choose of {', '.join(PARTS)}."
            )
        if frozen >= set(PARTS) - {"encoder"}:
            raise ValueError(
                f"freeze={self.freeze} leaves nothing to train: leave a part out."
            )
        if self.layer_decay != 1 and "block" in frozen:
            raise ValueError(
                f"layer_decay={self.layer_decay} is for layers that are trained. "
                f"Received freeze={self.freeze}: leave one out."
            )
        if self.head_learning_rate is not None and "head" in frozen:
            raise ValueError(
                f"head_learning_rate={self.head_learning_rate} is for heads that are "
                f"trained. Received freeze={self.freeze}: leave one out."
            )
