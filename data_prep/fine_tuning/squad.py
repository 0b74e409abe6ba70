"""Reads SQuAD files (v1.1 and v2.0) as paragraphs with questions, and checks them.

    {"version": ..., "data": [{"paragraphs": [{"context": ..., "qas": [
        {"id": ..., "question": ..., "answers": [{"text": ..., "answer_start": ...}],
         "is_impossible": ...}]}]}]}

Answers may be absent, as in files that are only predicted. `squad_windows.py` makes
rows of the paragraphs.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any

from albert_tf.files import parse_json
from albert_tf.storage import PathLike, as_path

# JSON may spell half of a surrogate pair, which is no character and cannot be written.
_HALF_PAIR = re.compile("[\ud800-\udfff]")
_KINDS = {str: "a string", list: "a list", dict: "an object", int: "a whole number"}


@dataclasses.dataclass(frozen=True)
class Answer:
    """A gold answer.

    Attributes:
      text: the answer.
      start: index of its first character in the paragraph, according to the file;
        `squad_windows.locate` checks it.
    """

    text: str
    start: int


@dataclasses.dataclass(frozen=True)
class Question:
    """One question.

    Attributes:
      question_id: id, unique in its file.
      text: the question; may be empty.
      answers: gold answers; the first one is trained on, evaluation accepts any.
      is_impossible: v2.0: true if the paragraph does not answer it.
    """

    question_id: str
    text: str
    answers: tuple[Answer, ...] = ()
    is_impossible: bool = False

    @property
    def is_labelled(self) -> bool:
        """True if the file has an answer, or says that there is none."""
        return self.is_impossible or bool(self.answers)

    @property
    def gold_texts(self) -> list[str]:
        """Texts of the gold answers; empty: "no answer" is right."""
        return [answer.text for answer in self.answers]


@dataclasses.dataclass(frozen=True)
class Paragraph:
    """The text of a paragraph as given, and all questions on it."""

    text: str
    questions: tuple[Question, ...]


@dataclasses.dataclass(frozen=True)
class SquadFile:
    """The content of a SQuAD file.

    Attributes:
      path: the file.
      has_impossible: true for v2.0: the file says so, or its questions have the key
        `is_impossible`.
      paragraphs: the paragraphs, in file order.
    """

    path: str
    has_impossible: bool
    paragraphs: tuple[Paragraph, ...]

    def questions(self) -> Iterator[Question]:
        """Yields all questions, in file order."""
        for paragraph in self.paragraphs:
            yield from paragraph.questions

    def contexts(self) -> dict[str, str]:
        """Question id -> text of its paragraph."""
        return {
            question.question_id: paragraph.text
            for paragraph in self.paragraphs
            for question in paragraph.questions
        }

    def golds(self) -> dict[str, list[str]] | None:
        """Question id -> gold answers; None if a question has no answer and is not
        marked impossible, as in test data."""
        questions = list(self.questions())
        if not all(question.is_labelled for question in questions):
            return None
        return {question.question_id: question.gold_texts for question in questions}

    def check_labelled(self) -> None:
        """Raises ValueError if a question has no answer and is not impossible."""
        for question in self.questions():
            if not question.is_labelled:
                raise ValueError(
                    f"{self.path}, question {question.question_id!r}: it has no "
                    "answer, but is not marked with is_impossible: mark it (for v2.0), "
                    "or remove it."
                )

    def check_all_answerable(self) -> None:
        """Raises ValueError if a question is impossible, which v1.1 does not know."""
        for question in self.questions():
            if question.is_impossible:
                raise ValueError(
                    f"{self.path}, question {question.question_id!r}: is_impossible, "
                    "which v1.1 does not know: train a v2.0 model, with "
                    "--version_2_with_negative."
                )


def read_squad(path: PathLike) -> SquadFile:
    """Reads and checks a SQuAD file.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: it is not a SQuAD file (file and question or place are named), an id
        is used twice, or there is no question.
    """
    path = as_path(path)
    try:
        content = parse_json(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise FileNotFoundError(f"There is no SQuAD file {path}.") from None
    except ValueError as error:
        raise ValueError(
            f"{path} is not a JSON file in UTF-8 ({error}): give one of SQuAD's form."
        ) from None
    paragraphs = tuple(_paragraphs(content, str(path)))
    squad = SquadFile(str(path), _has_impossible(content), paragraphs)
    _check_ids(squad)
    return squad


def _has_impossible(content: Mapping[str, Any]) -> bool:
    # "v2.0" in the released files, "1.1" in most others.
    version = str(content.get("version", "")).lstrip("v")
    return version.startswith("2") or any(
        "is_impossible" in question
        for article in content["data"]
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    )


def _paragraphs(content: Any, path: str) -> Iterator[Paragraph]:
    for a, article in enumerate(_get(content, "data", list, path)):
        place = f"{path}, article {a}"
        for p, paragraph in enumerate(_get(article, "paragraphs", list, place)):
            place = f"{path}, article {a}, paragraph {p}"
            text = _text(paragraph, "context", place)
            questions = _get(paragraph, "qas", list, place)
            yield Paragraph(text, tuple(_question(q, place, path) for q in questions))


def _question(value: Any, place: str, path: str) -> Question:
    question_id = _text(value, "id", place)
    if "\0" in question_id:  # numpy strips it from the end of a string
        raise ValueError(
            f"{place}: 'id' must have no NUL. Received {question_id!r}: change it."
        )
    place = f"{path}, question {question_id!r}"
    answers: tuple[Answer, ...] = ()
    if "answers" in value:
        answers = tuple(
            Answer(
                _text(answer, "text", place), _get(answer, "answer_start", int, place)
            )
            for answer in _get(value, "answers", list, place)
        )
    impossible = value.get("is_impossible", False)
    if not isinstance(impossible, bool):
        raise ValueError(
            f"{place}: is_impossible must be true or false. Received {impossible!r}."
        )
    if impossible and answers:
        raise ValueError(
            f"{place}: is_impossible, but it has answers: remove one of the two."
        )
    return Question(question_id, _text(value, "question", place), answers, impossible)


def _get(value: Any, key: str, kind: type, place: str) -> Any:
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, kind) or isinstance(found, bool):
        raise ValueError(
            f"{place}: {key!r} must be {_KINDS[kind]}. Received {repr(found)[:40]}: "
            "is it a SQuAD file?"
        )
    return found


def _text(value: Any, key: str, place: str) -> str:
    return _HALF_PAIR.sub("\ufffd", _get(value, key, str, place))


def _check_ids(squad: SquadFile) -> None:
    seen = set()
    for question in squad.questions():
        if question.question_id in seen:
            raise ValueError(
                f"{squad.path}, question {question.question_id!r}: the id comes twice: "
                "give every question one of its own."
            )
        seen.add(question.question_id)
    if not seen:
        raise ValueError(f"{squad.path} has no question.")
