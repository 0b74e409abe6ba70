"""Questions of RACE folders and of JSON lines."""

import json
import shutil
from collections import Counter

import pytest

from data_prep.fine_tuning import multiple_choice, race

PASSAGE = {
    "id": "high7.txt",
    "article": "a boy swam",
    "questions": ["who swam", "he _ home"],
    "options": [["boy", "girl", "cow"], ["went", "ran"]],
    "answers": ["A", "B"],
}
LINE = {
    "id": "first",
    "article": "a boy swam",
    "question": "who swam",
    "options": ["boy", "girl"],
    "answer": "B",
}


def write_passage(folder, name="7.txt", level="high", **changes):
    path = folder / level / name
    path.parent.mkdir(parents=True, exist_ok=True)
    passage = {**PASSAGE, **changes}
    passage = {key: value for key, value in passage.items() if value is not None}
    path.write_text(json.dumps(passage), encoding="utf-8")
    return path


def read_folder(folder, levels=race.LEVELS, counts=None):
    files = race.find_files(folder, "race", levels)
    return race.read_questions(files, "race", Counter() if counts is None else counts)


def read_jsonl(path, counts=None):
    files = race.find_files(path, "jsonl")
    return race.read_questions(files, "jsonl", Counter() if counts is None else counts)


def write_lines(path, *changes):
    lines = [{**LINE, **change} for change in changes]
    lines = [{k: v for k, v in line.items() if v is not None} for line in lines]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize(
    ("part", "passages", "middle", "high"),
    [("train", 5, 10, 12), ("dev", 42, 150, 6), ("test", 17, 61, 8)],
)
def test_every_real_file_is_read_and_counted(shared_data, part, passages, middle, high):
    counts = Counter()
    folder = shared_data / "race" / part
    questions = read_folder(folder, counts=counts)
    assert passages == len(list(folder.glob("*/*.txt"))) == counts["passages"]
    assert counts["questions"] == len(questions) == middle + high
    assert [counts[f"{level}_questions"] for level in race.LEVELS] == [middle, high]
    assert counts["unanswered_questions"] == counts["empty_options"] == 0
    assert {len(question.options) for question in questions} == {4}
    assert [q.level for q in questions] == [0] * middle + [1] * high


def test_one_file_of_all_passages_equals_a_file_a_passage(shared_data, tmp_path):
    folder = shared_data / "race" / "dev"
    for level in race.LEVELS:
        # As `cat` does it: the published files end without a line break.
        paths = sorted(
            (folder / level).glob("*.txt"), key=lambda p: (len(p.name), p.name)
        )
        (tmp_path / level).mkdir()
        content = "".join(path.read_text(encoding="utf-8") for path in paths)
        (tmp_path / level / "all.txt").write_text(content, encoding="utf-8")
        # Beside them the files it was made of, which must not count twice.
        shutil.copy(paths[0], tmp_path / level)
    assert read_folder(tmp_path) == read_folder(folder)


def test_levels_are_chosen(tmp_path):
    write_passage(tmp_path, level="middle", id="middle7.txt")
    write_passage(tmp_path, level="high")
    for level in race.LEVELS:
        ids = [q.question_id for q in read_folder(tmp_path, [level])]
        assert ids == [f"{level}7.txt/1", f"{level}7.txt/2"]


def test_questions_are_what_the_file_says(tmp_path):
    write_passage(tmp_path, level="high")
    assert read_folder(tmp_path, ["high"]) == [
        multiple_choice.ChoiceQuestion(
            "high7.txt/1", "a boy swam", "who swam", ("boy", "girl", "cow"), 0, 1
        ),
        multiple_choice.ChoiceQuestion(
            "high7.txt/2", "a boy swam", "he _ home", ("went", "ran"), 1, 1
        ),
    ]


def test_lines_are_questions(tmp_path):
    path = write_lines(
        tmp_path / "own.jsonl",
        {},
        {"id": None, "answer": None},
        {"id": 12, "answer": "C", "options": ["x", "y", ""]},
    )
    counts = Counter()
    found = read_jsonl(path, counts)
    assert [q.question_id for q in found] == ["first", "2", "12"]
    assert [q.label for q in found] == [1, multiple_choice.NO_LABEL, 2]
    assert {q.level for q in found} == {-1}
    assert found[2].options == ("x", "y", "")
    assert (counts["questions"], counts["unanswered_questions"]) == (3, 1)
    assert counts["empty_options"] == 1


