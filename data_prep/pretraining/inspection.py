"""Pretraining records as a person reads them, and checked against their contract."""

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from albert_tf.records.reader import read_batches
from albert_tf.records.sidecar import read_metadata
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.pretraining.config import PAIR_OBJECTIVES

_ROWS_AT_ONCE = 256
_COLUMNS = 88

Rows = Mapping[str, np.ndarray]


class Problem(NamedTuple):
    """What is wrong with a row, counted from 0."""

    row: int
    text: str


def describe_row(
    row: Rows, metadata: Mapping[str, Any], tokenizer: AlbertTokenizer | None = None
) -> str:
    """A row as text: lengths, label, and both segments, a masked piece in braces.

    Pieces to predict: `{cat>[MASK]}` was cat before it was masked, `{cat>dog}` was
    replaced at random, `{cat>cat}` was left as it was.

    Args:
      row: features of one row, without a leading dimension.
      metadata: its file's sidecar.
      tokenizer: turns ids into pieces; without it ids are shown.
    """
    name = tokenizer.id_to_token if tokenizer else str
    pieces = [name(piece) for piece in row["input_ids"].tolist()]
    predicted = int(row["masked_lm_weights"].sum())
    positions = row["masked_lm_positions"][:predicted].tolist()
    for position, label in zip(positions, row["masked_lm_ids"].tolist(), strict=False):
        pieces[position] = f"{{{name(label)}>{pieces[position]}}}"
    real = int(row["input_mask"].sum())
    second = real - int(row["segment_ids"].sum())
    label = int(row["next_sentence_labels"].item())
    meaning = PAIR_OBJECTIVES[metadata.get("pair_objective", "sop")][label]
    lines = [f"{real} pieces, {predicted} to predict, label {label} ({meaning})"]
    for segment, part in (("A", pieces[:second]), ("B", pieces[second:real])):
        lines.extend(
            textwrap.wrap(
                " ".join(part),
                _COLUMNS,
                initial_indent=f"  {segment}: ",
                subsequent_indent="     ",
                break_long_words=False,
                break_on_hyphens=False,
            )
        )
    return "\n".join(lines)


def find_problems(
    path: str, tokenizer: AlbertTokenizer | None = None
) -> Iterator[Problem]:
    """Yields what of a record file breaks its contract, at most one text a row.

    Args:
      path: the file; its sidecar lies beside it.
      tokenizer: the vocabulary, to check its own special pieces; without it they must
        be the same in all rows.
    Raises:
      FileNotFoundError, ValueError: no such file or sidecar, or one of another kind.
    """
    metadata = read_metadata(path)
    if tokenizer is not None:
        for key, value in tokenizer.metadata().items():
            if key in ("vocabulary_sha256", "vocab_size") and metadata[key] != value:
                raise ValueError(
                    f"{path} was made with {key}={metadata[key]}, but the vocabulary "
                    f"given has {value}: give the one that made it."
                )
    special = None
    if tokenizer is not None:
        special = (tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id)
    count = 0
    try:
        for batch in read_batches(path, _ROWS_AT_ONCE):
            special = special or _special_ids(batch)
            checks = _checks(batch, metadata["vocab_size"], special)
            found = {}
            for text, is_bad in checks:
                for row in np.flatnonzero(is_bad).tolist():
                    found.setdefault(row, text)
            for row in sorted(found):
                yield Problem(count + row, found[row])
            count += len(batch["input_ids"])
    except ValueError as error:
        yield Problem(count, str(error))
        return
    if count != metadata["rows"]:
        yield Problem(count, f"the file ends, but {metadata['rows']} rows were written")


def _special_ids(rows: Rows) -> tuple[int, int, int | None]:
    """[CLS], [SEP] and padding, as the first row has them."""
    last = int(rows["input_mask"][0].sum()) - 1
    ids = rows["input_ids"][0]
    return int(ids[0]), int(ids[last]), None


def _checks(
    rows: Rows, vocab_size: int, special: tuple[int, int, int | None]
) -> Iterator[tuple[str, np.ndarray]]:
    """Yields (rule that is broken, bool [R]: by which rows)."""
    ids, mask, segments = rows["input_ids"], rows["input_mask"], rows["segment_ids"]
    boundary, weights = rows["token_boundary"], rows["masked_lm_weights"]
    positions, labels = rows["masked_lm_positions"], rows["masked_lm_ids"]
    cls_id, sep_id, pad_id = special
    place = np.arange(len(ids))
    length = mask.sum(axis=1)
    # Indices of both [SEP], as the segments tell.
    last = np.clip(length - 1, 0, ids.shape[1] - 1)
    middle = np.clip(length - segments.sum(axis=1) - 1, 0, ids.shape[1] - 1)

    yield "input_ids outside the vocabulary", _any((ids < 0) | (ids >= vocab_size))
    yield "input_mask is not ones, then zeros", ~_is_ones_then_zeros(mask)
    yield (
        "segment_ids are not zeros, then ones, then zeros for padding",
        ~_is_ones_then_zeros(mask - segments) | _any(segments > mask),
    )
    yield "a segment is empty", (middle < 2) | (last < middle + 2)
    yield (
        "[CLS] or a [SEP] is not where the segments say",
        (ids[:, 0] != cls_id)
        | (ids[place, middle] != sep_id)
        | (ids[place, last] != sep_id),
    )
    if pad_id is not None:
        yield "padding is not the padding piece", _any((mask == 0) & (ids != pad_id))
    yield (
        "token_boundary is not 0 or 1, or is not 0 in padding",
        _any((boundary < 0) | (boundary > mask)),
    )
    yield "no piece is to be predicted", weights.sum(axis=1) < 1
    yield "masked_lm_weights are not ones, then zeros", ~_is_ones_then_zeros(weights)
    used = weights > 0
    yield (
        "masked_lm_positions do not rise",
        _any((np.diff(positions, axis=1) <= 0) & used[:, 1:]),
    )
    is_special = (positions == 0) | (positions == middle[:, None])
    yield (
        "a masked position is not in the text of a segment",
        _any(used & (is_special | (positions < 0) | (positions >= last[:, None]))),
    )
    yield (
        "masked_lm_ids outside the vocabulary",
        _any((labels < 0) | (labels >= vocab_size)),
    )
    yield (
        "values behind the last prediction are not 0",
        _any(~used & ((positions != 0) | (labels != 0))),
    )
    yield (
        "the label is not 0 or 1",
        _any(~np.isin(rows["next_sentence_labels"], (0, 1))),
    )


def _any(is_bad: np.ndarray) -> np.ndarray:
    return is_bad.any(axis=1)


def _is_ones_then_zeros(values: np.ndarray) -> np.ndarray:
    """Which rows are; bool [R]."""
    return ((values == 0) | (values == 1)).all(axis=1) & (
        np.diff(values, axis=1) <= 0
    ).all(axis=1)
