"""Sentences of words with tags, and the readers of the two kinds of files with them.

`tagged_files.py` shows the formats, and checks and converts the tags.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from albert_tf.storage import AnyPath
from albert_tf.text import entities
from albert_tf.text.entities import Entity
from albert_tf.text.words import split_words
from data_prep.corpus.files import read_content
from data_prep.fine_tuning import json_objects

_DOCUMENT = "-DOCSTART-"


class TagColumns(NamedTuple):
    """Columns of a CoNLL file, from 0; negative ones count from the last."""

    token: int = 0
    tag: int = -1


class Sentence(NamedTuple):
    """A sentence, or a text.

    Attributes:
      words: its words; there may be none.
      tags: the tag of each, as IOB2 or plain; None: they are not known.
      line: 1-based line of its file on which it starts.
      columns: CoNLL: the columns of each word, as given; else empty.
      text: the text of which the words are parts; None: only words were given.
      ranges: half-open range of characters of each word in the text; else empty.
    """

    words: Sequence[str]
    tags: Sequence[str] | None
    line: int
    columns: Sequence[Sequence[str]] = ()
    text: str | None = None
    ranges: Sequence[tuple[int, int]] = ()

    def as_text(self) -> tuple[str, Sequence[tuple[int, int]]]:
        """The text and the range of each word; words alone are joined by a space."""
        if self.text is not None:
            return self.text, self.ranges
        ends = list(itertools.accumulate(len(word) + 1 for word in self.words))
        starts = [0, *ends]
        return " ".join(self.words), [
            (start, end - 1) for start, end in zip(starts, ends, strict=False)
        ]


# -- columns


def read_columns(
    path: AnyPath, columns: TagColumns, counts: Counter
) -> Iterator[Sentence]:
    """Yields the sentences of a CoNLL file, with tags as they are.

    Args:
      path: the file.
      columns: of words and tags; without a column of tags there are none.
      counts: receives `comment_lines` and `documents`.
    Raises:
      ValueError: a line has more or fewer columns than the first one.
    """
    lines = _lines(path)
    first = next(
        (n for n, line in enumerate(lines) if _is_word(line) and not _is_note(line)),
        None,
    )
    if first is None:
        # Only words that look like comments, if any.
        first = next((n for n, line in enumerate(lines) if _is_word(line)), None)
    if first is None:
        return
    separator = "\t" if "\t" in lines[first] else None
    width = len(lines[first].split(separator))
    token = _column(columns.token, width)
    if token is None:
        raise ValueError(
            f"{path}, line {first + 1}: there are {width} columns, so that "
            f"--token_column={columns.token} names none: count them from 0."
        )
    tag = _column(columns.tag, width)
    start = 0
    rows: list[list[str]] = []
    for number, line in enumerate(lines):
        cells = line.split(separator)
        is_word = _is_word(line)
        if is_word and not rows and _is_note(line):
            is_word = len(cells) == width and all(map(str.strip, cells))
            counts["comment_lines"] += not is_word
        elif not _is_blank(line) and not is_word:
            counts["documents"] += 1
        if is_word:
            _check_cells(path, number, cells, width, first, token)
            start = start if rows else number
            rows.append(cells)
        elif rows:
            yield _sentence(rows, start, token, tag)
            rows = []
    if rows:
        yield _sentence(rows, start, token, tag)


def _lines(path: AnyPath) -> list[str]:
    content = read_content(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = 1 + content.count(b"\n", 0, error.start)
        raise ValueError(f"{path}, line {line}: not UTF-8: convert it.") from None
    return [line.rstrip("\r") for line in text.split("\n")]


def _is_blank(line: str) -> bool:
    """True for white space, and for a byte order mark that tools left inside a file."""
    return not line.strip().strip("\ufeff")


def _is_word(line: str) -> bool:
    return not _is_blank(line) and not line.startswith(_DOCUMENT)


def _is_note(line: str) -> bool:
    """True if a line may be a comment."""
    return line.startswith(("# ", "#\t"))


def _column(number: int, width: int) -> int | None:
    """The place of a column; None: there is no such column."""
    return number % width if -width <= number < width else None


def _check_cells(
    path: AnyPath,
    number: int,
    cells: Sequence[str],
    width: int,
    first: int,
    token: int,
) -> None:
    if len(cells) != width:
        raise ValueError(
            f"{path}, line {number + 1}: {len(cells)} columns, but line {first + 1} "
            f"has {width}: every word must have as many; an empty line ends a sentence."
        )
    if not cells[token]:
        raise ValueError(
            f"{path}, line {number + 1}: the word in column {token} is empty."
        )


def _sentence(
    rows: Sequence[Sequence[str]], start: int, token: int, tag: int | None
) -> Sentence:
    tags = None
    if tag is not None and tag != token:
        tags = tuple(cells[tag] for cells in rows)
    words = tuple(cells[token] for cells in rows)
    return Sentence(words, tags, start + 1, tuple(map(tuple, rows)))


# -- JSON


def read_objects(path: AnyPath, counts: Counter) -> Iterator[Sentence]:
    """Yields the sentences of JSON lines, with tags as they are or of entities.

    Args:
      path: the file.
      counts: receives `inexact_entities`, which begin or end within a word, and
        `lost_entities`, which have no word of their own.
    Raises:
      ValueError: an object is none of those that `tagged_files.py` shows.
    """
    for line, value in json_objects.objects(path):
        place = f"{path}, line {line}"
        if "tokens" in value:
            yield _tokens(value, line, place)
        elif "text" in value:
            yield _text(value, line, place, counts)
        else:
            raise ValueError(
                f"{place}: an object must have 'tokens' or 'text'. It has "
                f"{sorted(value)!s:.200}."
            )


def _tokens(value: dict, line: int, place: str) -> Sentence:
    words = json_objects.list_of(value, "tokens", place)
    for word in words:
        if not json_objects.text(word, "tokens", place):
            raise ValueError(f"{place}: a token is empty: leave it out.")
        if any(character in word for character in "\t\r\n"):
            raise ValueError(f"{place}: a token has a tab or a line end: {word!r:.60}.")
    # Data sets of Hugging Face have the tags of entities under the second name.
    name = "tags" if "tags" in value else "ner_tags"
    if value.get(name) is None:
        return Sentence(tuple(words), None, line)
    tags = json_objects.list_of(value, name, place)
    for tag in tags:
        json_objects.text(tag, "tags", place)
    if len(tags) != len(words):
        raise ValueError(
            f"{place}: {len(words)} tokens, but {len(tags)} tags: give each its own."
        )
    return Sentence(tuple(words), tuple(tags), line)


def _text(value: dict, line: int, place: str, counts: Counter) -> Sentence:
    text = json_objects.text(value["text"], "text", place)
    ranges = split_words(text)
    words = tuple(text[start:end] for start, end in ranges)
    tags = None
    if value.get("entities") is not None:
        listed = json_objects.list_of(value, "entities", place)
        found = sorted(_entity(each, text, place) for each in listed)
        tags = tuple(_tags_of_spans(found, ranges, place, counts))
    return Sentence(words, tags, line, text=text, ranges=ranges)


def _entity(value: Any, text: str, place: str) -> Entity:
    if not isinstance(value, dict):
        raise ValueError(
            f"{place}: an entity must be an object of start, end and label. Received "
            f"{value!r:.60}."
        )
    start, end = (json_objects.member(value, name, place) for name in ("start", "end"))
    is_whole = type(start) is int and type(end) is int
    if not (is_whole and 0 <= start < end <= len(text)):
        raise ValueError(
            f"{place}: an entity must start and end within the text's {len(text)} "
            f"characters, and have one. Received {start!r:.60} to {end!r:.60}."
        )
    label = json_objects.text(
        json_objects.member(value, "label", place), "label", place
    )
    if not label.strip() or "\t" in label or "\n" in label:
        raise ValueError(f"{place}: {label!r:.60} is no label: give a short name.")
    return Entity(start, end, label)


def _tags_of_spans(
    found: Sequence[Entity],
    ranges: Sequence[tuple[int, int]],
    place: str,
    counts: Counter,
) -> list[str]:
    """The tag of each word: that of the entity which has a character of it."""
    spans: list[Entity] = []
    for previous, entity in zip((None, *found), found, strict=False):
        if previous and entity.start < previous.end:
            raise ValueError(
                f"{place}: the entities at {previous.start} and {entity.start} "
                "overlap: a word has one tag; keep one of them."
            )
        taken = spans[-1].end if spans else 0
        inside = [
            word
            for word, (start, end) in enumerate(ranges)
            if word >= taken and start < entity.end and end > entity.start
        ]
        if not inside:
            counts["lost_entities"] += 1
            continue
        first, last = inside[0], inside[-1]
        borders = ranges[first][0], ranges[last][1]
        counts["inexact_entities"] += borders != (entity.start, entity.end)
        spans.append(Entity(first, last + 1, entity.label))
    return entities.iob2(spans, len(ranges))
