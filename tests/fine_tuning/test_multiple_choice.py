"""Rows of questions with options."""

import numpy as np
import pytest

from albert_tf.records.features import choice_features
from albert_tf.records.reader import read_rows
from albert_tf.records.writer import write_records
from data_prep.fine_tuning import multiple_choice
from helpers.letters import TOKENIZER


def rows_of(questions, max_seq_length=50, max_qa_length=0, statistics=None):
    statistics = {} if statistics is None else statistics
    return list(
        multiple_choice.choice_rows(
            questions, TOKENIZER, max_seq_length, max_qa_length, statistics
        )
    )


@pytest.mark.parametrize(
    ("question", "option", "text"),
    [
        ("Who swam?", "A boy", "Who swam? A boy"),
        ("What rose ____ ?", "up", "What rose up ?"),
        ("_ is far.", r"\1 \g<0>", r"\1 \g<0> is far."),
        ("Tom likes _ and Jill __ .", "tea", "Tom likes tea and Jill tea ."),
        ("Add  _  salt", "", "Add    salt"),
    ],
)
def test_a_run_of_underscores_is_one_blank(question, option, text):
    asked = multiple_choice.ChoiceQuestion("q", "", question, (option, "x"), 0, -1)
    assert asked.texts()[0] == text


def test_rows_are_passage_then_question_with_option():
    article = "a boy swam"
    questions = [
        multiple_choice.ChoiceQuestion(
            "q1", article, "who swam", ("boy", "girl", "cow"), 0, 1
        ),
        multiple_choice.ChoiceQuestion(
            "q2", article, "he _ home", ("went", "ran"), 1, 1
        ),
    ]
    first, second = rows_of(questions)
    assert [len(row["input_ids"]) for row in (first, second)] == [3, 2]
    cls, sep = TOKENIZER.cls_id, TOKENIZER.sep_id
    for ids, segments, end in zip(
        second["input_ids"],
        second["segment_ids"],
        ("HeWentHome", "HeRanHome"),
        strict=True,
    ):
        split = len("ABoySwam") + 1
        assert (ids[0], ids[split], ids[-1]) == (cls, sep, sep)
        assert TOKENIZER.decode(ids[1:split]) == "ABoySwam"
        assert TOKENIZER.decode(ids[split + 1 : -1]) == end
        assert segments == [0] * (split + 1) + [1] * (len(end) + 1)
    assert (first["label_ids"], second["label_ids"]) == (0, 1)
    assert first["level"] == second["level"] == 1
    assert second["index"] == b"q2"


def test_the_passage_is_cut_first_and_the_option_stays():
    rng = np.random.default_rng(0)
    lost = {"truncated_rows": 0, "truncated_questions": 0}
    for _ in range(200):
        passage, question, option = (
            "".join(map(chr, rng.integers(97, 123, rng.integers(1, most))))
            for most in (40, 20, 9)
        )
        limits = {"max_seq_length": 3 + rng.integers(1, 40), "max_qa_length": 23}
        asked = multiple_choice.ChoiceQuestion(
            "q", passage, question, (option, ""), 0, -1
        )
        statistics = {}
        [row] = rows_of([asked], **limits, statistics=statistics)
        for name in lost:
            lost[name] += statistics[name]
        for text, ids in zip((option, ""), row["input_ids"], strict=True):
            split = ids.index(TOKENIZER.sep_id)
            kept, end = (
                TOKENIZER.decode(part).lower()
                for part in (ids[1:split], ids[split + 1 : -1])
            )
            room = limits["max_seq_length"] - 3
            whole = question + text
            assert end == whole[-min(23, room) :]
            assert kept == passage[: room - len(end)]
    assert lost["truncated_rows"] > lost["truncated_questions"] > 20


def test_a_passage_longer_than_anything_is_cut_to_the_row():
    asked = multiple_choice.ChoiceQuestion(
        "q", "abc " * 5_000, "who", ("boy", "cow"), 1, -1
    )
    [row] = rows_of([asked], max_seq_length=31)
    assert [len(ids) for ids in row["input_ids"]] == [31, 31]


def test_from_2_to_26_options_make_rows():
    for options in (2, 5, 26):
        names = tuple("abcdefghijklmnopqrstuvwxyz"[:options])
        asked = multiple_choice.ChoiceQuestion(
            "q", "text", "who", names, options - 1, -1
        )
        [row] = rows_of([asked])
        assert len(row["input_ids"]) == len(row["segment_ids"]) == options
        assert row["level"] == -1


@pytest.mark.parametrize("lengths", [(3, 0), (9, -1)])
def test_lengths_that_leave_no_room_are_errors(lengths):
    with pytest.raises(ValueError, match="max_seq_length must be at least 4"):
        rows_of([], *lengths)


def test_rows_count_their_pieces(tmp_path):
    asked = [multiple_choice.ChoiceQuestion("q", "abc é", "who", ("boy", "cow"), 1, -1)]
    statistics = {}
    rows_of(asked, statistics=statistics)
    assert statistics == {
        "rows": 1,
        "pieces": 4 + 2 * 6,
        "unknown_pieces": 1,
        "truncated_rows": 0,
        "truncated_questions": 0,
    }


def test_rows_survive_the_disk_with_their_own_numbers_of_options(tmp_path):
    questions = [
        multiple_choice.ChoiceQuestion(
            "ä/1", "abc", "who", ("boy", "girl", "cow"), 2, 0
        ),
        multiple_choice.ChoiceQuestion("ä/2", "abc", "who _ so", ("is", ""), 0, 1),
    ]
    rows, path = rows_of(questions), tmp_path / "rows.tfrecord"
    features = choice_features()
    write_records(path, rows, features, {"max_seq_length": 50})
    for row, read in zip(rows, read_rows(path), strict=True):
        for name in ("input_ids", "segment_ids"):
            assert [list(option) for option in read[name]] == row[name]
        assert (read["label_ids"], read["level"]) == (row["label_ids"], row["level"])
        assert bytes(read["index"]) == row["index"]


def test_a_set_that_needs_answers_names_the_question_without_one():
    questions = [
        multiple_choice.ChoiceQuestion("first", "a", "b", ("c", "d"), 0, -1),
        multiple_choice.ChoiceQuestion(
            "second", "a", "b", ("c", "d"), multiple_choice.NO_LABEL, -1
        ),
    ]
    multiple_choice.check_answers(questions[:1], "dev.jsonl")
    with pytest.raises(ValueError, match=r"dev\.jsonl: question 'second' has no"):
        multiple_choice.check_answers(questions, "dev.jsonl")
    assert [row["label_ids"] for row in rows_of(questions)] == [0, 0]
