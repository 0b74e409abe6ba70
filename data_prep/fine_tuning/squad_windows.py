"""Paragraphs and questions -> rows: windows of pieces that fit the model.

A paragraph is tokenized once, for all its questions, together with the place of each
piece in the text as given. So an answer is a range of characters in the file, a range
of pieces in a row, and the same characters again in a prediction.

    [CLS] question [SEP] window of the paragraph [SEP]

The original aligns the text with its pieces anew for every question, by a longest
common subsequence, and drops the question if that matches too little.
"""

import dataclasses
import functools
import re
from collections.abc import Iterable, Iterator

import numpy as np

from albert_tf.text import packing
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.fine_tuning.squad import Answer, Paragraph, Question

Range = tuple[int, int]


@dataclasses.dataclass(frozen=True)
class WindowSettings:
    """How paragraphs become windows; lengths in pieces, the original's defaults.

    Attributes:
      max_seq_length: longest row, special pieces included.
      doc_stride: how far a window starts after the one before it; never so far that
        pieces between them are left out.
      max_query_length: longest question; what is longer loses its end.
    """

    max_seq_length: int = 384
    doc_stride: int = 128
    max_query_length: int = 64

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


@dataclasses.dataclass
class ConversionReport:
    """What became of the questions; filled while rows are made.

    Attributes:
      questions: how many were read.
      windows: rows made. Training steps count these, not questions.
      windows_without_answer: windows of answerable questions that do not hold it.
      cut_questions: questions longer than `max_query_length`.
      empty_paragraphs: questions on a paragraph without a piece.
      moved_answers: ids of answers that do not stand where the file says, but
        elsewhere in the paragraph.
      lost_answers: ids of questions none of whose answers is in the paragraph; in
        training they make no row.
    """

    questions: int = 0
    windows: int = 0
    windows_without_answer: int = 0
    cut_questions: int = 0
    empty_paragraphs: int = 0
    moved_answers: list[str] = dataclasses.field(default_factory=list)
    lost_answers: list[str] = dataclasses.field(default_factory=list)

    def to_dict(self) -> dict[str, int | list[str]]:
        """As JSON has it."""
        return dataclasses.asdict(self)

    def __str__(self):
        parts = [f"{self.questions:,} questions in {self.windows:,} windows"]
        counts = {
            "windows without the answer": self.windows_without_answer,
            "questions cut": self.cut_questions,
            "on empty paragraphs": self.empty_paragraphs,
        }
        parts += [f"{count:,} {name}" for name, count in counts.items() if count]
        ids = {"answers moved": self.moved_answers, "answers lost": self.lost_answers}
        for name, found in ids.items():
            if found:
                dots = ", ..." if len(found) > 3 else ""
                parts.append(f"{len(found):,} {name} ({', '.join(found[:3])}{dots})")
        return ", ".join(parts)


class TokenizedParagraph:
    """A paragraph's pieces and where they stand in its text.

    Attributes:
      text: as given.
      ids: int32 [N].
      starts, ends: int32 [N], half-open character range of each piece, none of which
        starts or ends before the piece in front of it.
    """

    def __init__(self, text: str, tokenizer: AlbertTokenizer):
        ids, offsets = tokenizer.encode_with_offsets(text)
        self.text = text
        self.ids = np.array(ids, np.int32)
        ranges = np.array(offsets, np.int32).reshape(-1, 2)
        # A lone "▁" has no character. It ends where the piece before it does, so that
        # no answer takes in white space, and ends stay sorted, as bisection needs them.
        ranges[ranges[:, 0] == ranges[:, 1], 1] = 0
        self.starts, self.ends = np.maximum.accumulate(ranges, axis=0).T

    def pieces_of(self, characters: Range) -> Range | None:
        """The pieces that hold any of the characters: half-open range; None: none do,
        as of characters that the vocabulary drops."""
        first = int(np.searchsorted(self.ends, characters[0], side="right"))
        end = int(np.searchsorted(self.starts, characters[1], side="left"))
        return (first, end) if first < end else None

    def text_of(self, pieces: Range) -> str:
        """The text of a half-open range of pieces, letter for letter as given."""
        return self.text[self.starts[pieces[0]] : self.ends[pieces[1] - 1]]


