"""Phases of pretraining: steps in a row that share a length of rows and a batch size.

BERT trains 90 % of its steps on rows of 128 tokens, and the last 10 % on rows of 512,
from which it learns the later positions (Devlin et al. 2018, appendix A.2). ALBERT's
paper trains on 512 throughout: one phase, the default.
"""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from albert_tf import field_rules
from albert_tf.records.sidecar import RecordSet
from albert_tf.text import packing

# [CLS] and [SEP] and a token of each segment.
_FEWEST_TOKENS = packing.SPECIAL_TOKENS_OF_PAIR + 2
_LENGTH = field_rules.rule(
    f"a whole number of at least {_FEWEST_TOKENS}, or 0 for rows as they are stored",
    lambda value: value == 0 or field_rules.whole(value, _FEWEST_TOKENS),
)
_PHASE = re.compile(r"([0-9]+):([0-9]+)(?::([0-9]+))?")


@dataclass(frozen=True)
class Phase:
    """Steps that share a length of rows and a batch size.

    Attributes:
      steps: number of optimizer steps.
      length: tokens in a row, padding included; 0: as the rows are stored.
      batch_size: rows in an optimizer step, over all devices.
    """

    steps: int = field(metadata=field_rules.COUNT)
    length: int = field(metadata=_LENGTH)
    batch_size: int = field(metadata=field_rules.COUNT)

    def __post_init__(self):
        field_rules.check_fields(self)

    def __str__(self):
        return f"{self.steps}:{self.length}:{self.batch_size}"


class Place(NamedTuple):
    """A place in a schedule of phases.

    Attributes:
      number: of the phase, from 0.
      first_step: steps of all phases before it.
      phase: the phase.
    """

    number: int
    first_step: int
    phase: Phase


def parse(text: str, batch_size: int) -> tuple[Phase, ...]:
    """Reads `STEPS:LENGTH:BATCH,STEPS:LENGTH,...`; empty: no phases.

    Args:
      text: the phases, in their order.
      batch_size: of phases that name none.
    Raises:
      ValueError: a phase is written otherwise, or a number is 0 or too large.
    """
    phases = []
    for part in text.split(",") if text.strip() else ():
        match = _PHASE.fullmatch(part.strip())
        if not match:
            raise ValueError(
                "phases are written STEPS:LENGTH:BATCH, or STEPS:LENGTH, separated by "
                f"commas. Received {part!r:.80}: write, for example, 9000:128:256."
            )
        steps, length, rows = match.groups()
        phases.append(Phase(int(steps), int(length), int(rows or batch_size)))
        if not phases[-1].length:
            raise ValueError(
                f"A phase's length must be at least {_FEWEST_TOKENS}. Received "
                f"{part!r:.80}."
            )
    return tuple(phases)


def to_text(phases: Sequence[Phase]) -> str:
    """Returns what `parse` reads, batch sizes included."""
    return ",".join(map(str, phases))


def check(
    phases: Sequence[Phase], num_train_steps: int, record_sets: Sequence[RecordSet]
) -> None:
    """Checks that phases fill a training and have rows, and that all rows are read.

    Args:
      phases: the phases; none: the rows of one set are read as they are.
      num_train_steps: steps of the training.
      record_sets: training rows, a set for each length.
    Raises:
      ValueError: they do not.
    """
    if not phases:
        if len(record_sets) > 1:
            lengths = ", ".join(str(rows_length(rows)) for rows in record_sets)
            raise ValueError(
                f"The training rows have several lengths, {lengths}: name rows of one, "
                "or say by --phases which steps read which."
            )
        return
    total = sum(phase.steps for phase in phases)
    if total != num_train_steps:
        raise ValueError(
            f"phases={to_text(phases)} are {total} steps, but num_train_steps is "
            f"{num_train_steps}: make them equal, or leave num_train_steps out."
        )
    read = [records_for(record_sets, phase.length) for phase in phases]
    for rows in record_sets:
        if not any(rows is one for one in read):
            raise ValueError(
                f"No phase reads {rows.paths[0]}, rows of {rows_length(rows)} tokens: "
                f"phases={to_text(phases)} read others; leave its files out."
            )


