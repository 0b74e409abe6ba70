"""Counts of what was read and made, for the report at the end of a run."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass
class Statistics:
    """Counts of what was read and made; counts of parts are added up with `merge`.

    Sidecars and reports have them under the same names, in which a piece is a token.

    Attributes:
      documents, sentences, pieces: of the text, before duplication.
      unknown_pieces: tokens that are the vocabulary's unknown token.
      rows: rows written.
      row_pieces: their tokens without padding, special tokens included.
      padding_pieces: their padding.
      truncated_pieces: tokens of text that did not fit their row.
      pair_labels: pairs by the relation of their two segments; their sum is that of
        the rows, unless these are packed.
      ngrams_drawn, ngrams_placed: by number of words; see `masking.MaskedRows`.
      replacements: masked tokens by their replacement: mask, kept, random.
      skipped: what was left out or cut, by reason.
    """

    documents: int = 0
    sentences: int = 0
    pieces: int = 0
    unknown_pieces: int = 0
    rows: int = 0
    row_pieces: int = 0
    padding_pieces: int = 0
    truncated_pieces: int = 0
    pair_labels: Counter = field(default_factory=Counter)
    ngrams_drawn: Counter = field(default_factory=Counter)
    ngrams_placed: Counter = field(default_factory=Counter)
    replacements: Counter = field(default_factory=Counter)
    skipped: Counter = field(default_factory=Counter)

    def merge(self, other: "Statistics") -> None:
        """Adds the counts of another part to these."""
        for item in fields(self):
            count, added = getattr(self, item.name), getattr(other, item.name)
            if isinstance(count, Counter):
                count.update(added)
            else:
                setattr(self, item.name, count + added)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Statistics":
        """Inverts `to_dict`, also after JSON, which turns keys into text."""
        statistics = cls()
        for name, value in values.items():
            if isinstance(value, Mapping):
                keys = (int(k) if k.isdecimal() else k for k in map(str, value))
                value = Counter(dict(zip(keys, value.values(), strict=True)))
            setattr(statistics, name, value)
        return statistics

    def to_dict(self) -> dict[str, Any]:
        """Returns the counts as JSON values."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {
            name: dict(value) if isinstance(value, Counter) else value
            for name, value in values.items()
        }

    def nonzero(self) -> dict[str, Any]:
        """Returns the counts above 0 as JSON values."""
        return {name: value for name, value in self.to_dict().items() if value}
