"""Random batches of question answering."""

import numpy as np
import tensorflow as tf

# Masked positions score about -1e30 in the original; real scores are far above this.
MASKED = -1e29


def random_batch(rows, length, seed, paddings=0):
    """Rows [CLS] question [SEP] paragraph [SEP] of random tokens, then padding."""
    rng = np.random.default_rng(seed)
    real = length - paddings
    first = rng.integers(3, real - 3, rows)
    positions = np.arange(length)
    paragraph = (positions >= first[:, None]) & (positions < real - 1)
    real_tokens = np.broadcast_to(positions < real, (rows, length))
    p_mask = np.where(real_tokens, ~paragraph & (positions > 0), False)
    starts = rng.integers(first, real - 1)
    batch = {
        "input_ids": rng.integers(5, 61, (rows, length)) * real_tokens,
        "input_mask": real_tokens,
        "segment_ids": (positions >= first[:, None]) & real_tokens,
        "p_mask": p_mask,
        "token_is_max_context": paragraph & (rng.random((rows, length)) < 0.7),
        "start_positions": starts,
        "end_positions": rng.integers(starts, real - 1),
        "is_impossible": rng.integers(0, 2, rows),
    }
    return {name: tf.constant(value, tf.int32) for name, value in batch.items()}
