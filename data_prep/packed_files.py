"""Reads packed files (.gz, .zst) as if they were not packed."""

import contextlib
import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import PurePath
from typing import IO, Any, cast

from albert_tf.storage import PathLike

PACKED = (".gz", ".zst")
# What a damaged file raises while it is read; gzip's and pyarrow's are OSErrors too.
_DAMAGED = (EOFError, zlib.error, OSError)


def is_packed(path: PathLike) -> bool:
    """True if a file's name says that it is packed."""
    return str(path).lower().endswith(PACKED)


def kind(path: PathLike) -> str:
    """The suffix that says what a file holds: ".csv" of x.csv and of x.csv.gz."""
    name = PurePath(str(path))
    return (name.with_suffix("") if is_packed(path) else name).suffix.lower()


@contextlib.contextmanager
def explained_damage(path: PathLike) -> Iterator[None]:
    """Says in a line that a packed file cannot be read.

    Raises:
      OSError: the file is packed, and reading it failed.
    """
    try:
        yield
    except _DAMAGED as error:
        if not is_packed(path):
            raise
        raise OSError(f"{path} cannot be unpacked ({error}): copy it again.") from error


def unpacked(file: IO[bytes], path: PathLike) -> IO[bytes]:
    """The content of a file, for reading in order.

    Args:
      file: the opened file.
      path: its path, whose suffix says how it is packed. Several packed streams may
        follow each other.
    Returns:
      The file itself if it is not packed.
    """
    name = str(path).lower()
    if name.endswith(".gz"):
        return cast(IO[bytes], gzip.GzipFile(fileobj=file))
    if name.endswith(".zst"):
        # Few commands read such files, and all would wait for it.
        import pyarrow as pa

        stream: Any = pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd")
        return io.BufferedReader(stream)
    return file
