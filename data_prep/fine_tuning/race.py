"""Reads multiple-choice questions: folders of RACE, and JSON lines of one's own.

    DATA_DIR/train|dev|test/middle|high/*.txt     as published: a JSON object a passage
    DATA_DIR/train|dev|test/middle|high/all.txt   the same objects in one file
    FILE.jsonl                                    a question a line, or one of COPA

`multiple_choice.py` makes rows of the questions.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from albert_tf.storage import AnyPath, PathLike, as_path
from data_prep.fine_tuning import copa, json_objects
from data_prep.fine_tuning.multiple_choice import (
    MAX_OPTIONS,
    MIN_OPTIONS,
    NO_LABEL,
    ChoiceQuestion,
    letter,
)

COPA = "copa"
INPUT_FORMATS = ("race", "jsonl", COPA)

# The parts of RACE: exams for pupils of 12 to 15 and of 15 to 18 years.
LEVELS = ("middle", "high")


class RaceFile(NamedTuple):
    """A file to read, and the level of its questions; "" if they have none."""

    path: AnyPath
    level: str


def find_files(
    path: PathLike, input_format: str, levels: Sequence[str] = LEVELS
) -> list[RaceFile]:
    """Returns the files of one split.

    Args:
      path: a file, or for the format race the folder that holds `middle` and `high`.
      input_format: one of `INPUT_FORMATS`.
      levels: of `LEVELS`, the parts of a folder to read.
    Raises:
      FileNotFoundError: the file, a level's folder or its files are missing.
    """
    path = as_path(path)
    if input_format == "race" and path.is_dir():
        return [
            RaceFile(file, level)
            for level in levels
            for file in _passage_files(path / level)
        ]
    if not path.is_file():
        way_out = "check its path."
        if input_format == "race":
            way_out = "--data_dir must hold RACE's folders train, dev and test."
        raise FileNotFoundError(f"There is no file {path}: {way_out}")
    return [RaceFile(path, "")]


def _passage_files(folder: AnyPath) -> list[AnyPath]:
    """Returns `all.txt` if there is one, which holds all passages; else all files."""
    if (folder / "all.txt").is_file():
        return [folder / "all.txt"]
    # 2.txt before 10.txt.
    found: Iterable[AnyPath] = folder.glob("*.txt") if folder.is_dir() else ()
    paths = sorted(found, key=lambda path: (len(path.name), path.name))
    if not paths:
        raise FileNotFoundError(
            f"{folder} has no passages (*.txt): --data_dir must hold RACE's folders "
            "train, dev and test, with middle and high in each."
        )
    return paths


def read_questions(
    files: Sequence[RaceFile], input_format: str, counts: Counter
) -> list[ChoiceQuestion]:
    """Returns all questions of a split, in the order of its files.

    A JSON line has an `article`, a `question`, `options` (2 to 26 texts) and, unless it
    is only predicted, an `answer`, a letter: "A" is the first option. Its `id` is
    optional; by default it is the line's number.

    Args:
      files: from `find_files`.
      input_format: one of `INPUT_FORMATS`.
      counts: receives the numbers of `passages`, `questions`, questions of each level
        and without an answer, and `empty_options`.
    Raises:
      ValueError: a file is not of that format (its line and question are named), two
        questions have one id, or there are none.
    """
    read = _READERS[input_format]
    questions: list[ChoiceQuestion] = []
    for path, level in files:
        for line, value in json_objects.objects(path):
            added = read(value, f"{path}, line {line}", line, level)
            questions += added
            counts["passages"] += 1
            if level:
                counts[f"{level}_questions"] += len(added)
    origin = _common_folder([file.path for file in files])
    if not questions:
        raise ValueError(f"{origin} holds no questions: give files that do.")
    _check_ids(questions, origin)
    counts["questions"] += len(questions)
    counts["unanswered_questions"] += sum(q.label == NO_LABEL for q in questions)
    counts["empty_options"] += sum(
        not option.strip() for question in questions for option in question.options
    )
    return questions


def _common_folder(paths: Sequence[AnyPath]) -> AnyPath:
    """Returns the folder of all files; of one file itself."""
    first = paths[0]
    return next(
        place
        for place in (first, *first.parents)
        if all(place == path or place in path.parents for path in paths)
    )


def _check_ids(questions: Sequence[ChoiceQuestion], origin: AnyPath) -> None:
    uses = Counter(question.question_id for question in questions)
    question_id, most = uses.most_common(1)[0]
    if most > 1:
        raise ValueError(
            f"{origin}: {most} questions have the id {question_id!r}: give each its "
            "own, since predictions are stored by id."
        )


def _line_questions(
    value: dict, place: str, line: int, level: str
) -> list[ChoiceQuestion]:
    own_id = value.get("id")
    passage = {
        "article": json_objects.member(value, "article", place),
        "questions": [json_objects.member(value, "question", place)],
        "options": [json_objects.member(value, "options", place)],
        "id": _line_id(line if own_id is None else own_id, place),
    }
    if value.get("answer") is not None:
        passage["answers"] = [value["answer"]]
    [question] = _passage_questions(passage, place, line, level)
    return [question._replace(question_id=passage["id"])]


def _line_id(value: Any, place: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(
            f"{place}: 'id' must be text or a number. Received {repr(value)[:60]}."
        )
    return str(value)


def _passage_questions(
    value: dict, place: str, line: int, level: str
) -> list[ChoiceQuestion]:
    """Returns the questions of one passage, checked."""
    questions = json_objects.list_of(value, "questions", place)
    option_lists = json_objects.list_of(value, "options", place)
    answers = [None] * len(questions)
    if "answers" in value:
        answers = json_objects.list_of(value, "answers", place)
    if not len(questions) == len(option_lists) == len(answers):
        raise ValueError(
            f"{place}: {len(questions)} questions, {len(option_lists)} lists of "
            f"options and {len(answers)} answers: there must be as many of each."
        )
    article = json_objects.text(
        json_objects.member(value, "article", place), "article", place
    )
    passage_id = _id(json_objects.member(value, "id", place), place)
    passage_questions = []
    parts = zip(questions, option_lists, answers, strict=True)
    for number, (question, options, answer) in enumerate(parts, start=1):
        where = f"{place}, question {number}"
        options = _options(options, where)
        passage_questions.append(
            ChoiceQuestion(
                f"{passage_id}/{number}",
                article,
                json_objects.text(question, "question", where),
                options,
                _label(answer, len(options), where),
                LEVELS.index(level) if level else -1,
            )
        )
    return passage_questions


def _id(value: Any, place: str) -> str:
    """An id as it can stand in a table; numpy drops NULs at the end of a string."""
    value = json_objects.text(value, "id", place)
    if any(character in value for character in "\t\r\n\0"):
        raise ValueError(
            f"{place}: 'id' must have no tab, line end or NUL. Received {value!r}."
        )
    return value


def _options(options: Any, place: str) -> tuple[str, ...]:
    if not isinstance(options, list):
        raise ValueError(f"{place}: options must be a list. Received {options!r}.")
    if not MIN_OPTIONS <= len(options) <= MAX_OPTIONS:
        raise ValueError(
            f"{place}: a question must have {MIN_OPTIONS} to {MAX_OPTIONS} options. "
            f"Received {len(options)}."
        )
    return tuple(json_objects.text(option, "option", place) for option in options)


def _label(answer: Any, options: int, place: str) -> int:
    if answer is None:
        return NO_LABEL
    letters = [letter(index) for index in range(options)]
    if answer not in letters:
        raise ValueError(
            f"{place}: the answer must be a letter from A to {letters[-1]}, as there "
            f"are {options} options. Received {answer!r}."
        )
    return letters.index(answer)


# Format -> reader of an object.
_READERS = {
    "race": _passage_questions,
    "jsonl": _line_questions,
    COPA: copa.read_question,
}
