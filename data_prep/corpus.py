"""Files -> documents -> sentences, streamed: memory stays flat whatever the corpus.

Three input formats (`INPUT_FORMATS`):

- `lines`: one sentence a line, a blank line between documents, as the original ALBERT.
- `raw`: a file is a document, a blank line between paragraphs; the lines of a paragraph
  are joined and its sentences found.
- `jsonl`: a JSON object a line whose `text` is a document, read as a raw file is.

A line is blank if it is empty but for ASCII white space. A line that only shows
nothing (no-break spaces, combining marks, zero-width characters) is not: it is left
out and counted. (The original normalises first, so there such a line ends a document.)

Sentences are found by `sentencex`. Compared on English and German novels, English
Wikipedia, Arabic and Chinese, on one core, and on a table of hard cases:

- sentencex 1.0 (rules, Rust, Wikimedia): 52-102 MB/s. The only one of the fast ones
  right on "Dr. Jones", "J. K. Rowling", "St. Paul", "Am 3. Oktober", "z. B.", and on
  Chinese quotes. A quoted speech stays one sentence with its "said Tom".
- blingfire 0.1.8: 14-53 MB/s, but cuts "said Tom" off its quote, "Mrs. | Gamp" and
  closing Chinese quotes off; no release since 2021.
- ICU (icu4py 1.2): 43-280 MB/s, but "J. | K. | Rowling", "ca. | 5"; with its lists of
  abbreviations, icu4py takes 1-30 MB/s.
- syntok, sentence-splitter, spaCy's sentencizer 1-3 MB/s and pySBD 0.2-0.5 MB/s: too
  slow; NLTK's Punkt 3-6 MB/s needs a downloaded model.
"""

import glob
import gzip
import itertools
import json
import os
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import sentencex

ON_BAD_TEXT = ("error", "skip")

# A longer sentence is cut at white space: it fills several rows of 512 pieces anyway,
# and everything after this module may rely on short strings. Characters.
MAX_SENTENCE_LENGTH = 10_000

# Lines are read, and sentences found, in blocks of about this many bytes at most: then
# a file without a line break or a blank line needs no more memory than any other, at
# the price of a sentence cut in two every few hundred. (The time of sentencex 1.0 grows
# with the square of a paragraph: 11 MB/s in blocks of 64 KiB, 3 MB/s in 1 MiB.)
_BLOCK_BYTES = 1 << 16
_PROGRESS_BYTES = 1 << 20

# What `read_sentences` counts, as a report prints it.
BAD_UTF8 = "lines that are not UTF-8"
BAD_JSON = "lines without a JSON document"
INVISIBLE = "lines or sentences that show nothing"
EMPTY_DOCUMENT = "documents without a sentence"
EMPTY_FILE = "files without a sentence"
CUT = f"sentences over {MAX_SENTENCE_LENGTH:,} characters, cut"

_ASCII_WHITE_SPACE = " \t\r\n\v\f"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# Unicode categories that show nothing by themselves: marks, controls, white space.
_INVISIBLE = {"Mn", "Mc", "Me", "Cc", "Cf", "Zs", "Zl", "Zp"}

# Chinese and Japanese put no space between words, so none may appear where a line of
# theirs was wrapped. (Korean does, and is not in these ranges.)
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
    """The sentences of one document in text order, and where it starts (1-based)."""

    sentences: list[str]
    file: str
    line: int


@dataclass(frozen=True)
class _Source:
    """One input file and how to read it; see `read_sentences` for the fields."""

    path: str
    on_bad_text: str
    language: str
    counts: Counter = field(default_factory=Counter)
    progress: Callable[[int], object] | None = None

    def reject(self, line: int, problem: str, reason: str) -> None:
        """Raises ValueError, or counts under `reason` where bad text is skipped."""
        if self.on_bad_text == "error":
            raise ValueError(
                f"{self.path}, line {line}: {problem}. Correct it, or leave such "
                "lines out with --on_bad_text=skip."
            )
        self.counts[reason] += 1


