"""Reading SQuAD files."""

import json

import pytest

from data_prep.fine_tuning import squad
from helpers.questions import question, write_squad

PARIS = ("Paris is in France.", [question("a", "Where?", [("France", 12)])])


def test_both_versions_of_real_files_are_read_and_told_apart(shared_data):
    english = squad.read_squad(shared_data / "squad" / "xquad.en.json")
    assert not english.has_impossible
    assert len(english.paragraphs) == 240
    assert len(list(english.questions())) == len(english.contexts()) == 1190
    assert all(len(golds) == 1 for golds in english.golds().values())

    half = squad.read_squad(shared_data / "squad" / "dev-v2.0-half.json")
    assert half.has_impossible
    questions = list(half.questions())
    assert len(questions) == 6078
    raw = json.loads((shared_data / "squad" / "dev-v2.0-half.json").read_text())
    impossible = [
        q["id"]
        for article in raw["data"]
        for paragraph in article["paragraphs"]
        for q in paragraph["qas"]
        if q["is_impossible"]
    ]
    assert [q.question_id for q in questions if q.is_impossible] == impossible
    assert [q for q, golds in half.golds().items() if not golds] == impossible


@pytest.mark.parametrize(
    ("more_of_file", "more_of_question", "has_impossible"),
    [
        ({}, {}, False),
        ({"version": "1.1"}, {}, False),
        ({"version": "v2.0"}, {}, True),
        ({"version": 2.0}, {}, True),
        ({}, {"is_impossible": False}, True),
    ],
)
def test_version_is_found_from_the_file(
    tmp_path, more_of_file, more_of_question, has_impossible
):
    questions = [question("a", answers=[("Paris", 0)], **more_of_question)]
    path = write_squad(tmp_path / "a.json", [("Paris.", questions)], **more_of_file)
    assert squad.read_squad(path).has_impossible == has_impossible


def test_a_file_without_answers_is_read_and_has_no_golds(tmp_path):
    unlabelled = question("b", "How?")
    del unlabelled["answers"]
    path = write_squad(tmp_path / "a.json", [PARIS, ("Tea.", [unlabelled])])
    read = squad.read_squad(path)
    assert read.golds() is None
    assert read.contexts() == {"a": "Paris is in France.", "b": "Tea."}
    assert [q.is_labelled for q in read.questions()] == [True, False]
    with pytest.raises(ValueError, match=r"a\.json, question 'b'.*is_impossible"):
        read.check_labelled()
    squad.read_squad(write_squad(tmp_path / "b.json", [PARIS])).check_labelled()


def test_a_v2_file_under_v1_settings_names_the_first_impossible_question(tmp_path):
    questions = [*PARIS[1], question("b", is_impossible=True)]
    read = squad.read_squad(write_squad(tmp_path / "a.json", [(PARIS[0], questions)]))
    with pytest.raises(ValueError, match=r"a\.json, question 'b'.*v2\.0"):
        read.check_all_answerable()
    squad.read_squad(write_squad(tmp_path / "b.json", [PARIS])).check_all_answerable()


def test_half_of_a_surrogate_pair_is_replaced_in_place(tmp_path):
    text = "a \ud800 b"
    questions = [question("a", text, [("b", 4)])]
    path = write_squad(tmp_path / "a.json", [(text, questions)])
    [read] = squad.read_squad(path).paragraphs
    assert read.text == read.questions[0].text == "a \ufffd b"


def broken(**changes):
    value = question("x", answers=[("Paris", 0)])
    for key, change in changes.items():
        if change is None:
            del value[key]
        else:
            value[key] = change
    return [("Paris.", [value])]


@pytest.mark.parametrize(
    ("paragraphs", "message"),
    [
        (broken(id=None), "article 0, paragraph 0: 'id' must be a string"),
        (broken(id=7), "'id' must be a string. Received 7: "),
        (broken(id="x\0"), "'id' must have no NUL. Received 'x\\x00'"),
        (broken(question=None), "question 'x': 'question' must be a string"),
        (broken(answers="Paris"), "question 'x': 'answers' must be a list"),
        (broken(answers=[{"text": "Paris"}]), "'answer_start' must be a whole number"),
        (
            broken(answers=[{"text": "Paris", "answer_start": True}]),
            "'answer_start' must be a whole number. Received True",
        ),
        (broken(question=["Who?"]), "question 'x': 'question' must be a string"),
        (broken(answers=["Paris"]), "question 'x': 'text' must be a string"),
        (broken(is_impossible="no"), "must be true or false. Received 'no'"),
        (broken(is_impossible=True), "question 'x': is_impossible, but it has answers"),
        ([(7, [])], "article 0, paragraph 0: 'context' must be a string"),
        ([PARIS, PARIS], "question 'a': the id comes twice"),
        ([("Paris.", [])], "has no question"),
    ],
)
def test_a_bad_file_is_one_line_that_names_place_and_reason(
    tmp_path, paragraphs, message
):
    path = write_squad(tmp_path / "bad.json", paragraphs)
    with pytest.raises(ValueError) as error:
        squad.read_squad(path)
    assert message in str(error.value)
    assert "bad.json" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"data": 3}', "[" * 100_000])
def test_what_is_no_squad_file_is_refused(tmp_path, content):
    path = tmp_path / "bad.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"bad\.json"):
        squad.read_squad(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no SQuAD file .*none\.json"):
        squad.read_squad(tmp_path / "none.json")
