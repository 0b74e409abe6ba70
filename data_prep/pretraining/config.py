"""Configuration of pretraining rows, and the random generators that follow from it."""

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from albert_tf.records.features import Features, pretraining_features
from albert_tf.text import packing
from data_prep.pretraining.masking import MaskingConfig

# The pair objectives (Table 5 of the paper), and the meanings of labels 0 and 1.
PAIR_OBJECTIVES = {
    # Consecutive text, swapped in half of the rows, as in ALBERT.
    "sop": ("in order", "swapped"),
    # Half of the second segments are text of another document, as in BERT.
    "nsp": ("next", "random"),
    # Consecutive text, always in order.
    "none": ("in order", "unused"),
}

# The purpose of a random generator, a part of its key.
ROWS, ASSIGNMENT, SHUFFLE = range(3)

_MOST_DUPLICATES = 1_000_000
_LONGEST = 1_000_000


@dataclass(frozen=True)
class PretrainingDataConfig:
    """Configuration of pretraining rows; the flags of the same names set it.

    Attributes:
      max_seq_length: length of a row in tokens, [CLS], [SEP] and padding included.
      short_seq_prob: share of rows that are made shorter, to a random length.
      dupe_factor: times each document is used, with other pairs and masks.
      random_seed: same seed, text and configuration: same bytes in the output.
      pair_objective: the two segments of a row. sop: consecutive text, swapped in half
        of the rows. nsp: the second one is of another document in half of the rows.
        none: consecutive text in order.
      masking: how rows are masked.
    """

    max_seq_length: int = 512
    short_seq_prob: float = 0.1
    dupe_factor: int = 40
    random_seed: int = 12345
    pair_objective: str = field(
        default="sop", metadata={"choices": tuple(sorted(PAIR_OBJECTIVES))}
    )
    masking: MaskingConfig = field(default_factory=MaskingConfig)

    def __post_init__(self):
        smallest = packing.SPECIAL_TOKENS_OF_PAIR + 2
        if not smallest <= self.max_seq_length <= _LONGEST:
            raise ValueError(
                f"max_seq_length must be from {smallest} ([CLS] a [SEP] b [SEP]) to "
                f"{_LONGEST:,}. Received {self.max_seq_length}."
            )
        if not 0.0 <= self.short_seq_prob <= 1.0:
            raise ValueError(
                "short_seq_prob is a share of the rows, from 0 to 1, e.g. 0.1. "
                f"Received {self.short_seq_prob}."
            )
        # Pairs times duplicates are counted in 64 bits.
        if not 1 <= self.dupe_factor <= _MOST_DUPLICATES:
            raise ValueError(
                f"dupe_factor must be from 1 to {_MOST_DUPLICATES:,}. "
                f"Received {self.dupe_factor}."
            )
        if not 0 <= self.random_seed < 2**63:
            raise ValueError(
                f"random_seed must be from 0 to 2**63 - 1. Received {self.random_seed}."
            )
        if self.pair_objective not in PAIR_OBJECTIVES:
            raise ValueError(
                f"pair_objective must be one of {', '.join(PAIR_OBJECTIVES)}. "
                f"Received {self.pair_objective!r}."
            )

    @property
    def max_text_tokens(self) -> int:
        """Tokens of a row that are text: both segments together."""
        return self.max_seq_length - packing.SPECIAL_TOKENS_OF_PAIR

    @property
    def features(self) -> Features:
        """Features of the rows on disk."""
        return pretraining_features(
            self.max_seq_length, self.masking.max_predictions_per_seq
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns all values under the names of their flags, fit for JSON."""
        values = asdict(self)
        return values | values.pop("masking")

    def rng(self, purpose: int, *key: int) -> np.random.Generator:
        """Makes a generator that is independent of all with another purpose or key.

        Philox is counter-based: each key starts 2**64 draws from the next one.

        Args:
          purpose: ROWS, ASSIGNMENT or SHUFFLE.
          *key: at most two numbers.
        """
        counter = [0, purpose, *key, *[0] * (2 - len(key))]
        bits = np.random.Philox(key=self.random_seed, counter=counter)
        return np.random.Generator(bits)