def rows_length(rows: RecordSet) -> int:
    """Returns the tokens in a row of pretraining, padding included.

    Raises:
      ValueError: the rows are of another task, which state no length.
    """
    length = rows.metadata.get("max_seq_length")
    if length is None and "input_ids" in rows.features and not rows.varies:
        length = rows.features["input_ids"].size
    if length is None:
        raise ValueError(
            f"{rows.paths[0]} does not state its max_seq_length: phases are for "
            "pretraining rows."
        )
    return length


def records_for(record_sets: Sequence[RecordSet], length: int) -> RecordSet:
    """Returns the set that has the rows of a phase: the shortest that are long enough.

    They are read as they are if they have the length, and are cut to it if not.

    Args:
      record_sets: rows, a set for each length.
      length: tokens in a row of the phase; 0: as the rows of the first set are stored.
    Raises:
      ValueError: all rows are shorter, or rows to be cut are packed.
    """
    if not length:
        return record_sets[0]
    long_enough = [rows for rows in record_sets if rows_length(rows) >= length]
    if not long_enough:
        longest = max(map(rows_length, record_sets))
        raise ValueError(
            f"A phase of {length} tokens needs rows as long. Those of "
            f"{record_sets[0].paths[0]} and its set have at most {longest}: make "
            "longer ones, or shorten the phase."
        )
    chosen = min(long_enough, key=rows_length)
    if chosen.max_documents_per_row and rows_length(chosen) > length:
        raise ValueError(
            f"The packed rows of {chosen.paths[0]} have {rows_length(chosen)} tokens "
            f"and cannot be cut to a phase of {length}: make packed rows of that "
            "length too."
        )
    return chosen


def is_cut(record_sets: Sequence[RecordSet], phase: Phase) -> bool:
    """True if the rows of a phase are cut from longer ones."""
    length = phase.length
    return length > 0 and rows_length(records_for(record_sets, length)) > length


def loses_masks(record_sets: Sequence[RecordSet], phase: Phase) -> bool:
    """True if masked tokens of a phase may be cut away: of rows stored with masks."""
    rows = records_for(record_sets, phase.length)
    return is_cut(record_sets, phase) and rows.compact_format is None


def place_of(phases: Sequence[Phase], step: int) -> Place:
    """Returns the phase of a step, counted from 0; the last one of steps after it."""
    first_steps = _first_steps(phases)
    number = sum(first <= step for first in first_steps) - 1
    return Place(number, first_steps[number], phases[number])


def end_of(phases: Sequence[Phase], step: int) -> int:
    """Returns the step at which the phase of a step ends."""
    place = place_of(phases, step)
    return place.first_step + place.phase.steps


def seed_of(seed: int, number: int) -> int:
    """Returns the seed of the order of a phase's rows.

    Args:
      seed: of the run, and of its first phase.
      number: of the phase, from 0.
    """
    if not number:
        return seed
    return int(np.random.SeedSequence([seed, number]).generate_state(1)[0])


def work_left(phases: Sequence[Phase], step: int, last_step: int) -> float:
    """Returns the work of the steps after one, in steps as that one.

    A step's work is taken to be its number of tokens. Attention makes a token of a
    longer row dearer, so what is left is then somewhat more.

    Args:
      phases: the phases.
      step: steps that are done.
      last_step: a step of the phase to compare with, counted from 0.
    """
    unit = _tokens(place_of(phases, last_step).phase)
    left = 0.0
    for first, phase in zip(_first_steps(phases), phases, strict=True):
        steps = min(phase.steps, max(0, first + phase.steps - step))
        left += steps * _tokens(phase) / unit
    return left


def agree_until(stored: Any, asked: str, step: int) -> bool:
    """True if two schedules have the same first steps.

    Args:
      stored: what a folder holds as text from `to_text`; a damaged one never agrees.
      asked: text from `to_text`.
      step: number of the steps.
    """
    try:
        return _until(stored, step) == _until(asked, step)
    except (ValueError, AttributeError):
        return False


def _until(text: str, step: int) -> list[str]:
    """Returns the phases of the first steps, each as `to_text` writes it."""
    phases = parse(text, batch_size=1)
    return [
        f"{min(phase.steps, step - first)}:{phase.length}:{phase.batch_size}"
        for first, phase in zip(_first_steps(phases), phases, strict=False)
        if first < step
    ]


def _first_steps(phases: Sequence[Phase]) -> list[int]:
    return [*itertools.accumulate((phase.steps for phase in phases[:-1]), initial=0)]


def _tokens(phase: Phase) -> int:
    return max(phase.length, 1) * phase.batch_size
