"""Streams files as documents and sentences, in little memory whatever their size.

Input formats (`INPUT_FORMATS`):

- `lines`: one sentence a line, a blank line between documents, as the original ALBERT.
- `raw`: a file is a document, a blank line between paragraphs; the lines of a paragraph
  are joined and split into sentences.
- `jsonl`: a JSON object a line whose `text` is a document, read like a raw file.
- `parquet`: rows of Parquet or Arrow files whose column `text` is a document. A folder
  that `datasets` saved is its Arrow files.
- `squad`, `race`: each passage of such a file is a document, read like a raw file.

A line is blank if it holds nothing but ASCII white space. A line of other invisible
characters (no-break spaces, combining marks, zero-width characters) is not blank: it is
left out and counted. (The original normalizes first, so such a line ends a document.)

Sentences are found by `sentencex`; docs/architecture.md compares it with others.
"""

import itertools
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import sentencex

from albert_tf.files import RepeatedKeyError, parse_json
from albert_tf.storage import as_path
from data_prep import column_files
from data_prep.corpus.files import (
    BAD_UTF8,
    BLOCK_BYTES,
    Part,
    Source,
    is_unicode,
    text_lines,
)
from data_prep.corpus.passages import BAD_PASSAGES, race_passages, squad_passages

ON_BAD_TEXT = ("error", "skip")

# In characters. A longer sentence is cut at white space: it fills several rows of 512
# tokens anyway, and later steps may rely on short strings.
MAX_SENTENCE_LENGTH = 10_000

# Reasons that `read_sentences` counts, as a report prints them.
BAD_JSON = "lines without a JSON document"
INVISIBLE = "lines or sentences that show nothing"
EMPTY_DOCUMENT = "documents without a sentence"
EMPTY_FILE = "files without a sentence"
# Reasons for which text is lost.
LOSSES = (BAD_UTF8, BAD_JSON, BAD_PASSAGES, INVISIBLE)
CUT = f"sentences over {MAX_SENTENCE_LENGTH:,} characters, cut"

_ASCII_WHITE_SPACE = " \t\r\n\v\f"

# Unicode categories that are invisible by themselves: marks, controls, white space.
_INVISIBLE = {"Mn", "Mc", "Me", "Cc", "Cf", "Zs", "Zl", "Zp"}

# Chinese and Japanese put no space between words, so none may appear where a line was
# wrapped. (Korean does, and is not in these ranges.)
_SPACELESS = "[\u2e80-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uff60]"
_SPACELESS_LINE_BREAK = re.compile(f"\n(?<={_SPACELESS}\n)(?={_SPACELESS})")


class Sentence(NamedTuple):
    """One sentence, without white space around it.

    Attributes:
      text: at least one visible character, at most MAX_SENTENCE_LENGTH.
      file: the path it was read from.
      line: the 1-based line of the file at which its document starts. Two sentences
        are of one document exactly if their `file` and `line` are equal.
    """

    text: str
    file: str
    line: int


class Document(NamedTuple):
    """The sentences of a document in text order, its file and first line (1-based)."""

    sentences: list[str]
    file: str
    line: int


# The readers of the formats. Each yields (first line of the document, sentence) in text
# order.


def _read_lines(source: Source) -> Iterator[tuple[int, str]]:
    start = None
    for number, text in text_lines(source):
        if _is_blank(text):
            start = None
        elif _is_visible(text):
            start = start or number
            yield start, text.strip()
        else:
            source.counts[INVISIBLE] += 1


def _read_raw(source: Source) -> Iterator[tuple[int, str]]:
    lines = (text for _, text in text_lines(source))
    return ((1, sentence) for sentence in _find_sentences(lines, source))


def _read_jsonl(source: Source) -> Iterator[tuple[int, str]]:
    # A JSON object needs its whole line, so memory grows with the longest document.
    lines = text_lines(source, whole=True)
    documents = (
        (number, _json_text(line, number, source))
        for number, line in lines
        if not _is_blank(line)
    )
    return _read_texts(documents, source)


def _read_columns(source: Source) -> Iterator[tuple[int, str]]:
    return _read_texts(_column_texts(source), source)


