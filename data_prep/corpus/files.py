"""Opens input files: streams their lines and divides them among processes.

A file is read as a stream of bytes in blocks, however long its lines are. A part of a
file (`Part`) starts and ends between two lines, so that several processes can share a
file. The division into parts depends on the files and the format alone, never on the
number of processes. A part begins at a document (lines, jsonl) or a paragraph (raw).
Packed files and files of one JSON value cannot be divided; small files share a part.
"""

import concurrent.futures
import io
import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, NamedTuple, TypeVar, cast

from upath import UPath

from albert_tf.files import make_folder
from albert_tf.storage import PathLike, as_path, is_local
from data_prep.column_files import COLUMN_FILES
from data_prep.packed_files import explained_damage, is_packed, kind, unpacked

# Lines are read, and sentences found, in blocks of about this many bytes at most: then
# a file without a line break or a blank line needs no more memory than any other, at
# the price of a sentence cut in two every few hundred. (The time of sentencex 1.0 grows
# with the square of a paragraph: 11 MB/s in blocks of 64 KiB, 3 MB/s in 1 MiB.)
BLOCK_BYTES = 1 << 16
_PROGRESS_BYTES = 1 << 16

BAD_UTF8 = "lines that are not UTF-8"

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# A text is divided into at least this many parts, unless they would be smaller or
# larger than these sizes in bytes. Large parts keep the number of files made of them
# low.
_WANTED_PARTS = 64
_SMALLEST_PART = 1 << 18
_LARGEST_PART = 1 << 22

# Separators in front of a document or paragraph, by input format. A blank line holds
# ASCII white space.
_BLANK_LINE = re.compile(rb"\n[ \t\r\v\f]*\n")
_LINE_BREAK = re.compile(rb"\n")
_SEPARATORS = {"lines": _BLANK_LINE, "raw": _BLANK_LINE, "jsonl": _LINE_BREAK}

# Bytes that are searched for a separator at once, and the overlap of two searches,
# which keeps a separator between them from being missed.
_WINDOW = 1 << 16
_OVERLAP = 1 << 10

# Bytes of a bucket's file that a request asks for, and requests at a time about
# different files.
_REQUEST_BYTES = 1 << 20
_REQUESTS = 32
# Keys under which buckets tell the state of a file.
_VERSIONS = ("ETag", "etag", "generation", "created")

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Part(NamedTuple):
    """A half-open range of bytes of a file; `end` None stands for the file's end."""

    path: str
    start: int = 0
    end: int | None = None


@dataclass(frozen=True)
class Source:
    """A part of a file, and how to read it.

    Attributes:
      part: the bytes to read.
      on_bad_text, language: see `reader.ReadingConfig`.
      counts: what is left out is added here, by reason.
      progress: called now and then with the bytes read since the last call.
    """

    part: Part
    on_bad_text: str
    language: str
    counts: Counter = field(default_factory=Counter)
    progress: Callable[[int], object] | None = None

    def reject(self, line: int, problem: str, reason: str) -> None:
        """Counts bad text under `reason` if it is to be skipped.

        Args:
          line: 1-based, counted from the start of the part.
          problem: for the error message.
          reason: the key of the count.
        Raises:
          ValueError: bad text is not to be skipped.
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

    A line longer than a block comes in several parts, unless `whole` is set.
    """
    for number, line in _byte_lines(source, whole):
        try:
            yield number, line.decode("utf-8")
        except UnicodeDecodeError as error:
            problem = f"not UTF-8 (byte 0x{line[error.start]:02x})"
            source.reject(number, problem, BAD_UTF8)


