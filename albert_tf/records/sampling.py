"""A random sample of a data set's rows, for evaluations that are kept short."""

import numpy as np

from albert_tf.records.reader import read_strings
from albert_tf.records.sidecar import RecordSet

_QUESTION = "question_id"


def sample_rows(record_set: RecordSet, most: int, seed: int) -> np.ndarray | None:
    """Draws rows of the whole set at random.

    A question of SQuAD whose paragraph is long has several rows; they are drawn
    together, so that every answer comes from all of its paragraph.

    Args:
      record_set: the rows.
      most: number of rows to draw; a first question that has more is drawn anyway.
      seed: same seed, same rows.
    Returns:
      Places of the rows in the set, rising, int64; None: the set has no more rows.
    """
    if record_set.total_rows <= most:
        return None
    rng = np.random.default_rng(seed)
    if _QUESTION not in record_set.features:
        return np.sort(rng.choice(record_set.total_rows, most, replace=False))
    questions = read_strings(record_set)[_QUESTION]
    _, question, sizes = np.unique(questions, return_inverse=True, return_counts=True)
    order = rng.permutation(len(sizes))
    count = np.searchsorted(np.cumsum(sizes[order]), most, side="right")
    return np.flatnonzero(np.isin(question, order[: max(1, count)]))