def expand_inputs(inputs: str) -> list[str]:
    """Turns a comma list of files and globs into files.

    Args:
      inputs: such as "a.txt,b/*.txt.gz"; `**` matches folders of any depth.
    Returns:
      Paths, each once, sorted by name.
    Raises:
      ValueError: nothing is named, a glob matches no file, a folder or empty file is
        named.
      FileNotFoundError: a named file is missing.
    """
    paths = set()
    for item in filter(None, (item.strip() for item in inputs.split(","))):
        if os.path.exists(item) or not glob.has_magic(item):
            paths.add(item)
            continue
        matches = [p for p in glob.glob(item, recursive=True) if not os.path.isdir(p)]
        if not matches:
            raise ValueError(f"No file matches {item!r}: check the pattern.")
        paths.update(matches)
    if not paths:
        raise ValueError(f"No input file is named. Received {inputs!r}.")
    for path in paths:
        if os.path.isdir(path):
            raise ValueError(f"{path} is a folder: name its files, as in '{path}/*'.")
        if not os.path.exists(path):
            raise FileNotFoundError(
                f"Input file {path} does not exist: check --input_file."
            )
        if os.path.getsize(path) == 0:
            raise ValueError(f"Input file {path} is empty: remove it from the inputs.")
    return sorted({os.path.normpath(path) for path in paths})


def read_sentences(
    paths: Iterable[str],
    input_format: str,
    on_bad_text: str = "error",
    language: str = "en",
    counts: Counter | None = None,
    progress: Callable[[int], object] | None = None,
) -> Iterator[Sentence]:
    """Streams the sentences of files, in order.

    Args:
      paths: files, as `expand_inputs` gives them. One that ends in .gz is unpacked.
      input_format: a key of INPUT_FORMATS.
      on_bad_text: "error", or "skip": leave bad lines out and count them.
      language: ISO 639 code, for the sentence rules of `raw` and `jsonl`.
      counts: what was left out or cut is added here, by reason: BAD_UTF8, BAD_JSON,
        INVISIBLE, EMPTY_DOCUMENT (jsonl), EMPTY_FILE; CUT sentences are now several.
      progress: called now and then with the bytes of the files read since the last
        call (packed bytes where they are packed).
    Raises:
      ValueError: an unknown argument; a bad line, named by file and number; no
        sentence in all files.
      OSError: a file that cannot be read or unpacked.
    """
    if input_format not in INPUT_FORMATS:
        raise ValueError(
            f"input_format must be one of {', '.join(sorted(INPUT_FORMATS))}. "
            f"Received {input_format!r}."
        )
    if on_bad_text not in ON_BAD_TEXT:
        raise ValueError(
            f"on_bad_text must be one of {', '.join(ON_BAD_TEXT)}. "
            f"Received {on_bad_text!r}."
        )
    if not re.fullmatch("[a-z]{2,3}", language):
        raise ValueError(
            f"language must be an ISO 639 code such as en or zh. Received {language!r}."
        )
    counts = Counter() if counts is None else counts
    any_text = False
    for path in paths:
        source = _Source(str(path), on_bad_text, language, counts, progress)
        sentence = None
        for line, text in INPUT_FORMATS[input_format](source):
            for piece in _cut(text, counts):
                sentence = Sentence(piece, source.path, line)
                yield sentence
        if sentence is None:
            counts[EMPTY_FILE] += 1
        any_text = any_text or sentence is not None
    if not any_text:
        raise ValueError(
            f"No sentence in the input files, read as {input_format}: check "
            "--input_file and --input_format."
        )


def read_documents(
    paths: Iterable[str], input_format: str, **options
) -> Iterator[Document]:
    """Streams documents, in order; each is held in memory whole.

    Args and errors are those of `read_sentences`. A document has a sentence at least.
    """
    sentences = read_sentences(paths, input_format, **options)
    for (file, line), group in itertools.groupby(sentences, key=lambda s: s[1:]):
        yield Document([sentence.text for sentence in group], file, line)


# The formats. Each takes a source and yields (line at which its document starts,
# sentence) in text order.


def _read_lines(source: _Source) -> Iterator[tuple[int, str]]:
    start = None
    for number, text in _text_lines(source):
        if _is_blank(text):
            start = None
        elif _is_visible(text):
            start = start or number
            yield start, text.strip()
        else:
            source.counts[INVISIBLE] += 1


def _read_raw(source: _Source) -> Iterator[tuple[int, str]]:
    lines = (text for _, text in _text_lines(source))
    return ((1, sentence) for sentence in _find_sentences(lines, source))


def _read_jsonl(source: _Source) -> Iterator[tuple[int, str]]:
    # A JSON object needs its whole line, so memory is that of the longest document.
    for number, line in _text_lines(source, whole=True):
        if _is_blank(line):
            continue
        text = _json_text(line, number, source)
        if text is None:
            continue
        sentence = None
        for sentence in _find_sentences(text.split("\n"), source):
            yield number, sentence
        if sentence is None:
            source.counts[EMPTY_DOCUMENT] += 1


