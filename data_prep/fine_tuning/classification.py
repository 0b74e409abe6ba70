"""Makes rows for classification and regression from examples of one text or two."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.text import packing
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.windows import WindowRule, Windows, windows_of
from data_prep.fine_tuning.tables import Example

_EXAMPLES_PER_BLOCK = 1000
# Shares of unknown tokens, of truncated rows and of inexact answers above which a user
# is warned.
_MANY_UNKNOWN, _MANY_TRUNCATED, _MANY_INEXACT = 0.02, 0.05, 0.05


def classification_rows(
    examples: Sequence[Example],
    values: Sequence[Any],
    tokenizer: AlbertTokenizer,
    max_seq_length: int,
    statistics: dict[str, Any],
    windows: WindowRule | None = None,
) -> Iterator[dict[str, Any]]:
    """Yields rows of `features.classifier_features`, in the examples' order.

    The longer text of a pair is shortened first, token by token, as in the original, or
    cut into windows.

    Args:
      examples: one or two texts each; an empty second text is still a segment.
      values: their labels: indices, numbers, or lists of 0 and 1.
      tokenizer: tokenizes the texts.
      max_seq_length: most tokens of a row, special tokens included.
      statistics: receives `rows`, `pieces` (tokens), `unknown_pieces` and
        `truncated_rows`; of windows also `long_texts`, those with several, their
        `windows` together, and `most_windows`.
      windows: how texts that are too long are cut; None: they are shortened.
    Raises:
      ValueError: max_seq_length leaves no room for a token of each text.
    """
    statistics |= dict.fromkeys(("pieces", "unknown_pieces", "truncated_rows"), 0)
    statistics["rows"] = len(examples)
    pair = examples[0].text_pair is not None
    special = (
        packing.SPECIAL_TOKENS_OF_PAIR if pair else packing.SPECIAL_TOKENS_OF_SINGLE
    )
    _check_length(max_seq_length, special + (2 if pair else 1))
    for first in range(0, len(examples), _EXAMPLES_PER_BLOCK):
        block = examples[first : first + _EXAMPLES_PER_BLOCK]
        firsts = tokenizer.encode_batch([example.text for example in block])
        seconds: list = [[]] * len(block)
        if pair:
            seconds = tokenizer.encode_batch([e.text_pair or "" for e in block])
        cut: Iterable[Windows]
        if windows:
            cut = (
                windows_of(ids_a, ids_b if pair else None, windows)
                for ids_a, ids_b in zip(firsts, seconds, strict=True)
            )
        else:
            cut = _shortened(firsts, seconds, pair, max_seq_length - special)
        for offset, (segments, truncated) in enumerate(cut):
            statistics["truncated_rows"] += int(truncated)
            rows = [_join(*each, tokenizer, statistics) for each in segments]
            row: dict[str, Any] = rows[0]
            if windows:
                row = {name: [each[name] for each in rows] for name in row}
                _count_windows(len(rows), statistics)
            index = block[offset].index.encode("utf-8")
            yield {**row, "label_ids": values[first + offset], "index": index}


def _join(
    ids_a: Sequence[int],
    ids_b: Sequence[int] | None,
    tokenizer: AlbertTokenizer,
    statistics: dict[str, Any],
) -> dict[str, list[int]]:
    """Joins the segments of a row, and counts their tokens."""
    tokens = [*ids_a, *(ids_b or ())]
    statistics["pieces"] += len(tokens)
    statistics["unknown_pieces"] += tokens.count(tokenizer.unk_id)
    return packing.join_segments(
        ids_a, ids_b, cls_id=tokenizer.cls_id, sep_id=tokenizer.sep_id
    )


def _shortened(
    firsts: Sequence[list[int]],
    seconds: Sequence[list[int]],
    pair: bool,
    room: int,
) -> Iterator[Windows]:
    """One window of each text or pair, which is shortened if it is too long."""
    kept = packing.truncate_longest_first(
        np.array([len(ids) for ids in firsts]),
        np.array([len(ids) for ids in seconds]),
        room,
    )
    for ids_a, ids_b, kept_a, kept_b in zip(firsts, seconds, *kept, strict=True):
        truncated = kept_a < len(ids_a) or kept_b < len(ids_b)
        segments = (ids_a[:kept_a], ids_b[:kept_b] if pair else None)
        yield Windows([segments], bool(truncated))


def _count_windows(count: int, statistics: dict[str, Any]) -> None:
    statistics["windows"] = statistics.get("windows", 0) + count
    statistics["long_texts"] = statistics.get("long_texts", 0) + (count > 1)
    statistics["most_windows"] = max(statistics.get("most_windows", 0), count)


def _check_length(max_seq_length: int, smallest: int) -> None:
    if max_seq_length < smallest:
        raise ValueError(
            f"max_seq_length must be at least {smallest}, for the special tokens and "
            f"one token of each text. Received {max_seq_length}."
        )


def row_warnings(name: str, statistics: Mapping[str, Any]) -> list[str]:
    """Returns warnings about the rows of a split.

    They are on unknown tokens, truncation, inexact answers, skipped rows and labels.

    Args:
      name: the split.
      statistics: what was counted when its rows were made; counts may be missing.
    """
    warnings = []
    unknown = statistics["unknown_pieces"] / max(1, statistics["pieces"])
    if unknown > _MANY_UNKNOWN:
        warnings.append(
            f"{unknown:.1%} of the tokens of {name} are unknown to the vocabulary: "
            "check the language and casing of the text."
        )
    truncated = statistics.get("truncated_rows", 0) / max(1, statistics.get("rows", 0))
    if truncated > _MANY_TRUNCATED:
        warnings.append(
            f"{truncated:.1%} of the rows of {name} were truncated: raise "
            "--max_seq_length."
        )
    inexact = statistics.get("inexact_answers", ())
    share = len(inexact) / max(1, statistics.get("questions", 0))
    if share > _MANY_INEXACT:
        warnings.append(
            f"{share:.1%} of the questions of {name} have an answer that does not "
            "begin and end where a token does, so that the model cannot find it "
            "exactly: check the vocabulary."
        )
    respelled = statistics.get("respelled_labels", 0)
    if respelled:
        warnings.append(
            f"{respelled} labels of {name} had white space around or more than one "
            "space in them, or are whole numbers as 1.0: they were named without."
        )
    repeated = statistics.get("repeated_labels", 0)
    if repeated:
        warnings.append(
            f"{repeated} labels of {name} are empty or stand twice in a row: they were "
            "left out."
        )
    if statistics.get("labels_present") == 1 and statistics["rows"] > 1:
        warnings.append(
            f"all {statistics['rows']:,} rows of {name} have one and the same label: "
            "nothing can be learned or measured on them; check the label column."
        )
    skipped = statistics.get("skipped_rows", 0)
    if skipped:
        warnings.append(f"{skipped} bad rows of {name} were skipped.")
    return warnings