def locate(text: str, answer: Answer) -> Range | None:
    """Where an answer stands: half-open character range; None: nowhere.

    At its `answer_start` if it is there, as in nearly all of SQuAD. Else the nearest
    place with the same text (other tools count bytes or UTF-16 units), else the nearest
    that differs in case and white space alone.
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


def find_answer(paragraph: TokenizedParagraph, question: Question) -> Range | None:
    """The pieces of the first gold answer that the paragraph holds; half-open."""
    for answer in question.answers:
        characters = locate(paragraph.text, answer)
        if characters and (pieces := paragraph.pieces_of(characters)):
            return pieces
    return None


@functools.lru_cache(maxsize=64)
def split_windows(
    pieces: int, room: int, stride: int
) -> list[tuple[Range, np.ndarray]]:
    """Windows over a paragraph, and where each may start an answer.

    Args:
      pieces: N, in the paragraph; 0 makes one empty window.
      room: most pieces of a window.
      stride: pieces from one window's start to the next one's.
    Returns:
      For each window its half-open range of pieces and bool [pieces in it], whether it
      is the window that shows the piece in most context: the most pieces on the side
      that has fewer (original; the longer window, then the earlier one, wins a tie).
    """
    ranges = [(0, min(pieces, room))]
    while ranges[-1][1] < pieces:
        start = ranges[-1][0] + min(stride, room)
        ranges.append((start, min(start + room, pieces)))
    positions = np.arange(pieces)
    context = np.full((len(ranges), pieces), -1.0)
    for scores, (start, end) in zip(context, ranges, strict=True):
        inside = positions[start:end]
        nearest = np.minimum(inside - start, end - 1 - inside)
        scores[start:end] = nearest + 0.01 * (end - start)
    best = context.argmax(axis=0)
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
) -> Iterator[dict[str, np.ndarray | bytes | int]]:
    """Rows of `records.squad_features`, one a window, in file order.

    A window without the answer has it at position 0, [CLS], and is impossible. The
    original, whose comment says that it throws such windows away, does the same (from
    XLNet): a v1.1 model learns to point at [CLS], which prediction never chooses.

    Args:
      paragraphs: what to convert.
      tokenizer: of the model.
      settings: lengths.
      report: filled while rows are drawn.
      for_training: whether to leave out questions without an answer to learn; else
        every question has rows.
    """
    for paragraph in paragraphs:
        tokenized = TokenizedParagraph(paragraph.text, tokenizer)
        texts = [question.text for question in paragraph.questions]
        for question, ids in zip(
            paragraph.questions, tokenizer.encode_batch(texts), strict=True
        ):
            report.questions += 1
            report.cut_questions += len(ids) > settings.max_query_length
            report.empty_paragraphs += not len(tokenized.ids)
            answer = _gold_pieces(tokenized, question, report)
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


def _gold_pieces(
    paragraph: TokenizedParagraph, question: Question, report: ConversionReport
) -> Range | None:
    if not question.answers:
        return None
    pieces = find_answer(paragraph, question)
    first = question.answers[0]
    if pieces is None:
        report.lost_answers.append(question.question_id)
    elif locate(paragraph.text, first) != (first.start, first.start + len(first.text)):
        report.moved_answers.append(question.question_id)
    return pieces


def _windows_of_question(paragraph, question_ids, tokenizer, settings):
    """Yields rows without their targets, and each one's range of pieces."""
    special = packing.SPECIAL_TOKENS_OF_PAIR
    room = settings.max_seq_length - len(question_ids) - special
    first = len(question_ids) + special - 1
    windows = split_windows(len(paragraph.ids), room, settings.doc_stride)
    for (start, end), is_max_context in windows:
        length = len(question_ids) + end - start + special
        packed = packing.join_segments(
            question_ids,
            paragraph.ids[start:end],
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


def _targets(row, window: Range, answer: Range | None) -> dict[str, int]:
    """Inclusive positions of the answer in the row; 0 if it is not all there."""
    if answer is None or answer[0] < window[0] or answer[1] > window[1]:
        return {"start_positions": 0, "end_positions": 0, "is_impossible": 1}
    # The window ends before the last [SEP].
    first = len(row["input_ids"]) - 1 - (window[1] - window[0])
    start, end = answer[0] - window[0] + first, answer[1] - 1 - window[0] + first
    return {"start_positions": start, "end_positions": end, "is_impossible": 0}
