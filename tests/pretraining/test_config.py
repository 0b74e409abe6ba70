"""Configurations refuse impossible values; generators are independent of each other."""

import json

import numpy as np
import pytest

from albert_tf.records.masking_config import MaskingConfig
from data_prep.pretraining.config import ASSIGNMENT, ROWS, PretrainingDataConfig


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_seq_length": 4}, "max_seq_length must be from 5 .* Received 4"),
        ({"max_seq_length": 2**63}, "to 1,000,000. Received 9223372036854775808"),
        ({"short_seq_prob": 10}, "short_seq_prob .* Received 10"),
        ({"dupe_factor": 0}, "dupe_factor must be from 1 to 1,000,000. Received 0"),
        ({"dupe_factor": 2**63}, "Received 9223372036854775808"),
        ({"random_seed": -1}, "random_seed .* Received -1"),
        ({"pair_objective": "spo"}, "pair_objective must be one of .*'spo'"),
        ({"max_documents_per_row": 4}, "Received 4: pass --pack_documents too"),
        (
            {"pack_documents": True, "max_documents_per_row": 103},
            "max_documents_per_row must be from 2 to 102, .* Received 103",
        ),
        ({"pack_documents": True, "max_documents_per_row": 1}, "2 to 102.* 1"),
        ({"pack_documents": True, "max_seq_length": 9}, "2 to 1, .* of 9 tokens"),
    ],
)
def test_impossible_settings_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        PretrainingDataConfig(**change)


def test_all_values_are_json_under_the_names_of_their_flags():
    config = PretrainingDataConfig(masking=MaskingConfig(ngram=5))
    values = json.loads(json.dumps(config.to_dict()))
    assert values["ngram"] == 5 and values["dupe_factor"] == 40
    assert "masking" not in values and len(values) == 10


def test_only_packed_rows_tell_the_number_of_their_documents():
    config = PretrainingDataConfig(pack_documents=True)
    assert config.to_dict()["max_documents_per_row"] == 512 // 16
    assert config.features["next_sentence_labels"].shape == (512 // 16,)
    plain = PretrainingDataConfig()
    assert config.features.keys() > plain.features.keys()
    assert config.to_dict().keys() - plain.to_dict() == {"max_documents_per_row"}
    given = PretrainingDataConfig(pack_documents=True, max_documents_per_row=7)
    assert given.documents_per_row == 7 and plain.documents_per_row == 1


def test_the_longest_text_leaves_room_for_special_tokens():
    config = PretrainingDataConfig(max_seq_length=67)
    assert config.max_text_tokens == 64
    assert config.features["input_ids"].shape == (67,)


def test_generators_of_another_purpose_or_key_draw_other_numbers():
    config = PretrainingDataConfig()
    keys = [(ROWS, 0, 0), (ROWS, 0, 1), (ROWS, 1, 0), (ASSIGNMENT,)]
    draws = [config.rng(*key).integers(1 << 60, size=4).tolist() for key in keys]
    assert len({tuple(draw) for draw in draws}) == 4
    again = config.rng(ROWS, 0, 1).integers(1 << 60, size=4)
    assert np.array_equal(again, draws[1])
