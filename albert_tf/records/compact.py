"""Compact pretraining rows: text without masks, special tokens and padding.

A row has the tokens of two segments that are consecutive text (or, by `nsp`, perhaps
not), as small integers, and a bit for each token that starts a word. Masks, and the
order of segments in `sop`, are drawn while rows are read. A row of 512 tokens takes
about 1.2 kB.

The sidecar of such a file has `masking` = "none" and what drawing masks needs to know
about the vocabulary (`CompactFormat`).
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from albert_tf.records.features import MASKING, UNMASKED, Strings

SPECIAL_TOKENS = ("pad_id", "cls_id", "sep_id", "mask_id")
# Keys that files must agree in to be read together.
FORMAT_KEYS = (MASKING, "token_bytes", *SPECIAL_TOKENS, "ordinary_ids")


@dataclasses.dataclass(frozen=True)
class CompactFormat:
    """The sizes of compact rows, and special and ordinary tokens of their vocabulary.

    Attributes:
      max_seq_length: S, tokens of the longest row, special tokens included.
      vocab_size: number of tokens in the vocabulary.
      pair_objective: "sop", "nsp" or "none".
      pad_id, cls_id, sep_id, mask_id: special tokens.
      ordinary_ranges: half-open ranges of the ids that replace tokens at random.
    """

    max_seq_length: int
    vocab_size: int
    pair_objective: str
    pad_id: int
    cls_id: int
    sep_id: int
    mask_id: int
    ordinary_ranges: tuple[tuple[int, int], ...]

    @property
    def token_bytes(self) -> int:
        """Bytes of a token on disk."""
        return token_bytes(self.vocab_size)

    @property
    def max_text_tokens(self) -> int:
        """Tokens of the longest row without [CLS] and the two [SEP]."""
        return self.max_seq_length - 3

    @property
    def ordinary_ids(self) -> np.ndarray:
        """The ids that replace tokens at random, int32, rising."""
        return np.concatenate(
            [np.arange(*edges, dtype=np.int32) for edges in self.ordinary_ranges]
        )

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any], path: str) -> "CompactFormat":
        """Returns what a sidecar says, checked.

        Args:
          metadata: the sidecar.
          path: its record file, for messages.
        Raises:
          ValueError: a value is missing or impossible.
        """
        values: dict[str, Any] = {}
        for name in ("max_seq_length", "vocab_size", *SPECIAL_TOKENS):
            values[name] = metadata.get(name)
            if type(values[name]) is not int or values[name] < 0:
                raise _wrong(path, name, values[name])
        objective = metadata.get("pair_objective")
        if objective not in ("sop", "nsp", "none"):
            raise _wrong(path, "pair_objective", objective)
        size = values["vocab_size"]
        for name in SPECIAL_TOKENS:
            if values[name] >= size:
                raise _wrong(path, name, values[name])
        if metadata.get("token_bytes") != token_bytes(size):
            raise _wrong(path, "token_bytes", metadata.get("token_bytes"))
        if values["max_seq_length"] < 5:
            raise _wrong(path, "max_seq_length", values["max_seq_length"])
        ranges = metadata.get("ordinary_ids")
        if not _are_ranges(ranges, size):
            raise _wrong(path, "ordinary_ids", ranges)
        edges = tuple((first, end) for first, end in ranges or ())
        return cls(pair_objective=objective, ordinary_ranges=edges, **values)


def format_metadata(
    vocab_size: int, ordinary_ids: np.ndarray, special_ids: Mapping[str, int]
) -> dict[str, Any]:
    """Returns what the sidecar of compact rows says about them.

    Args:
      vocab_size: number of tokens in the vocabulary.
      ordinary_ids: int [K], rising.
      special_ids: an id for each of `SPECIAL_TOKENS`.
    """
    breaks = np.flatnonzero(np.diff(ordinary_ids) != 1) + 1
    ranges = [
        [int(part[0]), int(part[-1]) + 1] for part in np.split(ordinary_ids, breaks)
    ]
    return {
        MASKING: UNMASKED,
        "token_bytes": token_bytes(vocab_size),
        **{name: int(special_ids[name]) for name in SPECIAL_TOKENS},
        "ordinary_ids": ranges,
    }


def pack_compact(
    ids: np.ndarray,
    word_starts: np.ndarray,
    ranges_a: np.ndarray,
    ranges_b: np.ndarray,
    vocab_size: int,
) -> dict[str, np.ndarray | Strings]:
    """Packs pairs of segments into the columns of compact rows.

    Args:
      ids: int [N], the text.
      word_starts: bool [N], whether a token starts a word. The first token of a segment
        counts as one in any case.
      ranges_a, ranges_b: int [R, 2], half-open ranges in `ids` of the two segments.
      vocab_size: number of tokens in the vocabulary.
    Returns:
      The features of `compact_features` except for the label.
    """
    split = ranges_a[:, 1] - ranges_a[:, 0]
    lengths = split + ranges_b[:, 1] - ranges_b[:, 0]
    columns = np.arange(lengths.max(initial=0))
    in_first = columns < split[:, None]
    shift = np.where(in_first, ranges_a[:, :1], ranges_b[:, :1] - split[:, None])
    places = columns + shift
    starts = word_starts.take(places, mode="clip")
    starts[(columns == 0) | (columns == split[:, None])] = True
    starts &= columns < lengths[:, None]
    size = token_bytes(vocab_size)
    tokens = ids.take(places, mode="clip").astype(f"<u{size}").view(np.uint8)
    bits = np.packbits(starts, axis=1, bitorder="little")
    return {
        "tokens": Strings(tokens, size * lengths),
        "word_starts": Strings(bits, -(-lengths // 8)),
        "segment_split": split,
    }


def unpack_compact(
    tokens: Iterable[bytes], word_starts: Iterable[bytes], size: int
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Returns the ids, int64, and word starts, bool, of some rows; one array a row.

    Args:
      tokens, word_starts: the features of `compact_features`.
      size: bytes of a token. A part of one at a row's end is left out.
    """
    ids, starts = [], []
    for content, bits in zip(tokens, word_starts, strict=True):
        count = len(content) // size
        row = np.frombuffer(content, f"<u{size}", count).astype(np.int64)
        ids.append(row)
        flags = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")
        starts.append(flags[:count].astype(bool))
    return ids, starts


def token_bytes(vocab_size: int) -> int:
    """Returns the bytes of a token of a vocabulary: 2 or 4."""
    return 2 if vocab_size <= 1 << 16 else 4


def _are_ranges(ranges: Any, size: int) -> bool:
    """Tells whether a value is a list of rising half-open ranges below a size."""
    if not isinstance(ranges, list) or not ranges:
        return False
    end = 0
    for edges in ranges:
        if not (isinstance(edges, list) and [type(e) for e in edges] == [int, int]):
            return False
        if not end <= edges[0] < edges[1] <= size:
            return False
        end = edges[1]
    return True


def _wrong(path: str, name: str, value: Any) -> ValueError:
    return ValueError(
        f"The sidecar of {path} says {name}={value!r:.80}, which rows without masks "
        "cannot have: make the records again."
    )