INPUT_FORMATS = {"lines": _read_lines, "raw": _read_raw, "jsonl": _read_jsonl}


def _json_text(line: str, number: int, source: _Source) -> str | None:
    """Returns a document's text, or None if the line is bad and was counted."""
    try:
        text = json.loads(line)["text"]
        text.encode()  # An escaped half of a surrogate pair is no text.
        return text
    except json.JSONDecodeError as error:
        problem = f"not JSON ({error.msg} at column {error.colno})"
    except UnicodeEncodeError:
        problem = "half of a surrogate pair in the text"
    except (TypeError, KeyError, AttributeError):
        problem = 'not an object with a string under "text"'
    except (RecursionError, ValueError):
        problem = "JSON that is nested too deep or has too long a number"
    source.reject(number, problem, BAD_JSON)
    return None


def _find_sentences(lines: Iterable[str], source: _Source) -> Iterator[str]:
    """Joins the lines of each paragraph and yields its sentences."""
    for paragraph in _paragraphs(lines, source):
        # Also the guard against a fault of sentencex 1.0, which fails on white space
        # of more than one byte before an initial.
        text = " ".join(_SPACELESS_LINE_BREAK.sub("", paragraph).split())
        for sentence in sentencex.segment(source.language, text):
            if _is_visible(sentence):
                yield sentence.strip()
            elif sentence.strip():
                source.counts[INVISIBLE] += 1


def _paragraphs(lines: Iterable[str], source: _Source) -> Iterator[str]:
    """Yields paragraphs with their line breaks; a huge one in several blocks."""
    paragraph, length = [], 0
    for line in lines:
        blank = _is_blank(line)
        if blank or length > _BLOCK_BYTES:
            if paragraph:
                yield "\n".join(paragraph)
            paragraph, length = [], 0
        if _is_visible(line):
            paragraph.append(line.strip())
            length += len(line)
        elif not blank:
            source.counts[INVISIBLE] += 1
    if paragraph:
        yield "\n".join(paragraph)


def _text_lines(source: _Source, whole: bool = False) -> Iterator[tuple[int, str]]:
    """Yields (1-based line number, decoded line); bad UTF-8 is raised or counted.

    A line longer than a block comes in several parts, unless it is wanted whole.
    """
    for number, line in _byte_lines(source, whole):
        try:
            yield number, line.decode("utf-8")
        except UnicodeDecodeError as error:
            problem = f"not UTF-8 (byte 0x{line[error.start]:02x})"
            source.reject(number, problem, BAD_UTF8)


def _byte_lines(source: _Source, whole: bool) -> Iterator[tuple[int, bytes]]:
    limit = -1 if whole else _BLOCK_BYTES
    number, reported, rest = 1, 0, b""
    with open(source.path, "rb") as packed:
        is_packed = source.path.endswith(".gz")
        file = gzip.GzipFile(fileobj=packed) if is_packed else packed
        while line := rest + _read_line(file, limit, source.path):
            rest = b""
            if not line.endswith(b"\n") and len(line) >= limit > 0:
                line, rest = _split_block(line)
            yield number, line.removeprefix(_BYTE_ORDER_MARK if number == 1 else b"")
            number += line.endswith(b"\n")
            done = packed.tell()
            if source.progress and done - reported >= _PROGRESS_BYTES:
                source.progress(done - reported)
                reported = done
        if source.progress:
            source.progress(packed.tell() - reported)


def _read_line(file, limit: int, path: str) -> bytes:
    try:
        return file.readline(limit)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise OSError(f"{path} cannot be unpacked ({error}): copy it again.") from error


def _split_block(block: bytes) -> tuple[bytes, bytes]:
    """Splits a part of a long line after its last space, or between characters."""
    end = block.rfind(b" ") + 1
    if not end:
        end = len(block)
        # Bytes 10xxxxxx continue a character; the one before them starts it.
        for back in range(1, 5):
            if block[-back] & 0b1100_0000 != 0b1000_0000:
                end -= back
                break
    return block[:end], block[end:]


def _cut(text: str, counts: Counter) -> Iterator[str]:
    """Yields a long sentence in parts, cut at white space where there is any."""
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
    """Whether any character is more than a mark, white space or a control."""
    return any(
        character > " " and unicodedata.category(character) not in _INVISIBLE
        for character in text
    )