def is_unicode(text: str) -> bool:
    """Tells whether UTF-8 can hold a text.

    It cannot hold one half of a surrogate pair, which JSON can escape.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _byte_lines(source: Source, whole: bool) -> Iterator[tuple[int, bytes]]:
    path, start, end = source.part
    if kind(path) in COLUMN_FILES:
        raise ValueError(
            f"{path} has columns instead of lines: read it with --input_format=parquet."
        )
    number, reported, rest = 1, start, b""
    with open_bytes(path) as packed:
        packed.seek(start)
        file = unpacked(packed, path)
        # Bytes that are still to come; unknown for a packed file.
        left = None if end is None or is_packed(path) else end - start
        while read := _read_line(file, left, whole, path):
            left = left and left - len(read)
            line, rest = rest + read, b""
            if not line.endswith(b"\n") and len(line) >= BLOCK_BYTES and not whole:
                line, rest = _split_block(line)
            is_first = number == 1 and start == 0
            yield number, line.removeprefix(_BYTE_ORDER_MARK if is_first else b"")
            number += line.endswith(b"\n")
            done = packed.tell()
            if source.progress and done - reported >= _PROGRESS_BYTES:
                source.progress(done - reported)
                reported = done
        if rest:
            yield number, rest
        if left:
            raise OSError(
                f"{path} became shorter while it was read: start again once it no "
                "longer changes."
            )
        if source.progress:
            source.progress(packed.tell() - reported)


def _read_line(file: IO[bytes], left: int | None, whole: bool, path: str) -> bytes:
    """Reads the next line, or a block of a long one; empty at the end of the part."""
    limit = -1 if whole else BLOCK_BYTES
    if left is not None:
        limit = left if whole else min(limit, left)
    with explained_damage(path):
        return file.readline(limit)


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


def open_bytes(path: PathLike, request_bytes: int = _REQUEST_BYTES) -> IO[bytes]:
    """Opens a file for reading, by any number of bytes or lines.

    Args:
      path: the file.
      request_bytes: bytes that a request to a bucket asks for.
    """
    file = as_path(path)
    if not isinstance(file, UPath):
        return file.open("rb")
    # Files of fsspec have no `readline(limit)`.
    remote: Any = file.open("rb", buffering=request_bytes)
    return io.BufferedReader(remote, min(request_bytes, BLOCK_BYTES))


def read_content(path: PathLike) -> bytes:
    """Reads a whole file, unpacked."""
    with open_bytes(path) as file, explained_damage(path):
        return unpacked(file, path).read()


def absolute(path: str) -> str:
    """Returns a path that does not depend on the working folder."""
    return os.path.abspath(path) if is_local(path) else path


def map_files(
    function: Callable[[_Item], _Result],
    items: Sequence[_Item],
    paths: Iterable[PathLike],
) -> list[_Result]:
    """Calls a function for each item; for files of buckets in several threads.

    Args:
      function: asks about a file, or reads it.
      items: its arguments.
      paths: the files that it asks about.
    """
    if all(map(is_local, paths)):
        return list(map(function, items))
    with concurrent.futures.ThreadPoolExecutor(_REQUESTS) as threads:
        return list(threads.map(function, items))


def _lines_before(part: Part) -> int:
    """Counts line breaks in front of a part, for an error message."""
    count = 0
    with open_bytes(part.path) as file:
        while block := file.read(min(1 << 20, part.start - file.tell())):
            count += block.count(b"\n")
    return count


@dataclass(frozen=True)
class FileSnapshot:
    """An input file as it was when the run began.

    Attributes:
      path: the file's path.
      size: in bytes.
      modified: time of its last change, in nanoseconds; 0: a bucket does not say it.
      version: what a bucket tells one state of a file from another by.
    """

    path: str
    size: int
    modified: int
    version: str = ""


def stat_files(paths: Sequence[str]) -> list[FileSnapshot]:
    """Notes sizes, times and versions of input files."""
    return map_files(_stat_file, paths, paths)


def _stat_file(path: str) -> FileSnapshot:
    file = as_path(path)
    stat = file.stat()
    version = ""
    if isinstance(file, UPath):
        info = cast(Any, stat).as_info()
        version = str(next((info[key] for key in _VERSIONS if key in info), ""))
    return FileSnapshot(path, stat.st_size, stat.st_mtime_ns, version)


def check_unchanged(files: Sequence[FileSnapshot]) -> None:
    """Checks that no file has changed since its snapshot.

    Raises:
      OSError: a file changed or vanished; rows would be of two states of it.
    """
    for file in files:
        try:
            same = stat_files([file.path]) == [file]
        except FileNotFoundError:
            same = False
        if not same:
            raise OSError(
                f"Input file {file.path} changed or vanished while it was read: start "
                "again once it no longer changes."
            )


def divide(files: Sequence[FileSnapshot], input_format: str) -> list[list[Part]]:
    """Divides files into work for processes, in text order.

    Args:
      files: the files to read.
      input_format: a key of `reader.INPUT_FORMATS`.
    Returns:
      Groups of parts: several small files, one file, or a part of one.
    """
    total = sum(file.size for file in files)
    wanted = min(max(total // _WANTED_PARTS, _SMALLEST_PART), _LARGEST_PART)
    large = [
        file
        for file in files
        if input_format in _SEPARATORS
        and not is_packed(file.path)
        and file.size > wanted
    ]
    parts_of_large = map_files(
        lambda file: list(_parts(file, input_format, wanted)),
        large,
        [file.path for file in large],
    )
    parts = {file: found for file, found in zip(large, parts_of_large, strict=True)}
    groups: list[list[Part]] = []
    size = wanted
    for file in files:
        if file in parts:
            groups.extend([part] for part in parts[file])
            size = wanted
            continue
        if size + file.size > wanted:
            groups.append([])
            size = 0
        groups[-1].append(Part(file.path, 0, file.size))
        size += file.size
    return groups


def part_bytes(parts: Sequence[Part]) -> int:
    """Adds up the sizes of parts whose ends are known."""
    return sum(part.end - part.start for part in parts if part.end is not None)


def _parts(file: FileSnapshot, input_format: str, wanted: int) -> Iterator[Part]:
    """Yields parts of a file, all but the last at least `wanted` bytes long."""
    count = max(1, round(file.size / wanted))
    step = -(-file.size // count)
    separator = _SEPARATORS[input_format]
    start = 0
    with open_bytes(file.path, _WINDOW) as opened:
        while start < file.size:
            end = _separator_end(opened, start + step, file.size, separator)
            yield Part(file.path, start, end)
            start = end


def _separator_end(
    file: IO[bytes], position: int, size: int, separator: re.Pattern[bytes]
) -> int:
    """Finds the end of the first separator from `position` on; `size` without one."""
    while position < size:
        file.seek(position)
        window = file.read(min(_WINDOW, size - position))
        if match := separator.search(window):
            return min(position + match.end(), size)
        if len(window) <= _OVERLAP:
            break
        position += len(window) - _OVERLAP
    return size


def make_writable_folder(folder: PathLike, flag: str) -> None:
    """Makes a folder and proves that files can be written to it.

    Call it before hours are spent on the files.

    Args:
      folder: its path.
      flag: the flag that names the folder, for the error message.
    Raises:
      OSError: the folder cannot be made or written.
    """
    try:
        make_folder(folder)
        # Permission bits do not tell everything (read-only disks): try.
        if is_local(folder):
            with tempfile.TemporaryFile(dir=str(folder)):
                pass
    except OSError as error:
        if not is_local(folder):
            raise
        raise OSError(
            f"The folder {folder} cannot be made or written ({error.strerror}): choose "
            f"another --{flag}."
        ) from error
