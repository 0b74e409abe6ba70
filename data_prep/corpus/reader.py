"""Files -> documents -> sentences, streamed: memory stays flat whatever the corpus.

Input formats (`INPUT_FORMATS`):

- `lines`: one sentence a line, a blank line between documents, as the original ALBERT.
- `raw`: a file is a document, a blank line between paragraphs; the lines of a paragraph
  are joined and its sentences found.
- `jsonl`: a JSON object a line whose `text` is a document, read as a raw file is.
- `squad`, `race`: the passages of such a file are documents, read as raw files are.

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
import itertools
import json
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import sentencex

from data_prep.corpus.files import BAD_UTF8, BLOCK_BYTES, Part, Source, text_lines
from data_prep.corpus.passages import BAD_PASSAGES, race_passages, squad_passages

ON_BAD_TEXT = ("error", "skip")

# A longer sentence is cut at white space: it fills several rows of 512 pieces anyway,
# and everything after this module may rely on short strings. Characters.
MAX_SENTENCE_LENGTH = 10_000

# What `read_sentences` counts, as a report prints it.
BAD_JSON = "lines without a JSON document"
INVISIBLE = "lines or sentences that show nothing"
EMPTY_DOCUMENT = "documents without a sentence"
EMPTY_FILE = "files without a sentence"
# Those by which text is lost.
LOSSES = (BAD_UTF8, BAD_JSON, BAD_PASSAGES, INVISIBLE)
CUT = f"sentences over {MAX_SENTENCE_LENGTH:,} characters, cut"

_ASCII_WHITE_SPACE = " \t\r\n\v\f"

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
      language: ISO 639 code, for the sentence rules of all formats but `lines`.
      counts: what was left out or cut is added here, by reason: one of LOSSES,
        EMPTY_DOCUMENT, EMPTY_FILE; CUT sentences are now several.
      progress: called now and then with the bytes of the files read since the last
        call (packed bytes where they are packed).
    Raises:
      ValueError: an unknown argument; a bad line, named by file and number; no
        sentence in all files.
      OSError: a file that cannot be read or unpacked.
    """
    check_options(input_format, on_bad_text, language)
    parts = (Part(str(path)) for path in paths)
    sentence = None
    for sentence in read_parts(
        parts, input_format, on_bad_text, language, counts, progress
    ):
        yield sentence
    if sentence is None:
        raise no_sentence_error(input_format)


def read_parts(
    parts: Iterable[Part],
    input_format: str,
    on_bad_text: str,
    language: str,
    counts: Counter | None = None,
    progress: Callable[[int], object] | None = None,
) -> Iterator[Sentence]:
    """As `read_sentences`, of parts of files; no sentence in all of them is no error.

    A sentence's `line` is counted from the start of its part.
    """
    counts = Counter() if counts is None else counts
    for part in parts:
        source = Source(part, on_bad_text, language, counts, progress)
        sentence = None
        for line, text in INPUT_FORMATS[input_format](source):
            for piece in _cut(text, counts):
                sentence = Sentence(piece, part.path, line)
                yield sentence
        if sentence is None and part.start == 0:
            counts[EMPTY_FILE] += 1


def check_options(input_format: str, on_bad_text: str, language: str) -> None:
    """Raises ValueError for a value that `read_sentences` does not know."""
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


def no_sentence_error(input_format: str) -> ValueError:
    """What to raise if all files are without a sentence."""
    return ValueError(
        f"No sentence in the input files, read as {input_format}: check --input_file "
        "and --input_format."
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
    # A JSON object needs its whole line, so memory is that of the longest document.
    lines = text_lines(source, whole=True)
    documents = (
        (number, _json_text(line, number, source))
        for number, line in lines
        if not _is_blank(line)
    )
    return _read_texts(documents, source)


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


INPUT_FORMATS = {
    "lines": _read_lines,
    "raw": _read_raw,
    "jsonl": _read_jsonl,
    "squad": _read_squad,
    "race": _read_race,
}


def _json_text(line: str, number: int, source: Source) -> str | None:
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


def _find_sentences(lines: Iterable[str], source: Source) -> Iterator[str]:
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


def _paragraphs(lines: Iterable[str], source: Source) -> Iterator[str]:
    """Yields paragraphs with their line breaks; a huge one in several blocks."""
    paragraph, length = [], 0
    for line in lines:
        blank = _is_blank(line)
        if blank or length > BLOCK_BYTES:
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
