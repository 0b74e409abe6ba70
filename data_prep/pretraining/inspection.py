"""Shows pretraining records to people and checks them against their contract."""

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from albert_tf.records.compact import SPECIAL_TOKENS, CompactFormat, unpack_compact
from albert_tf.records.features import is_compact, stated_pretraining_features
from albert_tf.records.sidecar import check_features, read_metadata
from albert_tf.text.packed_rows import split_rows
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.pretraining.config import (
    NO_LABEL,
    PAIR_OBJECTIVES,
    WITHOUT_LABEL,
)

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

    Label and segments of a packed row are those of each document.

    Tokens to predict: `{cat>[MASK]}` was cat before it was masked, `{cat>dog}` was
    replaced at random, `{cat>cat}` was left as it was.

    Args:
      row: features of one row, without a leading dimension.
      metadata: the sidecar of its file.
      tokenizer: turns ids into tokens; without it ids are shown.
    """
    name = tokenizer.id_to_token if tokenizer else str
    if is_compact(metadata):
        return _describe_compact(row, metadata, name)
    tokens = [name(token_id) for token_id in row["input_ids"].tolist()]
    predicted = int(row["masked_lm_weights"].sum())
    positions = row["masked_lm_positions"][:predicted].tolist()
    for position, label in zip(positions, row["masked_lm_ids"].tolist(), strict=False):
        if 0 <= position < len(tokens):
            tokens[position] = f"{{{name(label)}>{tokens[position]}}}"
    real = int(row["input_mask"].sum())
    summary = f"{real} tokens, {predicted} to predict"
    documents = row.get("document_ids", row["input_mask"])
    lines = []
    for number, label in enumerate(row["next_sentence_labels"].tolist(), 1):
        places = np.flatnonzero(documents == number)
        if len(places):
            segments = row["segment_ids"][places]
            lines.append(f"label {_label_text(label, metadata)}")
            lines.extend(_segment_lines("A", tokens, places[segments == 0]))
            lines.extend(_segment_lines("B", tokens, places[segments != 0]))
    if "document_ids" in row:
        return "\n".join([summary, *lines])
    return "\n".join([", ".join([summary, *lines[:1]]), *lines[1:]])


def _label_text(label: int, metadata: Mapping[str, Any]) -> str:
    if label == NO_LABEL:
        return f"{label} ({WITHOUT_LABEL})"
    meanings = PAIR_OBJECTIVES.get(metadata.get("pair_objective", "sop"), ())
    return f"{label} ({meanings[label] if 0 <= label < len(meanings) else 'unknown'})"


def _segment_lines(name: str, tokens: Sequence[str], places: np.ndarray) -> list[str]:
    return textwrap.wrap(
        " ".join(tokens[place] for place in places.tolist()),
        _COLUMNS,
        initial_indent=f"  {name}: ",
        subsequent_indent="     ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _describe_compact(
    row: Rows, metadata: Mapping[str, Any], name: Callable[[int], str]
) -> str:
    """Formats a row without masks: lengths, label, and both segments as stored."""
    (ids,), (starts,) = unpack_compact(
        [bytes(row["tokens"])], [bytes(row["word_starts"])], metadata["token_bytes"]
    )
    tokens, split = [name(token) for token in ids.tolist()], int(row["segment_split"])
    label = "order drawn by training"
    stored = int(row["next_sentence_labels"].item())
    if metadata.get("pair_objective") != "sop" or stored == NO_LABEL:
        label = f"label {_label_text(stored, metadata)}"
    head = f"{len(ids)} tokens of {int(starts.sum())} words, no masks, {label}"
    first, second = np.split(np.arange(len(ids)), [split])
    lines = [*_segment_lines("A", tokens, first), *_segment_lines("B", tokens, second)]
    return "\n".join([head, *lines])


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
    rows_format = None
    if is_compact(metadata):
        rows_format = CompactFormat.from_metadata(metadata, path)
    count = 0
    try:
        for batch in read_batches(path, _ROWS_AT_ONCE):
            if rows_format:
                checks = _compact_checks(batch, rows_format)
            else:
                special = special or _special_ids(batch)
                checks = _checks(batch, metadata.get("vocab_size", 0), special)
            problems: dict[int, str] = {}
            for text, is_bad in checks:
                for row in np.flatnonzero(is_bad).tolist():
                    problems.setdefault(row, text)
            for row in sorted(problems):
                yield Problem(count + row, problems[row])
            count += len(batch["next_sentence_labels"])
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
    ids, mask, boundary = rows["input_ids"], rows["input_mask"], rows["token_boundary"]
    positions, labels = rows["masked_lm_positions"], rows["masked_lm_ids"]
    weights, pad_id = rows["masked_lm_weights"], special[2]
    pairs = _Pairs.of(rows)

    yield "input_ids outside the vocabulary", _any((ids < 0) | (ids >= vocab_size))
    if "document_ids" in rows:
        yield from _document_checks(rows)
    for text, is_bad in _pair_checks(pairs, special):
        is_bad_row = np.zeros(len(ids), bool)
        is_bad_row[pairs.row[is_bad]] = True
        yield text, is_bad_row
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
    inside = (positions >= 0) & (positions < ids.shape[1])
    place = np.where(inside, positions, 0)
    is_text = np.take_along_axis(pairs.is_text(len(ids)), place, axis=1)
    yield (
        "a masked position is not in the text of a segment",
        _any(used & ~(inside & is_text)),
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
        "the label is not 0, 1 or -1",
        _any(~np.isin(rows["next_sentence_labels"], (0, 1, NO_LABEL))),
    )


class _Pairs(NamedTuple):
    """The pairs of all rows, D of them.

    Attributes:
      row, column: int64 [D], the place of a pair's first token.
      ids, mask, segments: int [D, S], from the first token on.
      middle, last: int64 [D], the columns in them of both [SEP], by the segments.
    """

    row: np.ndarray
    column: np.ndarray
    ids: np.ndarray
    mask: np.ndarray
    segments: np.ndarray
    middle: np.ndarray
    last: np.ndarray

    @classmethod
    def of(cls, rows: Rows) -> "_Pairs":
        """Finds the pairs of rows, packed or not."""
        names = ("input_ids", "input_mask", "segment_ids")
        features = {name: rows[name] for name in names}
        row = np.arange(len(rows["input_ids"]))
        column = np.zeros_like(row)
        if "document_ids" in rows:
            row, column, features = split_rows(features, rows["document_ids"])
        ids, mask, segments = (features[name] for name in names)
        length, largest = mask.sum(axis=1), ids.shape[1] - 1
        last = np.clip(length - 1, 0, largest)
        middle = np.clip(length - segments.sum(axis=1) - 1, 0, largest)
        return cls(row, column, ids, mask, segments, middle, last)

    def is_text(self, rows: int) -> np.ndarray:
        """Returns bool [R, S]: True for the tokens of segments."""
        columns = np.arange(self.ids.shape[1])
        inside = (columns > 0) & (columns < self.last[:, None])
        pair, column = np.nonzero(inside & (columns != self.middle[:, None]))
        result = np.zeros((rows, self.ids.shape[1]), bool)
        result[self.row[pair], self.column[pair] + column] = True
        return result


def _pair_checks(
    pairs: _Pairs, special: tuple[int, int, int | None]
) -> Iterator[tuple[str, np.ndarray]]:
    """As `_checks`, for each pair: bool [D]."""
    ids, mask, segments, middle, last = pairs[2:]
    cls_id, sep_id, _ = special
    place = np.arange(len(ids))
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


def _document_checks(rows: Rows) -> Iterator[tuple[str, np.ndarray]]:
    """The checks of packed rows alone, as `_checks`."""
    documents, steps = rows["document_ids"], np.diff(rows["document_ids"], axis=1)
    is_end = documents[:, 1:] == 0
    yield (
        "document_ids are not 1, 2 and so on, then zeros for padding",
        (documents[:, 0] != 1) | _any(~is_end & (steps != 0) & (steps != 1)),
    )
    yield (
        "input_mask is not 1 where document_ids are above 0",
        _any(rows["input_mask"] != (documents > 0)),
    )
    weights, positions = rows["next_sentence_weights"], rows["next_sentence_positions"]
    yield (
        "next_sentence_weights are not a 1 for each document, then zeros",
        ~_is_ones_then_zeros(weights) | (weights.sum(axis=1) != documents.max(axis=1)),
    )
    expected, used = np.zeros_like(positions), weights > 0
    row, column = np.nonzero(used)
    first = np.argmax(documents[row] == 1 + column[:, None], axis=1)
    expected[row, column] = first
    yield (
        "next_sentence_positions are not the first tokens of the documents",
        _any(positions != expected),
    )
    yield (
        "next_sentence_labels behind the last document are not 0",
        _any(~used & (rows["next_sentence_labels"] != 0)),
    )


# Labels that compact rows may have; those of sop are drawn when rows are read.
_COMPACT_LABELS = {"sop": (0, NO_LABEL), "nsp": (0, 1), "none": (0,)}


def _compact_checks(
    rows: Rows, rows_format: CompactFormat
) -> Iterator[tuple[str, np.ndarray]]:
    """Yields (message about a broken rule, bool [R]), for rows without masks."""
    size, tokens, bits = rows_format.token_bytes, rows["tokens"], rows["word_starts"]
    ids, starts = unpack_compact(tokens, bits, size)
    length = np.array([len(row) for row in ids])
    split = rows["segment_split"]
    stored = np.array([len(row) for row in tokens])
    yield "tokens is not a whole number of tokens", stored != length * size
    yield "more tokens than max_seq_length", length > rows_format.max_text_tokens
    yield (
        "word_starts has another length than the tokens",
        np.array([len(row) for row in bits]) != -(-length // 8),
    )
    yield "a segment is empty", (split < 1) | (split >= length)
    yield (
        "a token is outside the vocabulary or special",
        np.array([_is_not_text(row, rows_format) for row in ids]),
    )
    yield (
        "a segment does not start a word",
        np.array(
            [
                not (flags[:1].all() and flags[place : place + 1].all())
                for flags, place in zip(starts, split.tolist(), strict=True)
            ]
        ),
    )
    labels = _COMPACT_LABELS[rows_format.pair_objective]
    yield (
        f"the label is not {' or '.join(map(str, labels))}",
        _any(~np.isin(rows["next_sentence_labels"], labels)),
    )


def _is_not_text(ids: np.ndarray, rows_format: CompactFormat) -> bool:
    """Tells whether tokens are outside the vocabulary or special."""
    special = [getattr(rows_format, name) for name in SPECIAL_TOKENS]
    return bool(np.any((ids >= rows_format.vocab_size) | np.isin(ids, special)))


def _any(is_bad: np.ndarray) -> np.ndarray:
    """Returns bool [R]: True for rows with any bad value."""
    return np.asarray(is_bad.any(axis=1))


def _is_ones_then_zeros(values: np.ndarray) -> np.ndarray:
    """Returns bool [R]: True for rows of ones, then zeros."""
    return ((values == 0) | (values == 1)).all(axis=1) & (
        np.diff(values, axis=1) <= 0
    ).all(axis=1)
