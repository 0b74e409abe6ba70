"""Configuration of pretraining rows, and the random generators that follow from it."""

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from albert_tf.records.features import (
    MASKING,
    MAX_DOCUMENTS,
    UNMASKED,
    Features,
    compact_features,
    pretraining_features,
)
from albert_tf.records.masking_config import MaskingConfig
from albert_tf.text import packing

# The pair objectives (Table 5 of the paper), and the meanings of labels 0 and 1. The
# label of a pair that has none, and counts in no loss of the objective, is NO_LABEL;
# WITHOUT_LABEL is its meaning.
NO_LABEL, WITHOUT_LABEL = -1, "inside a sentence, no order label"
PAIR_OBJECTIVES = {
    # Consecutive text, swapped in half of the rows, as in ALBERT. Two parts of one
    # sentence have no label: a full stop at the end of one part tells their order.
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
# [CLS] a [SEP] b [SEP].
_SHORTEST_PAIR = packing.SPECIAL_TOKENS_OF_PAIR + 2
# Tokens of a packed row for each pair that it has room for, unless that is given.
_TOKENS_PER_DOCUMENT = 16


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
      pack_documents: put several short pairs into one row, with attention kept inside
        each; without it the rest of a short pair's row is padding.
      max_documents_per_row: largest number of pairs in a packed row; 0: one for every
        16 tokens of the row, and at least 2.
      masking: how rows are masked; None: they are stored compactly without masks, which
        training draws when it reads them (as the order of segments of sop). They are
        made once: `dupe_factor` is 1.
    """

    max_seq_length: int = 512
    short_seq_prob: float = 0.1
    dupe_factor: int = 40
    random_seed: int = 12345
    pair_objective: str = field(
        default="sop", metadata={"choices": tuple(sorted(PAIR_OBJECTIVES))}
    )
    pack_documents: bool = False
    max_documents_per_row: int = 0
    masking: MaskingConfig | None = field(default_factory=MaskingConfig)

    def __post_init__(self):
        if not _SHORTEST_PAIR <= self.max_seq_length <= _LONGEST:
            raise ValueError(
                f"max_seq_length must be from {_SHORTEST_PAIR} ([CLS] a [SEP] b [SEP]) "
                f"to {_LONGEST:,}. Received {self.max_seq_length}."
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
        if self.masking is None and self.dupe_factor != 1:
            raise ValueError(
                "dupe_factor must be 1 with masking=none, since training draws other "
                f"masks in every epoch. Received {self.dupe_factor}."
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
        self._check_packing()

    def _check_packing(self) -> None:
        if not self.pack_documents:
            if self.max_documents_per_row:
                raise ValueError(
                    "max_documents_per_row is for packed rows. Received "
                    f"{self.max_documents_per_row}: pass --pack_documents too."
                )
            return
        if self.masking is None:
            raise ValueError(
                "pack_documents is for masking=static: rows without masks are stored "
                "without padding. Leave one of them out."
            )
        most = self.max_seq_length // _SHORTEST_PAIR
        if not 2 <= self.documents_per_row <= most:
            raise ValueError(
                f"max_documents_per_row must be from 2 to {most}, the shortest pairs "
                f"in a row of {self.max_seq_length} tokens, or 0 for a number by that "
                f"length. Received {self.max_documents_per_row}."
            )

    @property
    def max_text_tokens(self) -> int:
        """Tokens of a row that are text: both segments together."""
        return self.max_seq_length - packing.SPECIAL_TOKENS_OF_PAIR

    @property
    def documents_per_row(self) -> int:
        """The largest number of pairs in a row."""
        if not self.pack_documents:
            return 1
        by_length = max(2, self.max_seq_length // _TOKENS_PER_DOCUMENT)
        return self.max_documents_per_row or by_length

    @property
    def features(self) -> Features:
        """Features of the rows on disk."""
        if self.masking is None:
            return compact_features()
        return pretraining_features(
            self.max_seq_length,
            self.masking.max_predictions_per_seq,
            self.documents_per_row if self.pack_documents else 0,
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns all values under the names of their flags, fit for JSON.

        Shares of replacements are left out if they are the paper's, and
        `max_documents_per_row` unless rows are packed, as in the records of earlier
        releases.
        """
        values = asdict(self)
        del values["pack_documents"], values[MAX_DOCUMENTS]
        if self.pack_documents:
            values[MAX_DOCUMENTS] = self.documents_per_row
        masking = values.pop("masking")
        if masking is None:
            return {**values, MASKING: UNMASKED}
        plain = asdict(MaskingConfig())
        return values | {
            name: value
            for name, value in masking.items()
            if not name.startswith("replace_") or value != plain[name]
        }

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
