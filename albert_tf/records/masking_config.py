"""Configuration of masks: of rows that are stored with them, and of masks that are
drawn while rows are read."""

import dataclasses
from typing import Any

import numpy as np

# Upper bound of numbers of tokens and words.
_LARGEST = 1_000_000
# The largest share that is masked while reading: with less of its text left, a row
# says next to nothing about the rest.
LARGEST_RATE = 0.8
_REPLACEMENTS = ("replace_with_mask", "replace_with_random", "replace_with_keep")


@dataclasses.dataclass(frozen=True)
class MaskingConfig:
    """Configuration of masking; the flags of the same names set it.

    The original counts [CLS] and [SEP] as tokens of a row when it takes the share
    `masked_lm_prob`. So does this, and the original's values (512 tokens: 77
    predictions) carry over.

    Attributes:
      max_predictions_per_seq: largest number of masked tokens in a row.
      masked_lm_prob: share of a row's tokens to mask, up to the maximum.
      ngram: longest run of words that is masked together.
      favor_shorter_ngram: probability of a run of n words is proportional to 1/n; if
        false, the same weights are used in reverse.
      do_whole_word_mask: mask all tokens of a word; if false, each token counts as a
        word.
      replace_with_mask: share of the masked tokens that become [MASK]. The three shares
        add up to 1.
      replace_with_random: share of the masked tokens that become a random token.
      replace_with_keep: share of the masked tokens that stay as they are.
    """

    max_predictions_per_seq: int = 20
    masked_lm_prob: float = 0.15
    ngram: int = 3
    favor_shorter_ngram: bool = True
    do_whole_word_mask: bool = True
    replace_with_mask: float = 0.8
    replace_with_random: float = 0.1
    replace_with_keep: float = 0.1

    def __post_init__(self):
        for name in ("max_predictions_per_seq", "ngram"):
            if not 1 <= getattr(self, name) <= _LARGEST:
                raise ValueError(
                    f"{name} must be from 1 to {_LARGEST:,}. "
                    f"Received {getattr(self, name)}."
                )
        if not 0.0 < self.masked_lm_prob < 1.0:
            raise ValueError(
                "masked_lm_prob is a share of the tokens, between 0 and 1, e.g. 0.15. "
                f"Received {self.masked_lm_prob}."
            )
        shares = [getattr(self, name) for name in _REPLACEMENTS]
        if not (min(shares) >= 0.0 and abs(sum(shares) - 1.0) < 1e-6):
            raise ValueError(
                f"{', '.join(_REPLACEMENTS)} are shares that add up to 1, e.g. "
                f"0.8, 0.1, 0.1. Received {', '.join(map(str, shares))}."
            )

    @property
    def replacement_bounds(self) -> tuple[float, float]:
        """Bounds of a number in [0, 1) that becomes a mask, is kept, or is random."""
        return (
            self.replace_with_mask,
            self.replace_with_mask + self.replace_with_keep,
        )

    def ngram_probabilities(self) -> np.ndarray:
        """Returns the probabilities of 1, 2, ... `ngram` words; float64 [ngram]."""
        weights = 1.0 / np.arange(1, self.ngram + 1)
        if not self.favor_shorter_ngram:
            weights = weights[::-1]
        return weights / weights.sum()


