"""Multiple choice: RACE folders and JSON lines -> questions -> rows of options.

    DATA_DIR/train|dev|test/middle|high/*.txt   as published: a JSON object a passage
    DATA_DIR/train|dev|test/middle|high/all.txt the same objects in one file
    FILE.jsonl                                  anyone's: a question a line

Every option of a question is one input, [CLS] passage [SEP] question option [SEP]. A
run of underscores in the question is a blank that takes the option; the original puts
the option in the place of every single underscore. Where that is too long, the passage
loses its end first; of question and option together the last `max_qa_length` pieces
stay, so that the option always does (both as the original).
"""

import itertools
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from albert_tf import packing
from albert_tf.tokenization import AlbertTokenizer
from data_prep.passages import json_values

# The parts of RACE, for pupils of 12 to 15 and of 15 to 18 years; in a row their index.
LEVELS = ("middle", "high")
_NO_LEVEL = -1
# In the place of a label where the file has no answers.
NO_LABEL = -1
# Answers are letters.
MIN_OPTIONS, MAX_OPTIONS = 2, 26
_SMALLEST_ROW = packing.SPECIAL_PIECES_OF_PAIR + 1

PASSAGES, QUESTIONS = "passages", "questions"
NO_ANSWER = "questions without an answer"
EMPTY_OPTIONS = "empty options"
CUT_PASSAGES = "options whose passage was cut"
CUT_QUESTIONS = "options whose question was cut"

_BLANK = re.compile("_+")


class Question(NamedTuple):
    """One question.

    Attributes:
      question_id: what predictions are filed under; unique in its file or folder.
      article: the passage.
      question: text, with or without blanks.
      options: 2 to 26 texts.
      label: index of the right option; `NO_LABEL` if that is not told.
      level: "middle" or "high" for RACE, else "".
    """

    question_id: str
    article: str
    question: str
    options: tuple[str, ...]
    label: int
    level: str

    def texts(self) -> list[str]:
        """Question and option as one text, for each option."""
        return [join(self.question, option) for option in self.options]


def join(question: str, option: str) -> str:
    """The question with its blanks filled by the option, or else both in turn."""
    if _BLANK.search(question):
        return _BLANK.sub(lambda _: option, question)
    return f"{question} {option}"


def read_folder(
    folder: str | os.PathLike, levels: Sequence[str], counts: Counter
) -> list[Question]:
    """The questions of one part of RACE, as of `DATA_DIR/train`.

    Args:
      folder: holds `middle` and `high`.
      levels: which of them are wanted.
      counts: gets the numbers of passages and questions, by level too.
    Raises:
      FileNotFoundError: a level's folder or its files are missing.
      ValueError: a file is not of RACE's format; names file, line and question.
    """
    questions = []
    for level in levels:
        for path in _passage_files(Path(folder) / level):
            for line, value in _objects(path):
                place = f"{path}, line {line}"
                found = _questions(value, place, level)
                counts.update({PASSAGES: 1, f"{level} {QUESTIONS}": len(found)})
                questions.extend(found)
    return _checked(questions, folder, counts)


def read_jsonl(path: str | os.PathLike, counts: Counter) -> list[Question]:
    """The questions of a file of JSON objects, one a line.

    Each has an `article`, a `question`, `options` (a list of 2 to 26 texts) and, unless
    it is only to be predicted, an `answer`, a letter: "A" is the first option. Its `id`
    is optional.

    Args:
      path: the file.
      counts: gets the number of questions.
    Raises:
      FileNotFoundError: there is no such file.
      ValueError: a line is not such an object, or two have the same id.
    """
    path = Path(path)
    questions = []
    for line, value in _objects(path):
        place = f"{path}, line {line}"
        own_id = value.get("id")
        passage = {
            "article": _member(value, "article", place),
            "questions": [_member(value, "question", place)],
            "options": [_member(value, "options", place)],
            "id": f"{path.name}:{line}" if own_id is None else str(own_id),
        }
        if value.get("answer") is not None:
            passage["answers"] = [value["answer"]]
        [question] = _questions(passage, place, level="")
        questions.append(question._replace(question_id=passage["id"]))
    return _checked(questions, path, counts)


def make_rows(
    questions: Iterable[Question],
    tokenizer: AlbertTokenizer,
    max_seq_length: int,
    max_qa_length: int,
    counts: Counter,
) -> Iterator[dict[str, Any]]:
    """Rows of questions, in order, without padding.

    Args:
      questions: those of one passage next to each other.
      tokenizer: the vocabulary.
      max_seq_length: most pieces of an input, special ones included.
      max_qa_length: most pieces of question and option together; 0: no limit but that.
      counts: gets how many options' texts were cut.
    Returns:
      An iterator of dicts: `input_ids` and `segment_ids`, a list of int arrays, one an
      option, of any lengths; `label_ids`, [1], the right option or `NO_LABEL`; `level`,
      [1], index in `LEVELS` or -1; `question_id`, UTF-8.
    Raises:
      ValueError: the lengths leave no room.
    """
    if max_seq_length < _SMALLEST_ROW or max_qa_length < 0:
        raise ValueError(
            f"max_seq_length must be at least {_SMALLEST_ROW} and max_qa_length not "
            f"negative. Received {max_seq_length} and {max_qa_length}."
        )
    room = max_seq_length - packing.SPECIAL_PIECES_OF_PAIR
    longest_end = min(max_qa_length or room, room)
    for article, group in itertools.groupby(questions, lambda each: each.article):
        group = list(group)
        texts = [text for question in group for text in question.texts()]
        passage, *ends = tokenizer.encode_batch([article, *texts])
        ends = iter(ends)
        for question in group:
            inputs = []
            for end in itertools.islice(ends, len(question.options)):
                kept = end[-longest_end:]
                start = passage[: room - len(kept)]
                counts[CUT_QUESTIONS] += len(kept) < len(end)
                counts[CUT_PASSAGES] += len(start) < len(passage)
                inputs.append(_pack(start, kept, tokenizer))
            yield {
                "input_ids": [each["input_ids"] for each in inputs],
                "segment_ids": [each["segment_ids"] for each in inputs],
                "label_ids": [question.label],
                "level": [_level_number(question.level)],
                "question_id": question.question_id.encode(),
            }