def _column_texts(source: Source) -> Iterator[tuple[int, str | None]]:
    path = source.part.path
    if "text" not in (names := column_files.column_names(path)):
        raise ValueError(
            f"{path} has no column 'text'; it has {', '.join(names)}: rename that of "
            "the documents."
        )
    for number, row in enumerate(column_files.rows(path), 1):
        text = row["text"]
        if isinstance(text, str):
            yield number, text
        else:
            source.reject(number, "no text under 'text'", BAD_JSON)
    if source.progress:
        source.progress(as_path(path).stat().st_size)


def _read_squad(source: Source) -> Iterator[tuple[int, str]]:
    return _read_texts(squad_passages(source), source)


def _read_race(source: Source) -> Iterator[tuple[int, str]]:
    return _read_texts(race_passages(source), source)


def _read_texts(
    documents: Iterable[tuple[int, str | None]], source: Source
) -> Iterator[tuple[int, str]]:
    for number, text in documents:
        if text is None:
            continue
        sentence = None
        for sentence in _find_sentences(text.split("\n"), source):
            yield number, sentence
        if sentence is None:
            source.counts[EMPTY_DOCUMENT] += 1


INPUT_FORMATS: dict[str, Callable[[Source], Iterator[tuple[int, str]]]] = {
    "lines": _read_lines,
    "raw": _read_raw,
    "jsonl": _read_jsonl,
    "parquet": _read_columns,
    "squad": _read_squad,
    "race": _read_race,
}


@dataclass(frozen=True)
class ReadingConfig:
    """Configuration of reading text; the flags of the same names set it.

    Attributes:
      input_format: lines: one sentence a line, a blank line between documents. raw: a
        file is a document, a blank line between paragraphs, sentences are found. jsonl:
        a JSON object a line, its document under the key `text`, sentences are found.
        parquet: the same of Parquet files and of folders of Hugging Face's datasets.
        squad, race: each passage of such JSON files is a document.
      on_bad_text: a line that is not UTF-8 (jsonl: or not an object with a `text`):
        stop with its file and line, or skip and count it.
      language: language of the text, as en or zh; its rules find sentences (unused for
        lines).
    Raises:
      ValueError: an unknown value.
    """

    input_format: str = field(
        default="lines", metadata={"choices": tuple(sorted(INPUT_FORMATS))}
    )
    on_bad_text: str = field(default="error", metadata={"choices": ON_BAD_TEXT})
    language: str = "en"

    def __post_init__(self):
        if self.input_format not in INPUT_FORMATS:
            raise ValueError(
                f"input_format must be one of {', '.join(sorted(INPUT_FORMATS))}. "
                f"Received {self.input_format!r}."
            )
        if self.on_bad_text not in ON_BAD_TEXT:
            raise ValueError(
                f"on_bad_text must be one of {', '.join(ON_BAD_TEXT)}. "
                f"Received {self.on_bad_text!r}."
            )
        if not re.fullmatch("[a-z]{2,3}", self.language):
            raise ValueError(
                "language must be an ISO 639 code such as en or zh. "
                f"Received {self.language!r}."
            )


def read_sentences(
    paths: Iterable[str],
    config: ReadingConfig,
    counts: Counter | None = None,
    progress: Callable[[int], object] | None = None,
) -> Iterator[Sentence]:
    """Streams the sentences of files, in order.

    Args:
      paths: files, from `expand_inputs`. One that ends in .gz or .zst is unpacked.
      config: how to read them.
      counts: text that is left out or cut is counted here, by reason: one of LOSSES,
        EMPTY_DOCUMENT, EMPTY_FILE; CUT sentences become several.
      progress: called now and then with the bytes of the files read since the last
        call (packed bytes of a packed file).
    Raises:
      ValueError: a bad line, named by file and number; no sentence in all files.
      OSError: a file that cannot be read or unpacked.
    """
    sentence = None
    parts = (Part(str(path)) for path in paths)
    for sentence in read_parts(parts, config, counts, progress):
        yield sentence
    if sentence is None:
        raise no_sentence_error(config.input_format)


