"""Features of each kind of row; `records.py`, which alone imports this, gives them on.

On disk the released names and types stay (int64, but for the mask's weights).
"""

import dataclasses
from collections.abc import Mapping

import numpy as np


@dataclasses.dataclass(frozen=True)
class Feature:
    """One feature of a row.

    Attributes:
      shape: sizes that all rows have in common; `(None,)` for a list of any length and
        `(None, None)` for a list of such lists, whose lengths are on disk as
        `NAME_lengths`.
      dtype: on disk: int64, float32, or string, which is bytes in Python.
    """

    shape: tuple[int | None, ...]
    dtype: str = "int64"

    @property
    def varies(self) -> bool:
        """Whether rows differ in how many values they have."""
        return None in self.shape

    @property
    def size(self) -> int:
        """Number of values that a row stores."""
        return int(np.prod(self.shape, dtype=np.int64))


Features = Mapping[str, Feature]


def pretraining_features(max_seq_length: int, max_predictions_per_seq: int) -> Features:
    """Features of a pretraining row, under the released names.

    Args:
      max_seq_length: S, pieces in a row, padding included.
      max_predictions_per_seq: P, masked positions in a row, padding included.
    Returns:
      `masked_lm_weights` is 1.0 for a prediction, 0.0 for padding;
      `next_sentence_labels` is 0 for segments in order, 1 for swapped ones;
      `token_boundary` is 1 where a piece starts a word.
    """
    sequence = Feature((max_seq_length,))
    predictions = Feature((max_predictions_per_seq,))
    return {
        "input_ids": sequence,
        "input_mask": sequence,
        "segment_ids": sequence,
        "token_boundary": sequence,
        "masked_lm_positions": predictions,
        "masked_lm_ids": predictions,
        "masked_lm_weights": Feature((max_predictions_per_seq,), "float32"),
        "next_sentence_labels": Feature((1,)),
    }


def squad_features(with_places: bool) -> Features:
    """Features of a row of question answering: one window, at its own length L.

    Args:
      with_places: whether to keep what makes answers of positions; training does not
        need it.
    Returns:
      Names of the original where it has one. `p_mask` is 1 where no answer may start or
      end (the question, [SEP]); `start_positions` and `end_positions` (inclusive) are
      positions in the row, 0 with `is_impossible` if it does not hold the answer.
      Places are `token_is_max_context`, 1 where an answer may start in this window, so
      that no other one proposes it, and `piece_starts` and `piece_ends`, half-open
      ranges of characters in the paragraph; all are 0 outside it.
    """
    pieces = ["input_ids", "segment_ids", "p_mask"]
    if with_places:
        pieces += ["token_is_max_context", "piece_starts", "piece_ends"]
    targets = ("start_positions", "end_positions", "is_impossible")
    return {
        "question_id": Feature((), "string"),
        **{name: Feature((None,)) for name in pieces},
        **{name: Feature(()) for name in targets},
    }


def classifier_features(label_dtype: str) -> Features:
    """Features of a row to classify or to score, stored without padding.

    Args:
      label_dtype: of `label_ids`: int64, an index, or float32, a score.
    Returns:
      Besides the pieces and the label `index`, what the row is called in its file.
    """
    pieces = Feature((None,))
    return {
        "input_ids": pieces,
        "segment_ids": pieces,
        "label_ids": Feature((), label_dtype),
        "index": Feature((), "string"),
    }


def choice_features() -> Features:
    """Features of a question with options, each a list of pieces without padding.

    `label_ids` is the right option, `level` a part of the set or -1, and `index` what
    the question is called.
    """
    options = Feature((None, None))
    return {
        "input_ids": options,
        "segment_ids": options,
        "label_ids": Feature(()),
        "level": Feature(()),
        "index": Feature((), "string"),
    }
