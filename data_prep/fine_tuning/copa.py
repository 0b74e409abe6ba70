"""Reads COPA of SuperGLUE as questions with two options.

Roemmele et al. 2011: the cause or the effect of a premise is one of two sentences.
"""

from typing import Any

from data_prep.fine_tuning.json_objects import member, text
from data_prep.fine_tuning.multiple_choice import NO_LABEL, ChoiceQuestion

# Kind of a row -> the question that it stands for.
QUESTIONS = {
    "cause": "What was the cause of this?",
    "effect": "What happened as a result?",
}
FILES = {"train": "train.jsonl", "dev": "val.jsonl", "test": "test.jsonl"}


def read_question(
    value: dict[str, Any], place: str, line: int, level: str
) -> list[ChoiceQuestion]:
    """Reads a line of a published file.

    Args:
      value: its object.
      place: file and line, for messages.
      line: its number.
      level: of RACE; there is none here.
    Returns:
      The question.
    Raises:
      ValueError: it lacks a member, or one has another value than COPA's.
    """
    kind = text(member(value, "question", place), "question", place)
    if kind not in QUESTIONS:
        raise ValueError(
            f"{place}: 'question' must be one of {', '.join(QUESTIONS)}. Received "
            f"{kind!r:.80}."
        )
    label = value.get("label", NO_LABEL)
    if isinstance(label, bool) or label not in (NO_LABEL, 0, 1):
        raise ValueError(
            f"{place}: 'label' must be 0 or 1, the right choice. Received "
            f"{label!r:.80}."
        )
    question = ChoiceQuestion(
        question_id=str(member(value, "idx", place)),
        article=text(member(value, "premise", place), "premise", place),
        question=QUESTIONS[kind],
        options=tuple(
            text(member(value, name, place), name, place)
            for name in ("choice1", "choice2")
        ),
        label=int(label),
        level=-1,
    )
    return [question]