def read_parts(
    parts: Iterable[Part],
    config: ReadingConfig,
    counts: Counter | None = None,
    progress: Callable[[int], object] | None = None,
) -> Iterator[Sentence]:
    """Streams the sentences of parts of files, as `read_sentences` does.

    Having no sentence in all of them is no error. A sentence's `line` is counted from
    the start of its part.
    """
    counts = Counter() if counts is None else counts
    read = INPUT_FORMATS[config.input_format]
    for part in parts:
        source = Source(part, config.on_bad_text, config.language, counts, progress)
        sentence = None
        for line, text in read(source):
            for short_text in _cut(text, counts):
                sentence = Sentence(short_text, part.path, line)
                yield sentence
        if sentence is None and part.start == 0:
            counts[EMPTY_FILE] += 1


def no_sentence_error(input_format: str) -> ValueError:
    """Makes the error to raise if no file holds a sentence."""
    return ValueError(
        f"No sentence in the input files, read as {input_format}: check --input_file "
        "and --input_format."
    )


def read_documents(
    paths: Iterable[str],
    config: ReadingConfig,
    counts: Counter | None = None,
    progress: Callable[[int], object] | None = None,
) -> Iterator[Document]:
    """Streams documents, in order, each of at least one sentence and held in memory.

    Arguments and errors are those of `read_sentences`.
    """
    sentences = read_sentences(paths, config, counts, progress)
    for (file, line), group in itertools.groupby(sentences, key=lambda s: s[1:]):
        yield Document([sentence.text for sentence in group], file, line)


def _json_text(line: str, number: int, source: Source) -> str | None:
    """Returns the text of a document; None if the line is bad and was counted."""
    try:
        text = parse_json(line)["text"]
        if not isinstance(text, str):
            raise TypeError
        if is_unicode(text):
            return text
        problem = "half of a surrogate pair in the text"
    except json.JSONDecodeError as error:
        problem = f"not JSON ({error.msg} at column {error.colno})"
    except RepeatedKeyError as error:
        problem = str(error)
    except (TypeError, KeyError):
        problem = 'not an object with a string under "text"'
    except ValueError:
        problem = "JSON that is nested too deep or has too long a number"
    source.reject(number, problem, BAD_JSON)
    return None


def _find_sentences(lines: Iterable[str], source: Source) -> Iterator[str]:
    """Joins the lines of each paragraph, then yields its sentences."""
    for paragraph in _paragraphs(lines, source):
        # Single spaces also avoid a bug of sentencex 1.0, which fails on white space of
        # more than one byte before an initial.
        text = " ".join(_SPACELESS_LINE_BREAK.sub("", paragraph).split())
        for sentence in sentencex.segment(source.language, text):
            if _is_visible(sentence):
                yield sentence.strip()
            elif sentence.strip():
                source.counts[INVISIBLE] += 1


def _paragraphs(lines: Iterable[str], source: Source) -> Iterator[str]:
    """Yields paragraphs with their line breaks; a huge one in several blocks."""
    paragraph: list[str] = []
    length = 0
    for line in lines:
        is_blank = _is_blank(line)
        if is_blank or length > BLOCK_BYTES:
            if paragraph:
                yield "\n".join(paragraph)
            paragraph, length = [], 0
        if _is_visible(line):
            paragraph.append(line.strip())
            length += len(line)
        elif not is_blank:
            source.counts[INVISIBLE] += 1
    if paragraph:
        yield "\n".join(paragraph)


def _cut(text: str, counts: Counter) -> Iterator[str]:
    """Yields a sentence; a long one in parts, cut at white space where possible."""
    if len(text) <= MAX_SENTENCE_LENGTH:
        yield text
        return
    counts[CUT] += 1
    start = 0
    while start < len(text):
        end = start + MAX_SENTENCE_LENGTH
        if end < len(text):
            end = text.rfind(" ", start + 1, end) + 1 or end
        if _is_visible(part := text[start:end]):
            yield part.strip()
        start = end


def _is_blank(line: str) -> bool:
    return not line.strip(_ASCII_WHITE_SPACE)


def _is_visible(text: str) -> bool:
    """Tells whether any character is more than a mark, white space or a control."""
    return any(
        character > " " and unicodedata.category(character) not in _INVISIBLE
        for character in text
    )
