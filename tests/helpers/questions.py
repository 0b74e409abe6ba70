"""Toy SQuAD files, a toy vocabulary for them, and readers of real ones."""

import json
from pathlib import Path

from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.fine_tuning import squad, squad_windows


def question(question_id="a", text="Who?", answers=(), **more):
    """A question as SQuAD files have it; answers are (text, start) pairs."""
    return {
        "id": question_id,
        "question": text,
        "answers": [{"text": t, "answer_start": start} for t, start in answers],
        **more,
    }


def write_squad(path: Path, paragraphs, **more) -> Path:
    """Writes a SQuAD file of (text, questions) pairs."""
    paragraphs = [{"context": text, "qas": qas} for text, qas in paragraphs]
    content = {"data": [{"title": "toy", "paragraphs": paragraphs}], **more}
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def paragraph(text: str, *questions) -> squad.Paragraph:
    """A paragraph of (question text, answer text, answer start) triples, whose ids
    are "0", "1", ...; an answer of None makes an impossible question."""
    made = []
    for index, (asked, answer, start) in enumerate(questions):
        answers = () if answer is None else (squad.Answer(answer, start),)
        made.append(squad.Question(str(index), asked, answers, answer is None))
    return squad.Paragraph(text, tuple(made))


def convert(paragraphs, tokenizer: AlbertTokenizer, for_training=True, **lengths):
    """All rows, and the report."""
    report = squad_windows.ConversionReport()
    rows = squad_windows.make_rows(
        paragraphs,
        tokenizer,
        squad_windows.WindowSettings(**lengths),
        report,
        for_training,
    )
    return list(rows), report


def answer_of(row, text: str) -> str:
    """The text between a row's start and end position."""
    start, end = row["start_positions"], row["end_positions"]
    return text[row["piece_starts"][start] : row["piece_ends"][end]]
