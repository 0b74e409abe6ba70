"""Features of each kind of row: names, shapes and types on disk.

Names and types are those of the released records (int64, except for the weights of
masked positions).
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

# Entry of the sidecar of packed rows; the others lack it.
MAX_DOCUMENTS = "max_documents_per_row"


@dataclasses.dataclass(frozen=True)
class Feature:
    """One feature of a row.

    Attributes:
      shape: sizes that all rows share; `(None,)` for a list of any length and
        `(None, None)` for a list of such lists, whose lengths are stored in the feature
        `lengths_name(NAME)`.
      dtype: type on disk: int64, float32, or string (bytes in Python).
    """

    shape: tuple[int | None, ...]
    dtype: str = "int64"

    @property
    def varies(self) -> bool:
        """True if rows differ in their number of values."""
        return None in self.shape

    @property
    def size(self) -> int:
        """Number of values that a row of fixed shape stores."""
        return math.prod(size for size in self.shape if size is not None)


Features = Mapping[str, Feature]
# The key of a sidecar that says whether rows are stored with masks, and its value for
# rows without them; the sidecars of rows with masks lack it.
MASKING, UNMASKED = "masking", "none"


@dataclasses.dataclass(frozen=True)
class Strings:
    """A column of strings of different lengths.

    Attributes:
      content: uint8 [R, w], the bytes of each row, then any values.
      sizes: int64 [R], bytes of each row.
    """

    content: np.ndarray
    sizes: np.ndarray

    def __len__(self) -> int:
        return len(self.sizes)


def lengths_name(name: str) -> str:
    """Returns the name of the feature that stores the lengths of a list of lists."""
    return f"{name}_lengths"


def row_value(row: Mapping[str, Any], name: str) -> Any:
    """Returns a feature's value in a row.

    Raises:
      ValueError: the row lacks it.
    """
    if name not in row:
        raise ValueError(f"A row lacks the feature {name!r}: it has {sorted(row)}.")
    return row[name]


def check_size(name: str, feature: Feature, size: int) -> None:
    """Raises ValueError unless a feature of fixed shape has `size` values."""
    if size != feature.size:
        raise ValueError(
            f"Feature {name!r} must have {feature.size} values. "
            f"Received {size}: make rows with the lengths of the spec."
        )


def pretraining_features(
    max_seq_length: int, max_predictions_per_seq: int, max_documents_per_row: int = 0
) -> Features:
    """Returns the features of a pretraining row, under the released names.

    Args:
      max_seq_length: S, tokens in a row, padding included.
      max_predictions_per_seq: P, masked positions in a row, padding included.
      max_documents_per_row: K, pairs of segments in a packed row, padding included; 0:
        rows have one pair each and are not packed.
    Returns:
      `masked_lm_weights` is 1.0 for a prediction, 0.0 for padding;
      `next_sentence_labels` is 0 for segments in order, 1 for swapped ones, -1 for two
      parts of a sentence, whose order is not asked;
      `token_boundary` is 1 where a token starts a word. Packed rows also have
      `document_ids`, 1 for the first pair's tokens and so on, 0 for padding;
      `next_sentence_positions`, the place of each pair's [CLS]; and
      `next_sentence_weights`, 1.0 for a pair, 0.0 for padding.
    """
    sequence = Feature((max_seq_length,))
    predictions = Feature((max_predictions_per_seq,))
    documents = Feature((max_documents_per_row or 1,))
    packed = {
        "document_ids": sequence,
        "next_sentence_positions": documents,
        "next_sentence_weights": Feature(documents.shape, "float32"),
    }
    return {
        "input_ids": sequence,
        "input_mask": sequence,
        "segment_ids": sequence,
        "token_boundary": sequence,
        "masked_lm_positions": predictions,
        "masked_lm_ids": predictions,
        "masked_lm_weights": Feature((max_predictions_per_seq,), "float32"),
        "next_sentence_labels": documents,
        **(packed if max_documents_per_row else {}),
    }


def is_compact(metadata: Mapping[str, Any]) -> bool:
    """Tells from a sidecar whether rows are stored without masks."""
    return metadata.get(MASKING) == UNMASKED


def compact_features() -> Features:
    """Returns the features of a pretraining row without masks; see `compact.py`.

    `tokens` has the ids of both segments in the order of the text, little-endian, of
    `token_bytes` each; `word_starts` a bit for each of them, the lowest bit of a byte
    first; `segment_split` the number of tokens of the first segment.
    `next_sentence_labels` is 1 if the second segment is of another document (`nsp`), -1
    for two parts of a sentence (`sop`), whose order is not asked, and stays.
    """
    return {
        "tokens": Feature((), "string"),
        "word_starts": Feature((), "string"),
        "segment_split": Feature(()),
        "next_sentence_labels": Feature((1,)),
    }


def stated_pretraining_features(metadata: Mapping[str, Any]) -> Features:
    """Returns the features that pretraining rows must have by their sidecar.

    Args:
      metadata: a sidecar; lengths that it does not state are those of its features.
    """
    if is_compact(metadata):
        return compact_features()
    features = metadata["features"]
    sizes = {"max_seq_length": "input_ids", "max_predictions_per_seq": "masked_lm_ids"}
    sequence, predictions = (
        metadata.get(size, features[name].size if name in features else 0)
        for size, name in sizes.items()
    )
    return pretraining_features(sequence, predictions, metadata.get(MAX_DOCUMENTS, 0))


def squad_features(with_places: bool) -> Features:
    """Returns the features of a row of question answering: one window, not padded.

    Args:
      with_places: include the features that turn positions into answers, which training
        does not need: `token_is_max_context`, 1 for the tokens at which an answer may
        start in this window (and in no other window), and `piece_starts` and
        `piece_ends`, half-open ranges of characters in the paragraph. All are 0 for
        tokens outside the paragraph.
    Returns:
      The original's names where it has one. `p_mask` is 1 for tokens that no answer may
      contain (the question, [SEP]). `start_positions` and `end_positions` (inclusive)
      are positions in the row; both are 0, and `is_impossible` is 1, if the window does
      not hold the answer.
    """
    tokens = ["input_ids", "segment_ids", "p_mask"]
    if with_places:
        tokens += ["token_is_max_context", "piece_starts", "piece_ends"]
    targets = ("start_positions", "end_positions", "is_impossible")
    return {
        "question_id": Feature((), "string"),
        **{name: Feature((None,)) for name in tokens},
        **{name: Feature(()) for name in targets},
    }


def classifier_features(label_dtype: str, windows: bool = False) -> Features:
    """Returns the features of a row to classify or to rate, stored without padding.

    Args:
      label_dtype: of `label_ids`: int64 for an index, float32 for a value.
      windows: whether a row is a text of several windows, each a list of tokens.
    Returns:
      `index` is the row's name in its file.
    """
    tokens = Feature((None, None) if windows else (None,))
    return {
        "input_ids": tokens,
        "segment_ids": tokens,
        "label_ids": Feature((), label_dtype),
        "index": Feature((), "string"),
    }


def multi_label_features(num_labels: int, windows: bool = False) -> Features:
    """Returns the features of a row with any number of labels, stored without padding.

    Args:
      num_labels: of the task; `label_ids` is 1 for those that the row has, else 0.
      windows: as `classifier_features`.
    """
    labels = Feature((num_labels,))
    return {**classifier_features("int64", windows), "label_ids": labels}


def embedding_features(num_texts: int) -> Features:
    """Returns the features of texts that are near each other, stored without padding.

    Args:
      num_texts: texts of a row, 2 or 3.
    Returns:
      The texts are lists of tokens: the first, one that is near to it, and perhaps
      one that is not. `text_keys` has a number for each, equal for equal texts,
      `label_ids` is the score of the first two, from 0 to 1, and `index` the row's name
      in its file.
    """
    texts = Feature((None, None))
    return {
        "input_ids": texts,
        "segment_ids": texts,
        "text_keys": Feature((num_texts,)),
        "label_ids": Feature((), "float32"),
        "index": Feature((), "string"),
    }


def choice_features() -> Features:
    """Returns the features of a question with options, each a list of tokens.

    `label_ids` is the index of the right option, `level` the part of the data set that
    the question is in (-1: none), and `index` the question's name.
    """
    options = Feature((None, None))
    return {
        "input_ids": options,
        "segment_ids": options,
        "label_ids": Feature(()),
        "level": Feature(()),
        "index": Feature((), "string"),
    }


def tagging_features() -> Features:
    """Returns the features of a window of a sentence to tag, stored without padding.

    `tag_ids` is 0 for tokens that carry no tag: special ones, all tokens of a word but
    its first, and words that another window tags. The first token of a word has 1 + the
    index of its label, or for a tag that the model does not know, `unseen_tag_ids`.
    `sentence` is the number of the sentence in its file. Rows that are only predicted
    have 1 where a tag is to be.
    """
    tokens = Feature((None,))
    return {
        "input_ids": tokens,
        "segment_ids": tokens,
        "tag_ids": tokens,
        "sentence": Feature(()),
    }


def unseen_tag_ids(num_labels: int) -> tuple[int, int]:
    """Values of `tag_ids` for tags that training had none of: those that begin an
    entity, plain ones among them, and those that continue one."""
    return num_labels + 1, num_labels + 2
