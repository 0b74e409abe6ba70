"""Questions with options -> rows, and predictions -> files. `race.py` reads questions.

Every option of a question is one input, [CLS] passage [SEP] question option [SEP]. A
run of underscores in the question is a blank that takes the option; the original puts
the option in the place of every single underscore. Where that is too long, the passage
loses its end first; of question and option together the last `max_qa_length` pieces
stay, so that the option always does (both as the original).
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from albert_tf.files import write_json, write_whole
from albert_tf.text import packing
from albert_tf.text.tokenizer import AlbertTokenizer

# In the place of a label where a file tells no answer.
NO_LABEL = -1
# Answers are letters.
MIN_OPTIONS, MAX_OPTIONS = 2, 26
_SMALLEST_ROW = packing.SPECIAL_TOKENS_OF_PAIR + 1

_BLANK = re.compile("_+")


class Question(NamedTuple):
    """One question.

    Attributes:
      question_id: what predictions are filed under.
      article: the passage.
      question: text, with or without blanks.
      options: 2 to 26 texts.
      label: index of the right option; `NO_LABEL` if that is not told.
      level: index of the part of the set that has an accuracy of its own; -1: none.
    """

    question_id: str
    article: str
    question: str
    options: tuple[str, ...]
    label: int
    level: int

    def texts(self) -> list[str]:
        """Question and option as one text, for each option."""
        return [join(self.question, option) for option in self.options]


def join(question: str, option: str) -> str:
    """The question with its blanks filled by the option, or else both in turn."""
    if _BLANK.search(question):
        return _BLANK.sub(lambda _: option, question)
    return f"{question} {option}"


def letter(index: int) -> str:
    """What option 0, 1, ... is called: A, B, ..."""
    return chr(ord("A") + index)


def choice_rows(
    questions: Sequence[Question],
    tokenizer: AlbertTokenizer,
    max_seq_length: int,
    max_qa_length: int,
    statistics: dict[str, Any],
) -> Iterator[dict[str, Any]]:
    """Rows of `records.choice_features`, in the questions' order.

    Args:
      questions: those of one passage next to each other.
      tokenizer: cuts the texts.
      max_seq_length: most pieces of an input, special ones included.
      max_qa_length: most pieces of question and option together; 0: no limit but that.
      statistics: gets `rows`, `pieces`, `unknown_pieces`, and how many rows lost pieces
        of the passage (`truncated_rows`) or of a question (`truncated_questions`).
    Raises:
      ValueError: the lengths leave no room.
    """
    if max_seq_length < _SMALLEST_ROW or max_qa_length < 0:
        raise ValueError(
            f"max_seq_length must be at least {_SMALLEST_ROW} and max_qa_length not "
            f"negative. Received {max_seq_length} and {max_qa_length}."
        )
    counted = ("pieces", "unknown_pieces", "truncated_rows", "truncated_questions")
    statistics |= dict.fromkeys(counted, 0)
    statistics["rows"] = len(questions)
    room = max_seq_length - packing.SPECIAL_TOKENS_OF_PAIR
    longest_end = min(max_qa_length or room, room)
    for article, group in itertools.groupby(questions, lambda each: each.article):
        group = list(group)
        texts = [text for question in group for text in question.texts()]
        encoded = tokenizer.encode_batch([article, *texts])
        statistics["pieces"] += sum(map(len, encoded))
        statistics["unknown_pieces"] += sum(
            ids.count(tokenizer.unk_id) for ids in encoded
        )
        passage, ends = encoded[0], iter(encoded[1:])
        for question in group:
            own = list(itertools.islice(ends, len(question.options)))
            kept = [end[-longest_end:] for end in own]
            longest = max(map(len, kept))
            statistics["truncated_questions"] += max(map(len, own)) > longest
            statistics["truncated_rows"] += len(passage) + longest > room
            inputs = [
                packing.join_segments(
                    passage[: room - len(end)],
                    end,
                    cls_id=tokenizer.cls_id,
                    sep_id=tokenizer.sep_id,
                )
                for end in kept
            ]
            yield {
                "input_ids": [each["input_ids"] for each in inputs],
                "segment_ids": [each["segment_ids"] for each in inputs],
                # Any label will do where none is looked at.
                "label_ids": max(question.label, 0),
                "level": question.level,
                "index": question.question_id.encode(),
            }


def check_answers(questions: Sequence[Question], origin: str) -> None:
    """Raises ValueError if a question of a set that needs answers has none."""
    for question in questions:
        if question.label == NO_LABEL:
            raise ValueError(
                f"{origin}: question {question.question_id!r} has no answer: training "
                "and evaluation need one for each; without them, predict."
            )


def answers(predicted: Mapping[str, np.ndarray]) -> dict[str, str]:
    """Question id -> letter of the likeliest option.

    Args:
      predicted: `probabilities` float [R, C], and `index`, the ids of the R questions.
    """
    chosen = predicted["probabilities"].argmax(axis=-1)
    pairs = zip(predicted["index"].tolist(), chosen.tolist(), strict=True)
    return {question_id: letter(index) for question_id, index in pairs}


def score_lines(predicted: Mapping[str, np.ndarray]) -> list[str]:
    """Lines of a table: id and the probability of each option, by tabs; a header.

    Args:
      predicted: as of `answers`, and `options`, how many each question has; the cells
        of those that it lacks are empty.
    """
    most = predicted["probabilities"].shape[1]
    lines = ["\t".join(["id", *map(letter, range(most))])]
    names = ("index", "probabilities", "options")
    for question_id, row, options in zip(*map(predicted.get, names), strict=True):
        cells = [f"{value:.9g}" for value in row[:options]]
        lines.append("\t".join([question_id, *cells, *[""] * (most - options)]))
    return lines


def write_predictions(
    predicted: Mapping[str, np.ndarray], answers_file: Path, table_file: Path
) -> None:
    """Writes `answers` as JSON, and `score_lines`."""
    answers_file.parent.mkdir(parents=True, exist_ok=True)
    write_json(answers_file, answers(predicted))
    table = "\n".join(score_lines(predicted)) + "\n"
    write_whole(table_file, table.encode("utf-8"))
