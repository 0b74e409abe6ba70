"""A tiny configuration and tiny records. All sizes differ, so a swapped axis fails."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.records.features import pretraining_features
from albert_tf.records.writer import write_records
from albert_tf.text import packing

MAX_SEQ_LENGTH, MAX_PREDICTIONS = 10, 3
VOCAB_SIZE = 61
PAD_ID, CLS_ID, SEP_ID, MASK_ID = 0, 2, 3, 4
FIRST_ORDINARY_ID = 5


def tiny_config(**changes: Any) -> AlbertConfig:
    """Returns a model of a few thousand parameters; `changes` replace values."""
    config = AlbertConfig(
        vocab_size=VOCAB_SIZE,
        embedding_size=6,
        hidden_size=12,
        num_hidden_layers=4,
        num_attention_heads=3,
        intermediate_size=20,
        max_position_embeddings=24,
    )
    return config.replace(**changes)


def random_rows(
    count: int,
    rng: np.random.Generator,
    max_seq_length: int = MAX_SEQ_LENGTH,
    max_predictions: int = MAX_PREDICTIONS,
) -> Iterator[dict[str, np.ndarray]]:
    """Yields valid pretraining rows of random tokens, under the names on disk."""
    most = max_seq_length - packing.SPECIAL_TOKENS_OF_PAIR
    for _ in range(count):
        text = rng.integers(FIRST_ORDINARY_ID, VOCAB_SIZE, rng.integers(2, most + 1))
        split = rng.integers(1, len(text))
        row = packing.pack_segments(
            text[:split],
            text[split:],
            max_seq_length,
            cls_id=CLS_ID,
            sep_id=SEP_ID,
            pad_id=PAD_ID,
        )
        maskable = np.flatnonzero(row["input_ids"] >= FIRST_ORDINARY_ID)
        masked = rng.integers(1, min(max_predictions, len(maskable)) + 1)
        positions = np.sort(rng.choice(maskable, masked, replace=False))
        padding = (0, max_predictions - masked)
        row["token_boundary"] = row["input_mask"] * rng.integers(0, 2, max_seq_length)
        row["masked_lm_positions"] = np.pad(positions, padding)
        row["masked_lm_ids"] = np.pad(row["input_ids"][positions], padding)
        row["masked_lm_weights"] = np.pad(np.ones(masked, np.float32), padding)
        row["next_sentence_labels"] = rng.integers(0, 2, 1)
        row["input_ids"][positions] = MASK_ID
        yield row


def write_rows(path: Path, count: int, seed: int = 0, **metadata: Any) -> Path:
    """Writes random pretraining rows and their sidecar; `metadata` replaces values."""
    known = {
        "kind": "pretraining",
        "vocabulary_sha256": hashlib.sha256(b"tiny").hexdigest(),
        "vocab_size": VOCAB_SIZE,
        "lower_case": True,
        "strip_accents": True,
        "max_seq_length": MAX_SEQ_LENGTH,
        "max_predictions_per_seq": MAX_PREDICTIONS,
    }
    known |= metadata
    lengths = known["max_seq_length"], known["max_predictions_per_seq"]
    rows = random_rows(count, np.random.default_rng(seed), *lengths)
    write_records(path, rows, pretraining_features(*lengths), known)
    return path