def test_passages_without_answers_can_be_read(tmp_path):
    write_passage(tmp_path, answers=None)
    questions = read_folder(tmp_path, ["high"])
    assert [q.label for q in questions] == [multiple_choice.NO_LABEL] * 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"answers": ["A", "C"]}, r"7\.txt, line 1, question 2.*from A to B.*'C'"),
        ({"answers": ["D", "A"]}, r"7\.txt, line 1, question 1.*from A to C.*'D'"),
        ({"answers": ["A", 1]}, r"question 2.*a letter.*1\.$"),
        ({"answers": ["A"]}, "2 questions, 2 lists of options and 1 answers"),
        ({"questions": ["who", 5]}, "question 2: 'question' must be text.*5"),
        ({"questions": "who"}, "'questions' must be a list"),
        ({"questions": [], "options": [], "answers": []}, "holds no questions"),
        ({"article": ["a"]}, "'article' must be text"),
        ({"article": None}, "lacks 'article'"),
        ({"id": "a\tb"}, r"'id' must have no tab.*'a\\tb'"),
        ({"id": "a\0"}, "'id' must have no tab, line end or NUL"),
        ({"article": "\ud800"}, "half of a surrogate pair"),
        ({"options": [["a", "b", "c"], ["a"]]}, "question 2.*2 to 26.*Received 1"),
        ({"options": [["a"] * 27, ["a", "b"]]}, "question 1.*2 to 26.*Received 27"),
        ({"options": [["a", "b"], ["a", None]]}, "question 2: 'option' must be text"),
        ({"options": [["a", "b"], "ab"]}, "question 2: options must be a list"),
    ],
)
def test_wrong_passages_are_named_by_file_and_question(tmp_path, changes, message):
    write_passage(tmp_path, **changes)
    with pytest.raises(ValueError, match=message) as caught:
        read_folder(tmp_path, ["high"])
    assert str(tmp_path) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", r"8\.txt, line 1: not JSON"),
        (b'{"id":\n "x",\n}', r"8\.txt, line 3: not JSON"),
        (b"[1]", r"8\.txt, line 1: not a JSON object"),
        (b"", r"8\.txt is empty"),
        (b'{"id": "\n\xff"}', r"8\.txt, line 2: not UTF-8"),
        (b"[" * 100_000, r"8\.txt.*nested too deeply"),
    ],
)
def test_files_that_are_not_json_are_named(tmp_path, content, message):
    write_passage(tmp_path)
    (tmp_path / "high" / "8.txt").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_folder(tmp_path, ["high"])


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="middle has no passages"):
        read_folder(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"There is no file .*own\.jsonl"):
        read_jsonl(tmp_path / "own.jsonl")


def test_an_id_that_stands_twice_is_an_error(tmp_path):
    path = write_lines(tmp_path / "own.jsonl", {}, {"id": "other"}, {})
    with pytest.raises(ValueError, match=r"own\.jsonl: 2 questions have .*'first'"):
        read_jsonl(path)


@pytest.mark.parametrize("own_id", [["a"], {"n": 1}, True])
def test_an_id_of_a_line_is_text_or_a_number(tmp_path, own_id):
    path = write_lines(tmp_path / "a.jsonl", {"id": own_id})
    with pytest.raises(ValueError, match="line 1: 'id' must be text or a number"):
        read_jsonl(path)
    path = write_lines(tmp_path / "b.jsonl", {"id": 7})
    assert [question.question_id for question in read_jsonl(path)] == ["7"]


def test_lines_of_white_space_are_skipped(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", {"id": "a"}, {"id": "b"})
    path.write_text(path.read_text().replace("\n", "\n   \n\u00a0\n"), "utf-8")
    assert [question.question_id for question in read_jsonl(path)] == ["a", "b"]


@pytest.mark.parametrize("missing", ["article", "question", "options"])
def test_a_line_that_lacks_something_is_named(tmp_path, missing):
    path = write_lines(tmp_path / "own.jsonl", {}, {"id": "b", missing: None})
    with pytest.raises(ValueError, match=rf"own\.jsonl, line 2: lacks '{missing}'"):
        read_jsonl(path)


def test_a_single_file_of_passages_can_be_read_too(tmp_path):
    path = write_passage(tmp_path)
    assert [q.level for q in read_folder(path)] == [-1, -1]
