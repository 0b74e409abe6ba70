"""Compact rows of a made-up vocabulary."""

import numpy as np

from albert_tf.records.compact import CompactFormat, format_metadata, pack_compact
from albert_tf.records.encoding import frame_rows, split_frames
from albert_tf.records.features import compact_features
from albert_tf.records.writer import write_records

PAD, UNK, CLS, SEP, MASK, FIRST, LAST = 0, 1, 2, 3, 4, 5, 700
SPECIAL = {"pad_id": PAD, "cls_id": CLS, "sep_id": SEP, "mask_id": MASK}


def rows_format(length, objective="sop"):
    return CompactFormat(
        length, LAST, objective, ordinary_ranges=((5, LAST),), **SPECIAL
    )


def metadata(length, objective="sop"):
    """The sidecar of such rows."""
    return {
        "max_seq_length": length,
        "pair_objective": objective,
        "vocab_size": LAST,
        "vocabulary_sha256": "made up",
        **format_metadata(LAST, np.arange(FIRST, LAST), SPECIAL),
    }


def pairs(count, length, rng, words=0.7):
    """Random text: (ids, word starts, ranges of both segments).

    Rows have from two tokens to all that fit; `words` is the share of tokens that start
    a word.
    """
    sizes = rng.integers(2, length - 2, count)
    ends = np.cumsum(sizes)
    begins, split = ends - sizes, 1 + (rng.random(count) * (sizes - 1)).astype(int)
    ids = rng.integers(FIRST, LAST, ends[-1])
    starts = rng.random(len(ids)) < words
    middle = begins + split
    return (
        ids,
        starts,
        np.stack([begins, middle], axis=1),
        np.stack([middle, ends], axis=1),
    )


def columns(ids, starts, ranges_a, ranges_b, labels=None):
    packed = pack_compact(ids, starts, ranges_a, ranges_b, LAST)
    labels = np.zeros(len(ranges_a), int) if labels is None else labels
    return {**packed, "next_sentence_labels": labels[:, None]}


def serialized(made):
    """The rows of some columns as serialized Examples."""
    frames, _ = frame_rows(made, compact_features())
    return [bytes(frame[12:-4]) for frame in split_frames(frames.tobytes())]


def write(path, text, metadata):
    """Writes rows of some pairs; returns the path."""
    made = columns(*text)
    strings = made.pop("tokens"), made.pop("word_starts")
    rows = (
        {
            **{
                name: column.content[row, : column.sizes[row]].tobytes()
                for name, column in zip(("tokens", "word_starts"), strings, strict=True)
            },
            **{name: values[row] for name, values in made.items()},
        }
        for row in range(len(strings[0]))
    )
    write_records(path, rows, compact_features(), metadata)
    return str(path)
