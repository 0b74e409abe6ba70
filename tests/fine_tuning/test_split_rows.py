"""One split of a task as rows, and what is read for it."""

import json

import pytest

from albert_tf.task_config import Classification, Squad
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.fine_tuning import race, split_rows, squad
from data_prep.fine_tuning.tables import Columns
from helpers.fine_tuning_toys import write_table, write_vocabulary
from helpers.questions import question, write_squad


@pytest.fixture
def conversion(tmp_path):
    tokenizer = AlbertTokenizer(vocab_file=write_vocabulary(tmp_path))
    return split_rows.Conversion(tokenizer, tmp_path / "cache")


def test_rows_of_a_table_have_a_length_of_their_task(tmp_path, conversion):
    file, columns = write_table(tmp_path / "a.tsv", 5, 1), Columns("text")
    task_config = Classification("toy", ["a", "b"], max_seq_length=9)
    rows = split_rows.of_table("new", file, columns, task_config, conversion)
    assert rows.metadata["kind"] == "toy-new" and rows.metadata["max_seq_length"] == 9
    assert rows.total_rows == 5
    assert "truncated" in split_rows.warnings_of("new", rows)[0]
    with pytest.raises(ValueError, match="task toy has no max_seq_length"):
        endless = Classification("toy", ["a", "b"])
        split_rows.of_table("new", file, columns, endless, conversion)


def test_questions_without_an_answer_to_learn_make_no_training_row(
    tmp_path, conversion
):
    questions = [question("a", "worda", [("x", 0)]), question("b", "", [("awful", 7)])]
    path = write_squad(tmp_path / "a.json", [("lovely awful", questions)])
    file = squad.read_squad(path)
    for name, count in (("train", 1), ("dev", 2)):
        rows, report = split_rows.of_squad(name, file, Squad(False), conversion)
        assert rows.total_rows == report.windows == count
        assert report.questions == 2 and report.lost_answers == ["a"]
        assert split_rows.warnings_of(name, rows) == []


def test_unknown_tokens_and_inexact_answers_of_squad_are_warned_of(
    tmp_path, conversion
):
    questions = [question("a", "worda", [("wful", 8)]), question("b", "x", [("q", 15)])]
    path = write_squad(tmp_path / "a.json", [("lovely awful q", questions)])
    file = squad.read_squad(path)
    rows, report = split_rows.of_squad("dev", file, Squad(False), conversion)
    assert report.inexact_answers == ["a"] and report.moved_answers == ["b"]
    unknown, inexact = split_rows.warnings_of("dev", rows)
    # "q" in the paragraph and "x", of five tokens.
    assert unknown == (
        "40.0% of the tokens of dev are unknown to the vocabulary: check the language "
        "and casing of the text."
    )
    assert inexact.startswith("50.0% of the questions of dev have an answer that does")


def test_question_files_are_read_once_and_counted(tmp_path, monkeypatch):
    line = {"article": "worda", "question": "wordb", "options": ["lovely", "awful"]}
    path = tmp_path / "test.jsonl"
    path.write_text(json.dumps(line) + "\n")
    reads = []
    plain = race.read_questions

    def counted(*arguments):
        reads.append(arguments)
        return plain(*arguments)

    monkeypatch.setattr(race, "read_questions", counted)
    source = split_rows.ChoiceFiles("test", path, "jsonl", race.LEVELS)
    assert source.notes == []
    assert not source.is_labelled() and len(source.questions()) == 1
    assert len(reads) == len(source.notes) == 1
    assert split_rows.ChoiceFiles("dev", path, "jsonl", race.LEVELS).is_labelled()
