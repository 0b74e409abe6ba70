"""Counts of what was read and made, for the report at the end of a run."""

import dataclasses
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass
class Statistics:
    """What was read and made; statistics of parts add up with `merge`.

    Attributes:
      documents, sentences, pieces: of the text, before duplication.
      unknown_pieces: pieces that are the vocabulary's unknown piece.
      rows: rows written.
      row_pieces: pieces in them but for padding, special pieces included.
      padding_pieces: padding in them.
      truncated_pieces: text that did not fit its row.
      pair_labels: rows by what their two segments are.
      ngrams_drawn, ngrams_placed: by words; see `masking.MaskedRows`.
      replacements: masked pieces by what became of them: mask, kept, random.
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
        """Adds another part's numbers to these."""
        for item in dataclasses.fields(self):
            mine, added = getattr(self, item.name), getattr(other, item.name)
            if isinstance(mine, Counter):
                mine.update(added)
            else:
                setattr(self, item.name, mine + added)

    @classmethod
    def from_dict(cls, values: Mapping) -> "Statistics":
        """The inverse of `as_dict`, also after JSON, which makes keys text."""
        made = cls()
        for name, value in values.items():
            if isinstance(value, Mapping):
                keys = (int(k) if k.isdecimal() else k for k in map(str, value))
                value = Counter(dict(zip(keys, value.values(), strict=True)))
            setattr(made, name, value)
        return made

    def as_dict(self) -> dict:
        """The numbers as JSON values."""
        return {
            item.name: dict(value) if isinstance(value, Counter) else value
            for item in dataclasses.fields(self)
            for value in [getattr(self, item.name)]
        }
