"""Every way in which a row can break the record contract is found."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from albert_tf.files import write_json
from albert_tf.records.encoding import split_frames
from albert_tf.records.features import pretraining_features
from albert_tf.records.sidecar import read_metadata, sidecar_path
from albert_tf.records.writer import write_records
from data_prep.corpus.statistics import Statistics
from data_prep.pretraining import inspection
from data_prep.pretraining.rows import make_rows
from helpers.letters import CONFIG, TOKENIZER, make_documents, tokenize

FEATURES = pretraining_features(67, 11)
# Long documents, so that a row has a middle, predictions and, in some rows, padding.
TEXT = tokenize(make_documents(90, np.random.default_rng(4), sentences=(6, 9)))


def rows():
    made = make_rows(TEXT, TOKENIZER, CONFIG, np.random.default_rng(5), Statistics())
    predicted = made["masked_lm_weights"].sum(axis=1)
    lengths = made["input_mask"].sum(axis=1)
    usable = (predicted > 2) & (predicted < 11) & (lengths < 60) & (lengths > 20)
    return {name: values[usable] for name, values in made.items()}


def write(columns, folder, features=FEATURES, **metadata):
    path = folder / "rows"
    metadata |= {**TOKENIZER.metadata(), "pair_objective": "sop"}
    count = len(columns["input_ids"])
    listed = [{name: v[row] for name, v in columns.items()} for row in range(count)]
    write_records(path, listed, features, metadata)
    return str(path)


def test_rows_as_they_are_made_keep_the_contract(tmp_path):
    made = make_rows(TEXT, TOKENIZER, CONFIG, np.random.default_rng(5), Statistics())
    path = write(made, tmp_path)
    assert len(made["input_ids"]) > 150
    assert list(inspection.find_problems(path)) == []
    assert list(inspection.find_problems(path, TOKENIZER)) == []


def last(row):
    return int(row["input_mask"].sum()) - 1


def set_value(name, place, value):
    def change(row):
        row[name][place(row) if callable(place) else place] = value

    return change


def swap_positions(row):
    row["masked_lm_positions"][:2] = row["masked_lm_positions"][[1, 0]]


def mask_the_middle(row):
    row["masked_lm_positions"][0] = (
        row["input_mask"].sum() - row["segment_ids"].sum() - 1
    )
    row["masked_lm_positions"][:2].sort()
    row["masked_lm_weights"][2:] = row["masked_lm_positions"][2:] = 0
    row["masked_lm_ids"][2:] = 0
    row["masked_lm_positions"][1] = max(row["masked_lm_positions"][:2]) + 1
    row["masked_lm_positions"][0] = row["masked_lm_positions"][1] - 1


FAULTS = {
    "input_ids outside": set_value("input_ids", 1, 57),
    "input_ids outside the": set_value("input_ids", 1, -1),
    "input_mask is not": set_value("input_mask", 3, 0),
    "segment_ids are not": set_value("segment_ids", 1, 1),
    "segment_ids are": set_value("segment_ids", 66, 1),
    "[CLS] or a [SEP]": set_value("input_ids", 0, 9),
    "[CLS] or a": set_value("input_ids", last, 9),
    "padding is not": set_value("input_ids", 66, 9),
    "token_boundary": set_value("token_boundary", 66, 1),
    "token_boundary is": set_value("token_boundary", 1, 2),
    "no token": set_value("masked_lm_weights", slice(None), 0),
    "masked_lm_weights are not": set_value("masked_lm_weights", 0, 0),
    "masked_lm_positions do not rise": swap_positions,
    "a masked position is not": set_value("masked_lm_positions", 0, 0),
    "a masked position is": mask_the_middle,
    "masked_lm_ids outside": set_value("masked_lm_ids", 0, 57),
    "values behind": set_value("masked_lm_ids", 10, 9),
    "values behind the": set_value("masked_lm_positions", 10, 9),
    "the label": set_value("next_sentence_labels", 0, 2),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_found_in_its_row(fault, tmp_path):
    columns = {name: values.copy() for name, values in rows().items()}
    assert len(columns["input_ids"]) > 5
    FAULTS[fault]({name: values[4] for name, values in columns.items()})
    (problem,) = inspection.find_problems(write(columns, tmp_path), TOKENIZER)
    assert problem.row == 4 and problem.text.startswith(fault)


PACKED = dataclasses.replace(CONFIG, pack_documents=True, max_documents_per_row=5)
SHORT = tokenize(make_documents(300, np.random.default_rng(6), sentences=(2, 3)))


def packed_rows():
    made = make_rows(SHORT, TOKENIZER, PACKED, np.random.default_rng(5), Statistics())
    documents = made["next_sentence_weights"].sum(axis=1)
    padding = 67 - made["input_mask"].sum(axis=1)
    usable = (documents > 2) & (documents < 5) & (padding > 1)
    return {name: values[usable] for name, values in made.items()}


def write_packed(columns, folder):
    return write(columns, folder, PACKED.features, max_documents_per_row=5)


def second(row):
    """The place of the second document."""
    return row["next_sentence_positions"][1]


def mask_the_second_cls(row):
    row["masked_lm_positions"][0] = second(row)
    row["masked_lm_positions"][1:] = row["masked_lm_ids"][1:] = 0
    row["masked_lm_weights"][1:] = 0


PACKED_FAULTS = {
    "document_ids are not": set_value("document_ids", second, 3),
    "document_ids": set_value("document_ids", 0, 0),
    "input_mask is not 1 where": set_value("input_mask", second, 0),
    "next_sentence_weights are": set_value("next_sentence_weights", 4, 1),
    "next_sentence_weights": set_value("next_sentence_weights", 1, 0),
    "next_sentence_positions are": set_value("next_sentence_positions", 1, 1),
    "next_sentence_positions": set_value("next_sentence_positions", 4, 1),
    "next_sentence_labels behind": set_value("next_sentence_labels", 4, 1),
    "segment_ids are not": set_value("segment_ids", second, 1),
    "[CLS] or a [SEP]": set_value("input_ids", second, 9),
    "[CLS] or": set_value("input_ids", lambda row: second(row) - 1, 9),
    "a masked position is not": mask_the_second_cls,
    "the label": set_value("next_sentence_labels", 1, 2),
}


def test_packed_rows_as_they_are_made_keep_the_contract(tmp_path):
    made = make_rows(SHORT, TOKENIZER, PACKED, np.random.default_rng(5), Statistics())
    path = write_packed(made, tmp_path)
    assert list(inspection.find_problems(path, TOKENIZER)) == []
    assert list(inspection.find_problems(path)) == []


@pytest.mark.parametrize("fault", PACKED_FAULTS)
def test_each_fault_of_a_packed_row_is_found(fault, tmp_path):
    columns = packed_rows()
    assert len(columns["input_ids"]) > 5
    PACKED_FAULTS[fault]({name: values[4] for name, values in columns.items()})
    (problem,) = inspection.find_problems(write_packed(columns, tmp_path), TOKENIZER)
    assert problem.row == 4 and problem.text.startswith(fault)


def test_damage_and_loss_are_found(tmp_path):
    path = write(rows(), tmp_path)
    content = bytearray(Path(path).read_bytes())
    frames = split_frames(bytes(content))
    place = len(frames[0]) + len(frames[1]) // 2
    content[place] ^= 16
    Path(path).write_bytes(content)
    (problem,) = inspection.find_problems(path)
    assert "row 1 is damaged" in problem.text
    metadata = read_metadata(path)
    sidecar = {**metadata, "features": {}, "bytes": sum(map(len, frames[:2]))}
    # Without an index, as earlier releases wrote them.
    sidecar["format_version"] = 1
    sidecar["rows"] = 3
    sidecar["features"] = {n: vars(f) for n, f in metadata["features"].items()}
    content[place] ^= 16
    Path(path).write_bytes(content[: sidecar["bytes"]])
    write_json(sidecar_path(path), sidecar)
    (problem,) = inspection.find_problems(path)
    assert problem.row == 2 and "3 rows were" in problem.text


def test_another_vocabulary_is_refused(tmp_path):
    path = write(rows(), tmp_path)

    class Other(type(TOKENIZER)):
        def metadata(self):
            return {"vocabulary_sha256": "other", "vocab_size": 57}

    with pytest.raises(ValueError, match="vocabulary_sha256=letters"):
        list(inspection.find_problems(path, Other()))


def test_a_row_is_shown_as_text():
    row = {
        "input_ids": np.array([2, 31, 4, 3, 32, 7, 3, 0, 0]),
        "input_mask": np.array([1, 1, 1, 1, 1, 1, 1, 0, 0]),
        "segment_ids": np.array([0, 0, 0, 0, 1, 1, 1, 0, 0]),
        "masked_lm_positions": np.array([2, 5, 0]),
        "masked_lm_ids": np.array([6, 7, 0]),
        "masked_lm_weights": np.array([1.0, 1.0, 0.0]),
        "next_sentence_labels": np.array([1]),
    }
    assert inspection.describe_row(row, {"pair_objective": "sop"}) == (
        "7 tokens, 2 to predict, label 1 (swapped)\n  A: 2 31 {6>4} 3\n  B: 32 {7>7} 3"
    )
    assert "(random)" in inspection.describe_row(row, {"pair_objective": "nsp"})


def test_each_document_of_a_packed_row_is_shown():
    row = {
        "input_ids": np.array([2, 31, 4, 3, 32, 3, 2, 7, 3, 9, 8, 3, 0]),
        "input_mask": np.array([1] * 12 + [0]),
        "segment_ids": np.array([0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 1, 0]),
        "document_ids": np.array([1] * 6 + [2] * 6 + [0]),
        "masked_lm_positions": np.array([2, 10, 0]),
        "masked_lm_ids": np.array([6, 5, 0]),
        "masked_lm_weights": np.array([1.0, 1.0, 0.0]),
        "next_sentence_labels": np.array([1, 0, 0]),
    }
    assert inspection.describe_row(row, {"pair_objective": "sop"}).split("\n") == [
        "12 tokens, 2 to predict",
        "label 1 (swapped)",
        "  A: 2 31 {6>4} 3",
        "  B: 32 3",
        "label 0 (in order)",
        "  A: 2 7 3",
        "  B: 9 {5>8} 3",
    ]
