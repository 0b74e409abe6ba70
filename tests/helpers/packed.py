"""Packed rows of the same documents as unpacked ones."""

import numpy as np

from albert_tf.text.packed_rows import assign_rows, join_rows
from helpers.tiny import PAD_ID, random_rows

# Lengths that differ from all others of the tiny model.
MAX_SEQ_LENGTH, MAX_DOCUMENTS, MAX_PREDICTIONS = 22, 4, 8


def stacked(rows):
    """Rows [(name -> [...])] as name -> [R, ...]."""
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def alone_and_packed(count=9, seed=3):
    """The same random documents: a row for each, and packed; features [R, ...]."""
    rows = stacked(list(random_rows(count, np.random.default_rng(seed))))
    lengths = rows["input_mask"].sum(axis=1)
    places = assign_rows(lengths, MAX_SEQ_LENGTH, MAX_DOCUMENTS)
    packed = join_rows(rows, places, MAX_SEQ_LENGTH, pad_id=PAD_ID)
    starts = {**rows, "input_ids": rows["token_boundary"]}
    boundaries = join_rows(starts, places, MAX_SEQ_LENGTH, pad_id=0)
    packed["token_boundary"] = boundaries["input_ids"]
    for name, size, dtype in (
        ("masked_lm_positions", MAX_PREDICTIONS, np.int64),
        ("masked_lm_ids", MAX_PREDICTIONS, np.int64),
        ("masked_lm_weights", MAX_PREDICTIONS, np.float32),
        ("next_sentence_labels", MAX_DOCUMENTS, np.int64),
        ("next_sentence_positions", MAX_DOCUMENTS, np.int64),
        ("next_sentence_weights", MAX_DOCUMENTS, np.float32),
    ):
        packed[name] = np.zeros((places.rows, size), dtype)
    filled = np.zeros(places.rows, int)
    for document in np.lexsort((places.column, places.row)):
        row, column, number = (part[document] for part in places)
        used = int(rows["masked_lm_weights"][document].sum())
        slots = slice(filled[row], filled[row] + used)
        for name, shift in (("positions", column), ("ids", 0), ("weights", 0)):
            values = rows[f"masked_lm_{name}"][document, :used] + shift
            packed[f"masked_lm_{name}"][row, slots] = values
        filled[row] += used
        packed["next_sentence_labels"][row, number] = rows["next_sentence_labels"][
            document, 0
        ]
        packed["next_sentence_positions"][row, number] = column
        packed["next_sentence_weights"][row, number] = 1
    return rows, packed, places


def as_batch(features):
    """Features as a reader gives them: int32 instead of int64."""
    return {
        name: values.astype(np.int32) if values.dtype.kind == "i" else values
        for name, values in features.items()
    }
