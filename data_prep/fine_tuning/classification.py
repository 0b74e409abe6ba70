"""Examples of one or two texts -> rows for a model to classify or to score."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.text import packing
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.fine_tuning.tables import Example

_EXAMPLES_PER_BLOCK = 1000


def classification_rows(
    examples: Sequence[Example],
    values: Sequence[float],
    tokenizer: AlbertTokenizer,
    max_seq_length: int,
    statistics: dict[str, Any],
) -> Iterator[dict[str, Any]]:
    """Rows of `records.classifier_features`, in the examples' order.

    A pair's longer text is shortened first, piece by piece, as in the original.

    Args:
      examples: one or two texts each; a second text that is empty is a segment still.
      values: their labels: indices, or numbers.
      tokenizer: cuts the texts.
      max_seq_length: pieces in a row at most, special ones included.
      statistics: gets `rows`, `pieces`, `unknown_pieces` and `truncated_rows`.
    Raises:
      ValueError: the length leaves no room for a piece of each text.
    """
    statistics |= dict.fromkeys(("pieces", "unknown_pieces", "truncated_rows"), 0)
    statistics["rows"] = len(examples)
    pair = examples[0].text_pair is not None
    special = (
        packing.SPECIAL_TOKENS_OF_PAIR if pair else packing.SPECIAL_TOKENS_OF_SINGLE
    )
    smallest = special + (2 if pair else 1)
    if max_seq_length < smallest:
        raise ValueError(
            f"max_seq_length must be at least {smallest}, for the special pieces and "
            f"one of each text. Received {max_seq_length}."
        )
    for first in range(0, len(examples), _EXAMPLES_PER_BLOCK):
        block = examples[first : first + _EXAMPLES_PER_BLOCK]
        firsts = tokenizer.encode_batch([example.text for example in block])
        seconds: list = [[]] * len(block)
        if pair:
            seconds = tokenizer.encode_batch([e.text_pair for e in block])
        kept = zip(
            *packing.truncate_longest_first(
                np.array([len(ids) for ids in firsts]),
                np.array([len(ids) for ids in seconds]),
                max_seq_length - special,
            ),
            strict=True,
        )
        for offset, (kept_a, kept_b) in enumerate(kept):
            ids_a, ids_b = firsts[offset], seconds[offset]
            statistics["truncated_rows"] += kept_a < len(ids_a) or kept_b < len(ids_b)
            ids_a, ids_b = ids_a[:kept_a], ids_b[:kept_b]
            statistics["pieces"] += len(ids_a) + len(ids_b)
            for ids in (ids_a, ids_b):
                statistics["unknown_pieces"] += ids.count(tokenizer.unk_id)
            row = packing.join_segments(
                ids_a,
                ids_b if pair else None,
                cls_id=tokenizer.cls_id,
                sep_id=tokenizer.sep_id,
            )
            index = block[offset].index.encode("utf-8")
            yield {**row, "label_ids": values[first + offset], "index": index}
    statistics["truncated_rows"] = int(statistics["truncated_rows"])


def warnings_of(name: str, statistics: Mapping[str, Any]) -> list[str]:
    """What looks wrong with the rows of a file, though it may be meant."""
    found = []
    rows, pieces = statistics["rows"], max(1, statistics["pieces"])
    unknown = statistics["unknown_pieces"] / pieces
    if unknown > 0.02:
        found.append(
            f"{unknown:.1%} of the pieces of {name} are unknown to the vocabulary: is "
            "it the text's language and casing?"
        )
    truncated = statistics["truncated_rows"] / rows
    if truncated > 0.05:
        found.append(
            f"{truncated:.1%} of the rows of {name} were truncated: raise "
            "--max_seq_length."
        )
    return found
