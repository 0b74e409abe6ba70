"""Input files and parts of them -> lines of text; `corpus.py` makes sentences of them.

A file is read as a stream of bytes, in blocks, whatever its lines are like. A part of a
file (`Part`) starts and ends between two lines, so that several processes can share a
file; `parts.py` finds such places.
"""

import gzip
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

# Lines are read, and sentences found, in blocks of about this many bytes at most: then
# a file without a line break or a blank line needs no more memory than any other, at
# the price of a sentence cut in two every few hundred. (The time of sentencex 1.0 grows
# with the square of a paragraph: 11 MB/s in blocks of 64 KiB, 3 MB/s in 1 MiB.)
BLOCK_BYTES = 1 << 16
_PROGRESS_BYTES = 1 << 16

BAD_UTF8 = "lines that are not UTF-8"

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Part(NamedTuple):
    """A half-open range of bytes of a file; `end` None: to wherever the file ends."""

    path: str
    start: int = 0
    end: int | None = None


@dataclass(frozen=True)
class Source:
    """What to read and how; see `corpus.read_sentences` for the fields."""

    part: Part
    on_bad_text: str
    language: str
    counts: Counter = field(default_factory=Counter)
    progress: Callable[[int], object] | None = None

    def reject(self, line: int, problem: str, reason: str) -> None:
        """Raises ValueError, or counts under `reason` where bad text is skipped.

        Args:
          line: 1-based, of the part.
          problem: for the error.
          reason: for the count.
        """
        if self.on_bad_text == "error":
            line += _lines_before(self.part)
            raise ValueError(
                f"{self.part.path}, line {line}: {problem}. Correct it, or leave such "
                "lines out with --on_bad_text=skip."
            )
        self.counts[reason] += 1


def text_lines(source: Source, whole: bool = False) -> Iterator[tuple[int, str]]:
    """Yields (1-based line number, decoded line); bad UTF-8 is raised or counted.

    A line longer than a block comes in several parts, unless it is wanted whole.
    """
    for number, line in _byte_lines(source, whole):
        try:
            yield number, line.decode("utf-8")
        except UnicodeDecodeError as error:
            problem = f"not UTF-8 (byte 0x{line[error.start]:02x})"
            source.reject(number, problem, BAD_UTF8)


def _byte_lines(source: Source, whole: bool) -> Iterator[tuple[int, bytes]]:
    path, start, end = source.part
    number, reported, rest = 1, start, b""
    with open(path, "rb") as packed:
        packed.seek(start)
        is_packed = path.endswith(".gz")
        file = gzip.GzipFile(fileobj=packed) if is_packed else packed
        # Bytes that are still to come; those of a packed file are not known.
        left = None if end is None or is_packed else end - start
        while read := _read_line(file, left, whole, path):
            left = left and left - len(read)
            line, rest = rest + read, b""
            if not line.endswith(b"\n") and len(line) >= BLOCK_BYTES and not whole:
                line, rest = _split_block(line)
            first = number == 1 and start == 0
            yield number, line.removeprefix(_BYTE_ORDER_MARK if first else b"")
            number += line.endswith(b"\n")
            done = packed.tell()
            if source.progress and done - reported >= _PROGRESS_BYTES:
                source.progress(done - reported)
                reported = done
        if rest:
            yield number, rest
        if left:
            raise OSError(
                f"{path} became shorter while it was read: start again once it stays "
                "as it is."
            )
        if source.progress:
            source.progress(packed.tell() - reported)


def _read_line(file, left: int | None, whole: bool, path: str) -> bytes:
    """The next line, or a block of a long one; empty where the part ends."""
    limit = -1 if whole else BLOCK_BYTES
    if left is not None:
        limit = left if whole else min(limit, left)
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


def _lines_before(part: Part) -> int:
    """Line breaks in front of a part; read only to say where an error is."""
    count = 0
    with open(part.path, "rb") as file:
        while block := file.read(min(1 << 20, part.start - file.tell())):
            count += block.count(b"\n")
    return count
