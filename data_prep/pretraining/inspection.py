"""Shows pretraining records to people and checks them against their contract."""

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from albert_tf.records.features import stated_pretraining_features
from albert_tf.records.sidecar import check_features, read_metadata
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.pretraining.config import PAIR_OBJECTIVES

_ROWS_AT_ONCE = 256
_COLUMNS = 88

Rows = Mapping[str, np.ndarray]


class Problem(NamedTuple):
    """A row, counted from 0, and the rule that it breaks."""

    row: int
    text: str


def read_pretraining_metadata(path: str) -> Mapping[str, Any]:
    """Reads the sidecar of a file of pretraining rows.

    Raises:
      FileNotFoundError: there is no such file or sidecar.
      ValueError: the sidecar is damaged, or its rows lack a feature.
    """
    metadata = read_metadata(path)
    expected = stated_pretraining_features(metadata)
    check_features(path, metadata["features"], expected)
    return metadata


def describe_row(
    row: Rows, metadata: Mapping[str, Any], tokenizer: AlbertTokenizer | None = None
) -> str:
    """Formats a row as text: lengths, label, both segments, predictions in braces.

    Tokens to predict: `{cat>[MASK]}` was cat before it was masked, `{cat>dog}` was
    replaced at random, `{cat>cat}` was left as it was.

    Args:
      row: features of one row, without a leading dimension.
      metadata: the sidecar of its file.
      tokenizer: turns ids into tokens; without it ids are shown.
    """
    name = tokenizer.id_to_token if tokenizer else str
    tokens = [name(token_id) for token_id in row["input_ids"].tolist()]
    predicted = int(row["masked_lm_weights"].sum())
    positions = row["masked_lm_positions"][:predicted].tolist()
    for position, label in zip(positions, row["masked_lm_ids"].tolist(), strict=False):
        if 0 <= position < len(tokens):
            tokens[position] = f"{{{name(label)}>{tokens[position]}}}"
    real = int(row["input_mask"].sum())
    second = real - int(row["segment_ids"].sum())
    label = int(row["next_sentence_labels"].item())
    meanings = PAIR_OBJECTIVES.get(metadata.get("pair_objective", "sop"), ())
    meaning = meanings[label] if 0 <= label < len(meanings) else "unknown"
    lines = [f"{real} tokens, {predicted} to predict, label {label} ({meaning})"]
    for segment, part in (("A", tokens[:second]), ("B", tokens[second:real])):
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
    """Yields the rows of a record file that break its contract, each once.

    Args:
      path: the file, with its sidecar beside it.
      tokenizer: the vocabulary, to check its special tokens; without it they must be
        the same in all rows.
    Raises:
      FileNotFoundError: there is no such file or sidecar.
      ValueError: the sidecar or vocabulary does not fit the file.
    """
    # Loads TensorFlow, which data preparation does without until here.
    from albert_tf.records.reader import read_batches

    metadata = read_pretraining_metadata(path)
    if tokenizer is not None:
        for key, value in tokenizer.metadata().items():
            made_with = metadata.get(key)
            if key in ("vocabulary_sha256", "vocab_size") and made_with != value:
                raise ValueError(
                    f"{path} was made with {key}={made_with}, but the vocabulary given "
                    f"has {value}: give the one that made it."
                )
    special: tuple[int, int, int | None] | None = None
    if tokenizer is not None:
        special = (tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id)
    count = 0
    try:
        for batch in read_batches(path, _ROWS_AT_ONCE):
            special = special or _special_ids(batch)
            problems: dict[int, str] = {}
            for text, is_bad in _checks(batch, metadata.get("vocab_size", 0), special):
                for row in np.flatnonzero(is_bad).tolist():
                    problems.setdefault(row, text)
            for row in sorted(problems):
                yield Problem(count + row, problems[row])
            count += len(batch["input_ids"])
    except ValueError as error:
        yield Problem(count, str(error))
        return
    if count != metadata["rows"]:
        yield Problem(count, f"the file ends, but {metadata['rows']} rows were written")


def _special_ids(rows: Rows) -> tuple[int, int, int | None]:
    """Returns [CLS] and [SEP] of the first row; padding is not known from it."""
    last = int(rows["input_mask"][0].sum()) - 1
    ids = rows["input_ids"][0]
    return int(ids[0]), int(ids[last]), None


def _checks(
    rows: Rows, vocab_size: int, special: tuple[int, int, int | None]
) -> Iterator[tuple[str, np.ndarray]]:
    """Yields (message about a broken rule, bool [R]: whether a row breaks it)."""
    ids, mask, segments = rows["input_ids"], rows["input_mask"], rows["segment_ids"]
    boundary, weights = rows["token_boundary"], rows["masked_lm_weights"]
    positions, labels = rows["masked_lm_positions"], rows["masked_lm_ids"]
    cls_id, sep_id, pad_id = special
    place = np.arange(len(ids))
    length = mask.sum(axis=1)
    # Indices of both [SEP], from the segments.
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
        yield "padding is not the padding token", _any((mask == 0) & (ids != pad_id))
    yield (
        "token_boundary is not 0 or 1, or is not 0 in padding",
        _any((boundary < 0) | (boundary > mask)),
    )
    yield "no token is to be predicted", weights.sum(axis=1) < 1
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
    """Returns bool [R]: True for rows with any bad value."""
    return np.asarray(is_bad.any(axis=1))


def _is_ones_then_zeros(values: np.ndarray) -> np.ndarray:
    """Returns bool [R]: True for rows of ones, then zeros."""
    return ((values == 0) | (values == 1)).all(axis=1) & (
        np.diff(values, axis=1) <= 0
    ).all(axis=1)
