"""Features have the names and types of the released records."""

from albert_tf.records.features import pretraining_features
from helpers import tiny

FEATURES = pretraining_features(tiny.MAX_SEQ_LENGTH, tiny.MAX_PREDICTIONS)


def test_pretraining_rows_bear_the_released_names_and_types():
    assert {name: (f.size, f.dtype) for name, f in FEATURES.items()} == {
        "input_ids": (10, "int64"),
        "input_mask": (10, "int64"),
        "segment_ids": (10, "int64"),
        "token_boundary": (10, "int64"),
        "masked_lm_positions": (3, "int64"),
        "masked_lm_ids": (3, "int64"),
        "masked_lm_weights": (3, "float32"),
        "next_sentence_labels": (1, "int64"),
    }
