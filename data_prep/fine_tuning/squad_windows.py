"""Makes rows for SQuAD: a question and a window of its paragraph that fit the model.

    [CLS] question [SEP] window of the paragraph [SEP]

A paragraph is tokenized once, for all its questions, with the place of each token in
the text as given. So an answer is a range of characters in the file, a range of tokens
in a row, and again the same characters in a prediction. (The original aligns text and
tokens for each question by a longest common subsequence, and drops questions that match
badly.)
"""

import dataclasses
import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.task_config import Squad
from albert_tf.text import packing
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.fine_tuning.squad import Answer, Paragraph, Question
from data_prep.parallel import Call, Workers

Range = tuple[int, int]

# Characters of a text that is tokenized in a process of its own.
_LONG_TEXT = 300_000


@dataclasses.dataclass(frozen=True)
class WindowSettings:
    """Lengths of windows in tokens, with the original's defaults.

    Attributes:
      max_seq_length: longest row, special tokens included.
      doc_stride: from the start of a window to the start of the next; windows leave no
        gap, so it is at most the length of a window.
      max_query_length: longest question; longer ones are truncated at the end.
    """

    max_seq_length: int = Squad.max_seq_length
    doc_stride: int = Squad.doc_stride
    max_query_length: int = Squad.max_query_length

    def __post_init__(self):
        for name in ("doc_stride", "max_query_length"):
            if getattr(self, name) < 1:
                raise ValueError(
                    f"{name} must be at least 1. Received {getattr(self, name)}."
                )
        least = self.max_query_length + packing.SPECIAL_TOKENS_OF_PAIR + 1
        if self.max_seq_length < least:
            raise ValueError(
                f"max_seq_length={self.max_seq_length} leaves no room for a paragraph "
                f"beside a question of max_query_length={self.max_query_length}: "
                f"raise it to {least} or more, or shorten questions."
            )

    @classmethod
    def from_task_config(cls, task_config: Squad) -> "WindowSettings":
        """Returns the lengths of a task configuration."""
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(**{name: getattr(task_config, name) for name in names})


@dataclasses.dataclass
class ConversionReport:
    """Counts of a conversion; filled while rows are made.

    Attributes:
      questions: questions read.
      windows: rows made. Training steps count these, not questions.
      windows_without_answer: windows of answerable questions without the answer.
      cut_questions: questions longer than `max_query_length`.
      empty_paragraphs: questions on a paragraph without a token.
      moved_answers: ids of questions whose answer is elsewhere in the paragraph than
        the file says.
      lost_answers: ids of questions none of whose answers is in the paragraph; in
        training they make no row.
      inexact_answers: ids of questions whose answer does not begin and end where a
        token does, so that it cannot be found exactly.
      pieces: tokens of the questions and of the paragraphs, each counted once.
      unknown_pieces: those that are unknown to the vocabulary.
    """

    questions: int = 0
    windows: int = 0
    windows_without_answer: int = 0
    cut_questions: int = 0
    empty_paragraphs: int = 0
    moved_answers: list[str] = dataclasses.field(default_factory=list)
    lost_answers: list[str] = dataclasses.field(default_factory=list)
    inexact_answers: list[str] = dataclasses.field(default_factory=list)
    pieces: int = 0
    unknown_pieces: int = 0

    def to_dict(self) -> dict[str, int | list[str]]:
        """JSON values."""
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        parts = [f"{self.questions:,} questions in {self.windows:,} windows"]
        counts = {
            "windows without the answer": self.windows_without_answer,
            "questions cut": self.cut_questions,
            "on empty paragraphs": self.empty_paragraphs,
        }
        parts += [f"{count:,} {name}" for name, count in counts.items() if count]
        ids = {
            "answers moved": self.moved_answers,
            "answers lost": self.lost_answers,
            "answers off the borders of tokens": self.inexact_answers,
        }
        for name, listed in ids.items():
            if listed:
                dots = ", ..." if len(listed) > 3 else ""
                parts.append(f"{len(listed):,} {name} ({', '.join(listed[:3])}{dots})")
        return ", ".join(parts)


