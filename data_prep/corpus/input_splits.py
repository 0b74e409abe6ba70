"""Input files -> parts of about equal size, so that processes can share the reading.

How files are divided depends on the files and the format alone, never on who reads.
A part begins where a document (lines, jsonl) or a paragraph (raw) does. Packed files
and those of one JSON value cannot be divided; small files share a part.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from data_prep.corpus.files import Part

# Parts of a text are at least so many, unless they would be smaller, or larger, than
# these sizes in bytes. Large ones keep the files few that are made of them.
_WANTED_PARTS = 64
_SMALLEST_PART = 1 << 18
_LARGEST_PART = 1 << 22

# After what a document or a paragraph begins. A blank line holds ASCII white space.
_BLANK_LINE = re.compile(rb"\n[ \t\r\v\f]*\n")
_LINE_BREAK = re.compile(rb"\n")
_BREAKS = {"lines": _BLANK_LINE, "raw": _BLANK_LINE, "jsonl": _LINE_BREAK}

# Bytes that are searched for a break at once, and that two searches share, so that a
# break between them is seen.
_WINDOW = 1 << 16
_OVERLAP = 1 << 10


@dataclass(frozen=True)
class InputFile:
    """An input file as it was when the run began.

    Attributes:
      path: where it lies.
      size: in bytes.
      modified: time of its last change, in nanoseconds.
    """

    path: str
    size: int
    modified: int


def look_at(paths: Sequence[str]) -> list[InputFile]:
    """Sizes and times of the input files."""
    stats = [os.stat(path) for path in paths]
    return [
        InputFile(path, stat.st_size, stat.st_mtime_ns)
        for path, stat in zip(paths, stats, strict=True)
    ]


def check_unchanged(files: Sequence[InputFile]) -> None:
    """Raises OSError if a file is not as it was: rows would be of two states of it."""
    for file in files:
        try:
            same = look_at([file.path]) == [file]
        except FileNotFoundError:
            same = False
        if not same:
            raise OSError(
                f"Input file {file.path} changed or vanished while it was read: start "
                "again once it stays as it is."
            )


def divide(files: Sequence[InputFile], input_format: str) -> list[list[Part]]:
    """Divides files into work for processes, in text order.

    Args:
      files: what to read.
      input_format: a key of `corpus.INPUT_FORMATS`.
    Returns:
      Groups of parts: several small files, one file, or a part of one.
    """
    total = sum(file.size for file in files)
    wanted = min(max(total // _WANTED_PARTS, _SMALLEST_PART), _LARGEST_PART)
    groups, size = [], wanted
    for file in files:
        divisible = input_format in _BREAKS and not file.path.endswith(".gz")
        if divisible and file.size > wanted:
            groups.extend([part] for part in _parts(file, input_format, wanted))
            size = wanted
            continue
        if size + file.size > wanted:
            groups.append([])
            size = 0
        groups[-1].append(Part(file.path, 0, file.size))
        size += file.size
    return groups


def _parts(file: InputFile, input_format: str, wanted: int) -> Iterator[Part]:
    """Parts of a file, all but the last at least `wanted` bytes long."""
    count = max(1, round(file.size / wanted))
    step = -(-file.size // count)
    start = 0
    with open(file.path, "rb") as opened:
        while start < file.size:
            end = _next_break(opened, start + step, file.size, _BREAKS[input_format])
            yield Part(file.path, start, end)
            start = end


def _next_break(file, position: int, size: int, pattern: re.Pattern) -> int:
    """The end of the first break that begins at `position` or later; else `size`."""
    while position < size:
        file.seek(position)
        window = file.read(min(_WINDOW, size - position))
        if match := pattern.search(window):
            return min(position + match.end(), size)
        if len(window) <= _OVERLAP:
            break
        position += len(window) - _OVERLAP
    return size