@dataclasses.dataclass(frozen=True)
class ReadTimeMasks:
    """Masks that are drawn while rows are read: how many, and from which seed.

    Draws are a function of the seed and of a row's place in the order of training (in
    evaluation: of its number in the set), so they are the same for any number of
    workers and after a resumption, and others in every epoch.

    Attributes:
      masking: how a row is masked; its `masked_lm_prob` is the rate of step 0 and of
        evaluation.
      random_seed: seed of the draws.
      masked_lm_prob_end: rate at the end of training; None: it does not change.
      masked_lm_prob_end_step: step from which on the rate is the one of the end; until
        then it is that of the start. 0: it changes linearly over `num_train_steps`.
      num_train_steps: steps of a linear change.
      first_step: steps of the run before the first of the rows that are read.
    """

    masking: MaskingConfig = dataclasses.field(default_factory=MaskingConfig)
    random_seed: int = 12345
    masked_lm_prob_end: float | None = None
    masked_lm_prob_end_step: int = 0
    num_train_steps: int = 0
    first_step: int = 0

    def __post_init__(self):
        rates = {"masked_lm_prob": self.masking.masked_lm_prob}
        if self.masked_lm_prob_end is not None:
            rates["masked_lm_prob_end"] = self.masked_lm_prob_end
        for name, rate in rates.items():
            if not 0.0 < rate <= LARGEST_RATE:
                raise ValueError(
                    f"{name} must be above 0 and at most {LARGEST_RATE} where masks "
                    f"are drawn while reading. Received {rate}."
                )
        if self.masked_lm_prob_end_step < 0:
            raise ValueError(
                "masked_lm_prob_end_step must be 0 or a step. "
                f"Received {self.masked_lm_prob_end_step}."
            )
        if self.masked_lm_prob_end_step and self.masked_lm_prob_end is None:
            raise ValueError(
                "masked_lm_prob_end_step needs the rate from that step on: "
                "masked_lm_prob_end."
            )
        if self._is_linear and self.num_train_steps < 1:
            raise ValueError(
                "A masked_lm_prob that changes linearly needs num_train_steps of 1 or "
                f"more. Received {self.num_train_steps}."
            )

    @classmethod
    def for_length(
        cls, max_seq_length: int, max_predictions_per_seq: int = 0, **values: Any
    ) -> "ReadTimeMasks":
        """Returns masks of rows of a length.

        Args:
          max_seq_length: tokens of the longest row.
          max_predictions_per_seq: as of `MaskingConfig`; 0: what the largest rate
            needs.
          **values: values of both configurations, by their names.
        Raises:
          ValueError: impossible values.
        """
        own = {field.name for field in dataclasses.fields(cls)} - {"masking"}
        rest = {name: values.pop(name) for name in [*values] if name in own}
        masks = cls(MaskingConfig(**values), **rest)
        most = max_predictions_per_seq or needed_predictions(
            max_seq_length, masks.largest_rate
        )
        masking = dataclasses.replace(masks.masking, max_predictions_per_seq=most)
        return dataclasses.replace(masks, masking=masking)

    def for_phase(
        self, max_seq_length: int, first_step: int, random_seed: int
    ) -> "ReadTimeMasks":
        """Returns the same masks for a part of a run that reads rows of a length.

        Args:
          max_seq_length: tokens of the longest row.
          first_step: steps of the run before this part.
          random_seed: seed of its draws.
        """
        needed = needed_predictions(max_seq_length, self.largest_rate)
        most = min(needed, self.masking.max_predictions_per_seq)
        masking = dataclasses.replace(self.masking, max_predictions_per_seq=most)
        return dataclasses.replace(
            self, masking=masking, first_step=first_step, random_seed=random_seed
        )

    @property
    def _is_linear(self) -> bool:
        return self.masked_lm_prob_end is not None and not self.masked_lm_prob_end_step

    @property
    def largest_rate(self) -> float:
        """The largest rate of any step."""
        return max(self.masking.masked_lm_prob, self.masked_lm_prob_end or 0.0)

    def rate(self, step: Any) -> Any:
        """Returns the share of a row's tokens to mask in a step.

        Args:
          step: number of optimizer steps done since `first_step`; float64, an array or
            a tensor.
        Returns:
          float64 of its shape.
        """
        start, end = self.masking.masked_lm_prob, self.masked_lm_prob_end
        if end is None:
            return start + 0.0 * step
        step = step + float(self.first_step)
        if self.masked_lm_prob_end_step:
            # 1.0 from the step on, 0.0 before; written for arrays and tensors alike.
            past = step - (self.masked_lm_prob_end_step - 1.0)
            share = _clip(past)
        else:
            share = _clip(step / self.num_train_steps)
        return start * (1.0 - share) + end * share

    def to_dict(self) -> dict[str, Any]:
        """Returns the values that decide the masks, fit for JSON."""
        values = dataclasses.asdict(self)
        values |= values.pop("masking")
        del values["random_seed"], values["first_step"]
        steps = values.pop("num_train_steps")
        steps = steps if self._is_linear else 0
        return {**values, "masked_lm_prob_steps": steps}


def needed_predictions(max_seq_length: int, rate: float) -> int:
    """Returns how many tokens of a full row a rate masks."""
    return max(1, int(np.rint(max_seq_length * rate)))


def _clip(value: Any) -> Any:
    """Returns a value, an array or a tensor, limited to [0, 1]."""
    return (abs(value) - abs(value - 1.0) + 1.0) / 2.0
