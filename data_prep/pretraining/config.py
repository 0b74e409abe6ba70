"""Settings of pretraining rows, and the random generators that follow from them."""

from dataclasses import asdict, dataclass, field

import numpy as np

from albert_tf.text import packing
from data_prep.pretraining.masking import MaskingConfig

# What a row's two segments are (Table 5 of the paper), and what labels 0 and 1 mean.
PAIR_OBJECTIVES = {
    # Consecutive text, swapped in half of the rows: ALBERT's own.
    "sop": ("in order", "swapped"),
    # Half of the second segments are text of another document: BERT's.
    "nsp": ("next", "random"),
    # Consecutive text, always in order.
    "none": ("in order", "unused"),
}

# What a random generator is for; a part of its key.
ROWS, ASSIGNMENT, SHUFFLE = range(3)


@dataclass(frozen=True)
class PretrainingDataConfig:
    """Settings of pretraining rows; the flags of the same names set them.

    Attributes:
      max_seq_length: S, pieces in a row, [CLS], [SEP] and padding included.
      short_seq_prob: share of rows that are made shorter, to a random length.
      dupe_factor: how often each document is used, with other pairs and masks.
      random_seed: with the text, decides every byte that is written.
      pair_objective: a key of PAIR_OBJECTIVES.
      masking: how rows are masked.
    """

    max_seq_length: int = 512
    short_seq_prob: float = 0.1
    dupe_factor: int = 40
    random_seed: int = 12345
    pair_objective: str = "sop"
    masking: MaskingConfig = field(default_factory=MaskingConfig)

    def __post_init__(self):
        smallest = packing.SPECIAL_TOKENS_OF_PAIR + 2
        if self.max_seq_length < smallest:
            raise ValueError(
                f"max_seq_length must be at least {smallest} ([CLS] a [SEP] b [SEP]). "
                f"Received {self.max_seq_length}."
            )
        if not 0.0 <= self.short_seq_prob <= 1.0:
            raise ValueError(
                "short_seq_prob is a share of the rows, from 0 to 1, e.g. 0.1. "
                f"Received {self.short_seq_prob}."
            )
        if self.dupe_factor < 1:
            raise ValueError(
                f"dupe_factor must be at least 1. Received {self.dupe_factor}."
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
    def max_text_pieces(self) -> int:
        """Pieces of a row that are text: both segments together."""
        return self.max_seq_length - packing.SPECIAL_TOKENS_OF_PAIR

    def settings(self) -> dict[str, int | float | bool]:
        """All settings under the names of their flags, fit for JSON."""
        values = asdict(self)
        return values | values.pop("masking")

    def rng(self, purpose: int, *key: int) -> np.random.Generator:
        """A generator for one purpose and at most two numbers, apart from all others.

        Philox is counter-based: each key below starts 2**64 draws from the next one.
        """
        counter = [0, purpose, *key, *[0] * (2 - len(key))]
        bits = np.random.Philox(key=self.random_seed, counter=counter)
        return np.random.Generator(bits)
