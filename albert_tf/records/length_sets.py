"""Record files of several lengths, as one record set for each length."""

from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.files import short_digest
from albert_tf.records.sidecar import (
    PAIR_OBJECTIVE,
    TOKENIZER_KEYS,
    RecordSet,
    read_metadata,
    read_record_set,
)


def read_sets_by_length(
    paths: Sequence[str], expected: Mapping[str, Any]
) -> list[RecordSet]:
    """Joins the files of each max_seq_length into a set, after checking them.

    Args:
      paths: record files of pretraining; at least one.
      expected: as for `read_record_set`.
    Returns:
      The sets, that of the longest rows first.
    Raises:
      FileNotFoundError: a file or its sidecar is missing.
      ValueError: as `read_record_set`; or two sets differ in what files of one set
        must agree in, their lengths left out.
    """
    by_length: dict[int, list[str]] = {}
    for path in paths:
        length = read_metadata(path).get("max_seq_length", 0)
        by_length.setdefault(length, []).append(path)
    sets = [
        read_record_set(by_length[length], expected)
        for length in sorted(by_length, reverse=True)
    ]
    check_alike(sets)
    return sets


def check_alike(sets: Sequence[RecordSet]) -> None:
    """Raises ValueError if sets differ in vocabulary, text cleaning or objective."""
    first = sets[0]
    for other in sets[1:]:
        for key in (*TOKENIZER_KEYS, PAIR_OBJECTIVE):
            values = [rows.metadata.get(key) for rows in (other, first)]
            if values[0] != values[1]:
                raise ValueError(
                    f"{other.paths[0]} and {first.paths[0]} differ in {key} "
                    f"({short_digest(values[0])} and {short_digest(values[1])}): read "
                    "only files that were made alike."
                )
