"""RACE folders and JSON lines, and their rows: data_prep/race.py."""

import json
import shutil
from collections import Counter

import numpy as np
import pytest
from letters import TOKENIZER

from data_prep import race

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


def read_folder(folder, levels=race.LEVELS):
    return race.read_folder(folder, levels, Counter())


def write_lines(path, *changes):
    lines = [{**LINE, **change} for change in changes]
    lines = [{k: v for k, v in line.items() if v is not None} for line in lines]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def rows_of(questions, max_seq_length=50, max_qa_length=0, counts=None):
    counts = Counter() if counts is None else counts
    return list(
        race.make_rows(questions, TOKENIZER, max_seq_length, max_qa_length, counts)
    )


# Reading.


@pytest.mark.parametrize(
    ("part", "passages", "middle", "high"),
    [("train", 5, 10, 12), ("dev", 42, 150, 6), ("test", 17, 61, 8)],
)
def test_every_real_file_is_read_and_counted(shared_data, part, passages, middle, high):
    counts = Counter()
    folder = shared_data / "race" / part
    questions = race.read_folder(folder, race.LEVELS, counts)
    assert passages == len(list(folder.glob("*/*.txt"))) == counts[race.PASSAGES]
    assert counts[race.QUESTIONS] == len(questions) == middle + high
    assert [counts[f"{level} questions"] for level in race.LEVELS] == [middle, high]
    assert counts[race.NO_ANSWER] == 0
    assert {len(question.options) for question in questions} == {4}
    assert [q.level for q in questions] == ["middle"] * middle + ["high"] * high


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
        race.Question(
            "high7.txt/1", "a boy swam", "who swam", ("boy", "girl", "cow"), 0, "high"
        ),
        race.Question(
            "high7.txt/2", "a boy swam", "he _ home", ("went", "ran"), 1, "high"
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
    found = race.read_jsonl(path, counts)
    assert [q.question_id for q in found] == ["first", "own.jsonl:2", "12"]
    assert [q.label for q in found] == [1, race.NO_LABEL, 2]
    assert {q.level for q in found} == {""}
    assert found[2].options == ("x", "y", "")
    assert counts == {race.QUESTIONS: 3, race.NO_ANSWER: 1, race.EMPTY_OPTIONS: 1}


def test_passages_without_answers_can_be_read(tmp_path):
    write_passage(tmp_path, answers=None)
    questions = read_folder(tmp_path, ["high"])
    assert [q.label for q in questions] == [race.NO_LABEL] * 2


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
        race.read_jsonl(tmp_path / "own.jsonl", Counter())


def test_an_id_that_stands_twice_is_an_error(tmp_path):
    path = write_lines(tmp_path / "own.jsonl", {}, {"id": "other"}, {})
    with pytest.raises(ValueError, match=r"own\.jsonl: 2 questions have .*'first'"):
        race.read_jsonl(path, Counter())


@pytest.mark.parametrize("missing", ["article", "question", "options"])
def test_a_line_that_lacks_something_is_named(tmp_path, missing):
    path = write_lines(tmp_path / "own.jsonl", {}, {"id": "b", missing: None})
    with pytest.raises(ValueError, match=rf"own\.jsonl, line 2: lacks '{missing}'"):
        race.read_jsonl(path, Counter())


# Rows.


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
    assert race.join(question, option) == text


def test_rows_are_passage_then_question_with_option(tmp_path):
    write_passage(tmp_path)
    first, second = rows_of(read_folder(tmp_path, ["high"]))
    assert [len(row["input_ids"]) for row in (first, second)] == [3, 2]
    cls, sep = TOKENIZER.cls_id, TOKENIZER.sep_id
    expected = [["ABoySwam", f"{end}"] for end in ("HeWentHome", "HeRanHome")]
    for ids, segments, (start, end) in zip(
        second["input_ids"], second["segment_ids"], expected, strict=True
    ):
        split = len(start) + 1
        assert (ids[0], ids[split], ids[-1]) == (cls, sep, sep)
        assert TOKENIZER.decode(ids[1:split]) == start
        assert TOKENIZER.decode(ids[split + 1 : -1]) == end
        assert segments.tolist() == [0] * (split + 1) + [1] * (len(end) + 1)
    assert (first["label_ids"], second["label_ids"]) == ([0], [1])
    assert first["level"] == second["level"] == [1]
    assert second["question_id"] == b"high7.txt/2"


def test_the_passage_is_cut_first_and_the_option_stays():
    rng = np.random.default_rng(0)
    cut = Counter()
    for _ in range(200):
        passage, question, option = (
            "".join(map(chr, rng.integers(97, 123, rng.integers(1, most))))
            for most in (40, 20, 9)
        )
        limits = {"max_seq_length": 3 + rng.integers(1, 40), "max_qa_length": 23}
        asked = race.Question("q", passage, question, (option, ""), 0, "")
        [row] = rows_of([asked], **limits, counts=cut)
        for text, ids in zip((option, ""), row["input_ids"], strict=True):
            split = ids.tolist().index(TOKENIZER.sep_id)
            kept, end = (
                TOKENIZER.decode(part).lower()
                for part in (ids[1:split], ids[split + 1 : -1])
            )
            room = limits["max_seq_length"] - 3
            whole = question + text
            assert end == whole[-min(23, room) :]
            assert kept == passage[: room - len(end)]
    assert cut[race.CUT_PASSAGES] > cut[race.CUT_QUESTIONS] > 20


def test_a_passage_longer_than_anything_is_cut_to_the_row():
    asked = race.Question("q", "abc " * 5_000, "who", ("boy", "cow"), 1, "")
    [row] = rows_of([asked], max_seq_length=31)
    assert [len(ids) for ids in row["input_ids"]] == [31, 31]


def test_from_2_to_26_options_make_rows():
    for options in (2, 5, 26):
        names = tuple("abcdefghijklmnopqrstuvwxyz"[:options])
        asked = race.Question("q", "text", "who", names, options - 1, "")
        [row] = rows_of([asked])
        assert len(row["input_ids"]) == len(row["segment_ids"]) == options
        assert row["level"] == [-1]


@pytest.mark.parametrize("lengths", [(3, 0), (9, -1)])
def test_lengths_that_leave_no_room_are_errors(lengths):
    with pytest.raises(ValueError, match="max_seq_length must be at least 4"):
        rows_of([], *lengths)