class TokenizedParagraph:
    """The tokens of a paragraph and their places in its text.

    Attributes:
      text: the paragraph as given.
      ids: int32 [N], ids of the tokens.
      starts: int32 [N], index of each token's first character; never decreasing.
      ends: int32 [N], index after each token's last character; never decreasing.
    """

    def __init__(self, text: str, tokenizer: AlbertTokenizer):
        ids, offsets = tokenizer.encode_with_offsets(text)
        self.text = text
        self.ids = np.array(ids, np.int32)
        ranges = np.array(offsets, np.int32).reshape(-1, 2)
        # A lone "▁" has no character. It gets the end of the token before it, so that
        # no answer includes white space and ends stay sorted for the bisection below.
        ranges[ranges[:, 0] == ranges[:, 1], 1] = 0
        self.starts, self.ends = np.maximum.accumulate(ranges, axis=0).T

    def tokens_of(self, characters: Range) -> Range | None:
        """Returns the half-open range of tokens that hold any of the characters.

        None: no token does, as of characters that the vocabulary drops.
        """
        first = int(np.searchsorted(self.ends, characters[0], side="right"))
        end = int(np.searchsorted(self.starts, characters[1], side="left"))
        return (first, end) if first < end else None

    def text_of(self, tokens: Range) -> str:
        """Returns the text of a half-open range of tokens, at least one."""
        return self.text[self.starts[tokens[0]] : self.ends[tokens[1] - 1]]


def locate(text: str, answer: Answer) -> Range | None:
    """Returns the half-open character range of an answer; None: it is not in the text.

    That is its `answer_start` if the text is there, as in nearly all of SQuAD; else the
    nearest place with the same text (other tools count bytes or UTF-16 units), or else
    the nearest one that differs in case and white space only.
    """
    end = answer.start + len(answer.text)
    if not answer.text.strip():
        return None
    if answer.start >= 0 and text[answer.start : end] == answer.text:
        return answer.start, end
    words = r"\s+".join(map(re.escape, answer.text.split()))
    for pattern, flags in ((re.escape(answer.text), 0), (words, re.IGNORECASE)):
        places = [match.span() for match in re.finditer(pattern, text, flags)]
        if places:
            return min(places, key=lambda place: abs(place[0] - answer.start))
    return None


def find_answer(
    paragraph: TokenizedParagraph, question: Question
) -> tuple[Range, bool] | None:
    """Finds the first gold answer that is in the paragraph.

    Returns:
      Its half-open range of tokens, and true if their text is the answer's exactly.
    """
    for answer in question.answers:
        characters = locate(paragraph.text, answer)
        if characters and (tokens := paragraph.tokens_of(characters)):
            wanted = paragraph.text[slice(*characters)].strip()
            return tokens, paragraph.text_of(tokens) == wanted
    return None


@functools.lru_cache(maxsize=64)
def split_windows(
    tokens: int, room: int, stride: int
) -> list[tuple[Range, np.ndarray]]:
    """Cuts a paragraph into windows, and says which tokens each may start an answer at.

    Args:
      tokens: N, number of tokens of the paragraph; 0 makes one empty window.
      room: most tokens of a window.
      stride: tokens from the start of a window to the start of the next.
    Returns:
      For each window its half-open range of tokens, and bool [its tokens], true if no
      other window shows more context of the token: most tokens on the side that has
      fewer (as the original; ties go to the longer window, then to the earlier one).
    """
    ranges = [(0, min(tokens, room))]
    while ranges[-1][1] < tokens:
        start = ranges[-1][0] + min(stride, room)
        ranges.append((start, min(start + room, tokens)))
    best = np.zeros(tokens, np.int64)
    most = np.full(tokens, -1.0)
    for window, (start, end) in enumerate(ranges):
        before = np.arange(end - start)
        context = np.minimum(before, before[::-1]) + 0.01 * (end - start)
        better = context > most[start:end]
        most[start:end][better] = context[better]
        best[start:end][better] = window
    return [
        ((start, end), best[start:end] == window)
        for window, (start, end) in enumerate(ranges)
    ]


def make_rows(
    paragraphs: Iterable[Paragraph],
    tokenizer: AlbertTokenizer,
    settings: WindowSettings,
    report: ConversionReport,
    for_training: bool,
) -> Iterator[dict[str, Any]]:
    """Yields rows of `features.squad_features`, one a window, in file order.

    In a window without the answer the answer is at position 0, [CLS], and the row is
    impossible. The original does the same (from XLNet), although its comment says that
    it drops such windows: a v1.1 model learns to point at [CLS], which prediction never
    chooses.

    Args:
      paragraphs: paragraphs with questions.
      tokenizer: the model's.
      settings: lengths.
      report: filled while rows are made.
      for_training: if true, questions without an answer to learn make no row; if
        false, every question makes rows.
    """
    unknown = tokenizer.unk_id
    for paragraph in paragraphs:
        tokenized = TokenizedParagraph(paragraph.text, tokenizer)
        report.pieces += len(tokenized.ids)
        report.unknown_pieces += int(np.count_nonzero(tokenized.ids == unknown))
        texts = [question.text for question in paragraph.questions]
        for question, ids in zip(
            paragraph.questions, tokenizer.encode_batch(texts), strict=True
        ):
            report.questions += 1
            report.pieces += len(ids)
            report.unknown_pieces += ids.count(unknown)
            report.cut_questions += len(ids) > settings.max_query_length
            report.empty_paragraphs += not len(tokenized.ids)
            answer = _gold_tokens(tokenized, question, report)
            if for_training and answer is None and not question.is_impossible:
                continue
            rows = _windows_of_question(
                tokenized, ids[: settings.max_query_length], tokenizer, settings
            )
            for row, window in rows:
                row["question_id"] = question.question_id.encode()
                row |= _targets(row, window, answer)
                report.windows_without_answer += bool(
                    question.answers and row["is_impossible"]
                )
                report.windows += 1
                yield row