def _pack(first, second, tokenizer):
    return packing.pack_segments(
        first,
        second,
        len(first) + len(second) + packing.SPECIAL_PIECES_OF_PAIR,
        cls_id=tokenizer.cls_id,
        sep_id=tokenizer.sep_id,
        pad_id=tokenizer.pad_id,
    )


def _level_number(level: str) -> int:
    return LEVELS.index(level) if level else _NO_LEVEL


def _passage_files(folder: Path) -> list[Path]:
    """`all.txt` alone where there is one: it holds what the others do."""
    if (folder / "all.txt").is_file():
        return [folder / "all.txt"]
    # 2.txt before 10.txt.
    paths = sorted(folder.glob("*.txt"), key=lambda path: (len(path.name), path.name))
    if not paths:
        raise FileNotFoundError(
            f"{folder} has no passages (*.txt): --data_dir must hold RACE's folders "
            "train, dev and test, with middle and high in each."
        )
    return paths


def _objects(path: Path) -> Iterator[tuple[int, dict]]:
    """Yields (1-based line, object) of a file."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise FileNotFoundError(f"There is no file {path}: check its path.") from None
    if not content.strip():
        raise ValueError(f"{path} is empty: copy it again, or remove it.")
    try:
        for line, value in json_values(content):
            if not isinstance(value, dict):
                raise ValueError(f"{path}, line {line}: not a JSON object.")
            yield line, value
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path}, line {error.lineno}: not JSON ({error.msg}): correct it."
        ) from None
    except RecursionError:
        raise ValueError(f"{path}: not of this format: nested too deeply.") from None
    except UnicodeDecodeError as error:
        line = 1 + content.count(b"\n", 0, error.start)
        raise ValueError(f"{path}, line {line}: not UTF-8: convert it.") from None


def _questions(value: dict, place: str, level: str) -> list[Question]:
    """The questions of one passage, checked."""
    questions = _member(value, "questions", place, list)
    option_lists = _member(value, "options", place, list)
    answers = [None] * len(questions)
    if "answers" in value:
        answers = _member(value, "answers", place, list)
    if not len(questions) == len(option_lists) == len(answers):
        raise ValueError(
            f"{place}: {len(questions)} questions, {len(option_lists)} lists of "
            f"options and {len(answers)} answers: there must be as many of each."
        )
    article = _text(_member(value, "article", place), "article", place)
    passage_id = _text(_member(value, "id", place), "id", place)
    found = []
    parts = zip(questions, option_lists, answers, strict=True)
    for number, (question, options, answer) in enumerate(parts, start=1):
        where = f"{place}, question {number}"
        options = _options(options, where)
        found.append(
            Question(
                f"{passage_id}/{number}",
                article,
                _text(question, "question", where),
                options,
                _label(answer, len(options), where),
                level,
            )
        )
    return found


def _member(value: dict, name: str, place: str, kind: type = object) -> Any:
    if name not in value:
        raise ValueError(f"{place}: lacks {name!r}; it has {sorted(value)}.")
    if not isinstance(value[name], kind):
        raise ValueError(f"{place}: {name!r} must be a list. Received {value[name]!r}.")
    return value[name]


def _text(value: Any, name: str, place: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{place}: {name!r} must be text. Received {value!r}.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{place}: {name!r} has half of a surrogate pair.") from None
    return value


def _options(options: Any, place: str) -> tuple[str, ...]:
    if not isinstance(options, list):
        raise ValueError(f"{place}: options must be a list. Received {options!r}.")
    if not MIN_OPTIONS <= len(options) <= MAX_OPTIONS:
        raise ValueError(
            f"{place}: a question must have {MIN_OPTIONS} to {MAX_OPTIONS} options. "
            f"Received {len(options)}."
        )
    return tuple(_text(option, "option", place) for option in options)


def _label(answer: Any, options: int, place: str) -> int:
    if answer is None:
        return NO_LABEL
    letters = [chr(ord("A") + index) for index in range(options)]
    if answer not in letters:
        raise ValueError(
            f"{place}: the answer must be a letter from A to {letters[-1]}, as there "
            f"are {options} options. Received {answer!r}."
        )
    return letters.index(answer)


def _checked(
    questions: list[Question], origin: str | os.PathLike, counts: Counter
) -> list[Question]:
    """The questions, counted, if there are any and no two have one id."""
    if not questions:
        raise ValueError(f"{origin} holds no questions.")
    uses = Counter(each.question_id for each in questions)
    question_id, most = uses.most_common(1)[0]
    if most > 1:
        raise ValueError(
            f"{origin}: {most} questions have the id {question_id!r}: give each its "
            "own, for predictions are filed under it."
        )
    counts[QUESTIONS] += len(questions)
    counts[NO_ANSWER] += sum(each.label == NO_LABEL for each in questions)
    counts[EMPTY_OPTIONS] += sum(
        not option.strip() for each in questions for option in each.options
    )
    return questions
