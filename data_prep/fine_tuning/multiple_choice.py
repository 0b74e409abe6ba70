"""Makes rows for multiple choice from questions with options.

Each option of a question is one input, [CLS] passage [SEP] question option [SEP]. If
the input is too long, the passage is truncated from its end. Of question and option
together only the last `max_qa_length` tokens are kept, so the option is never lost
(both as in the original). `race.py` reads the questions.
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from albert_tf.text import packing
from albert_tf.text.tokenizer import AlbertTokenizer

# Label of a question whose answer the file does not tell.
NO_LABEL = -1
# Answers are letters.
MIN_OPTIONS, MAX_OPTIONS = 2, 26
_SMALLEST_ROW = packing.SPECIAL_TOKENS_OF_PAIR + 1

_BLANK = re.compile("_+")


class ChoiceQuestion(NamedTuple):
    """A question with options.

    Attributes:
      question_id: id of its prediction.
      article: the passage.
      question: text, with or without blanks.
      options: 2 to 26 texts.
      label: index of the right option; `NO_LABEL` if the file does not tell it.
      level: index of the part of the data set that gets an accuracy of its own; -1:
        none.
    """

    question_id: str
    article: str
    question: str
    options: tuple[str, ...]
    label: int
    level: int

    def texts(self) -> list[str]:
        """Question and option as one text, for each option.

        The option fills each run of underscores in the question; without underscores it
        follows the question. The original puts it in the place of every single one.
        """
        if _BLANK.search(self.question):
            parts = _BLANK.split(self.question)
            return [option.join(parts) for option in self.options]
        return [f"{self.question} {option}" for option in self.options]


def letter(index: int) -> str:
    """The letter of option 0, 1, ...: A, B, ..."""
    return chr(ord("A") + index)


def choice_rows(
    questions: Sequence[ChoiceQuestion],
    tokenizer: AlbertTokenizer,
    max_seq_length: int,
    max_qa_length: int,
    statistics: dict[str, Any],
) -> Iterator[dict[str, Any]]:
    """Yields rows of `features.choice_features`, in the questions' order.

    Args:
      questions: the questions; those of one passage must be adjacent.
      tokenizer: tokenizes the texts.
      max_seq_length: most tokens of an input, special tokens included.
      max_qa_length: most tokens of question and option together; 0: limited by
        max_seq_length only.
      statistics: receives `rows`, `pieces` (tokens), `unknown_pieces`, and the numbers
        of rows with a truncated passage (`truncated_rows`) or question
        (`truncated_questions`).
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
    for article, adjacent in itertools.groupby(questions, lambda q: q.article):
        group = list(adjacent)
        texts = [text for question in group for text in question.texts()]
        encoded = tokenizer.encode_batch([article, *texts])
        statistics["pieces"] += sum(map(len, encoded))
        statistics["unknown_pieces"] += sum(
            ids.count(tokenizer.unk_id) for ids in encoded
        )
        passage, ends = encoded[0], iter(encoded[1:])
        for question in group:
            whole = list(itertools.islice(ends, len(question.options)))
            kept = [end[-longest_end:] for end in whole]
            longest = max(map(len, kept))
            statistics["truncated_questions"] += max(map(len, whole)) > longest
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
            yield _row(question, inputs)


def _row(question: ChoiceQuestion, inputs: Sequence[Mapping[str, Any]]) -> dict:
    return {
        "input_ids": [option["input_ids"] for option in inputs],
        "segment_ids": [option["segment_ids"] for option in inputs],
        # A row that is only predicted needs a label too; it is not used.
        "label_ids": max(question.label, 0),
        "level": question.level,
        "index": question.question_id.encode(),
    }


def check_answers(questions: Sequence[ChoiceQuestion], origin: str) -> None:
    """Raises ValueError if a question of a split that needs answers has none."""
    for question in questions:
        if question.label == NO_LABEL:
            raise ValueError(
                f"{origin}: question {question.question_id!r} has no answer: training "
                "and evaluation need one for each; without them, predict."
            )