def rows_to_answer(
    paragraph: Paragraph, tokenizer: AlbertTokenizer, settings: WindowSettings
) -> list[dict[str, Any]]:
    """Makes the rows of a paragraph that is only answered, which may be a book.

    A long text is tokenized in a process of its own, because SentencePiece leaves some
    hundred bytes a character allocated.
    """
    if len(paragraph.text) <= _LONG_TEXT:
        return _rows_to_answer(None, paragraph, tokenizer, settings)
    rows: list[dict[str, Any]] = []
    calls = iter([Call(_rows_to_answer, (paragraph, tokenizer, settings))])
    with Workers(2) as workers:  # one alone would be this process
        workers.run(lambda: next(calls, None), lambda _, made: rows.extend(made))
    return rows


def _rows_to_answer(
    shared: None,
    paragraph: Paragraph,
    tokenizer: AlbertTokenizer,
    settings: WindowSettings,
) -> list[dict[str, Any]]:
    report = ConversionReport()
    return list(make_rows([paragraph], tokenizer, settings, report, False))


def _gold_tokens(
    paragraph: TokenizedParagraph, question: Question, report: ConversionReport
) -> Range | None:
    if not question.answers:
        return None
    found = find_answer(paragraph, question)
    first = question.answers[0]
    if found is None:
        report.lost_answers.append(question.question_id)
        return None
    tokens, is_exact = found
    if not is_exact:
        report.inexact_answers.append(question.question_id)
    if locate(paragraph.text, first) != (first.start, first.start + len(first.text)):
        report.moved_answers.append(question.question_id)
    return tokens


def _windows_of_question(
    paragraph: TokenizedParagraph,
    question_ids: Sequence[int],
    tokenizer: AlbertTokenizer,
    settings: WindowSettings,
) -> Iterator[tuple[dict[str, Any], Range]]:
    """Yields rows without targets, each with its range of tokens of the paragraph."""
    special = packing.SPECIAL_TOKENS_OF_PAIR
    room = settings.max_seq_length - len(question_ids) - special
    first = len(question_ids) + special - 1
    windows = split_windows(len(paragraph.ids), room, settings.doc_stride)
    for (start, end), is_max_context in windows:
        length = len(question_ids) + end - start + special
        packed = packing.join_segments(
            question_ids,
            paragraph.ids[start:end].tolist(),
            cls_id=tokenizer.cls_id,
            sep_id=tokenizer.sep_id,
        )
        row = {name: np.array(values, np.int32) for name, values in packed.items()}
        inside = slice(first, first + end - start)
        row["p_mask"] = np.ones(length, np.int32)
        row["p_mask"][0] = 0
        row["p_mask"][inside] = 0
        aligned = {
            "token_is_max_context": is_max_context,
            "piece_starts": paragraph.starts[start:end],
            "piece_ends": paragraph.ends[start:end],
        }
        for name, values in aligned.items():
            row[name] = np.zeros(length, np.int32)
            row[name][inside] = values
        yield row, (start, end)


def _targets(
    row: Mapping[str, Any], window: Range, answer: Range | None
) -> dict[str, int]:
    """Inclusive positions of the answer in the row; 0 if a part of it is missing."""
    if answer is None or answer[0] < window[0] or answer[1] > window[1]:
        return {"start_positions": 0, "end_positions": 0, "is_impossible": 1}
    # The window is in front of the last [SEP].
    first = len(row["input_ids"]) - 1 - (window[1] - window[0])
    start, end = answer[0] - window[0] + first, answer[1] - 1 - window[0] + first
    return {"start_positions": start, "end_positions": end, "is_impossible": 0}
