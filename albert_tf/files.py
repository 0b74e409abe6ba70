"""Reads and writes whole files, local or in a bucket: JSON, digests, atomic writes.

A local file is made under a temporary name beside its own (.NAME.1a2b3c4d.partial) and
then renamed; one of a bucket is made among the temporary files and then uploaded, which
the bucket does as a whole. So whatever stands under its own name is complete. Folders:
folders.py; paths: storage.py.

On disks without locks (locks.py) two runs that make the same files may waste each
other's time, but each result is still complete.
"""

import collections
import contextlib
import errno
import hashlib
import json
import math
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from upath import UPath

from albert_tf.file_kinds import check_replaceable
from albert_tf.locks import waiting
from albert_tf.partial_files import make_partial, remove_abandoned, writing
from albert_tf.storage import AnyPath, PathLike, as_path, check_writable, move_up


def make_folder(path: PathLike) -> None:
    """Makes a folder and those above it, unless they are there.

    Buckets have no folders: there it proves that files can be written.

    Raises:
      ValueError: the path's scheme is unknown.
      NotADirectoryError: it, or a part of it, is the path of a file.
      OSError: the folder cannot be made, or the bucket not written.
    """
    folder = as_path(path)
    for part in (folder, *folder.parents):
        if part.is_file():
            reason = "this is a file, not a folder"
            raise NotADirectoryError(errno.ENOTDIR, reason, str(part))
    if isinstance(folder, UPath):
        check_writable(folder)
    else:
        folder.mkdir(parents=True, exist_ok=True)


class RepeatedKeyError(ValueError):
    """A JSON object has a key twice, so that one of the values would be lost."""


def read_json(path: PathLike, *, missing_ok: bool = False) -> dict[str, Any]:
    """Reads a file that holds one JSON object.

    Args:
      path: the file, UTF-8.
      missing_ok: return {} if there is no such file.
    Raises:
      FileNotFoundError: there is no such file.
      ValueError: it is not valid JSON, is nested too deeply, has a key twice in one
        object, or is not an object.
    """
    file = as_path(path)
    if not file.is_file():
        if missing_ok:
            return {}
        raise FileNotFoundError(f"There is no file {path}: check the path.")
    try:
        value = parse_json(file.read_bytes().decode("utf-8-sig"))
    except ValueError as error:
        raise ValueError(
            f"{path} is not valid JSON ({error}): copy it again or make it again."
        ) from error
    if not isinstance(value, dict):
        raise ValueError(
            f"{path} must hold one JSON object. Received a {type(value).__name__}: "
            "copy it again or make it again."
        )
    return value


def parse_json(text: str) -> Any:
    """Parses JSON strictly: a key may stand only once in an object.

    Raises:
      ValueError: it is not valid JSON, is nested too deeply, or has a key twice.
    """
    try:
        return json.loads(text, object_pairs_hook=unique_keys)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Makes a JSON object of its keys and values; a decoder's `object_pairs_hook`.

    Raises:
      RepeatedKeyError: a key is there twice.
    """
    values = dict(pairs)
    if len(values) < len(pairs):
        counts = collections.Counter(key for key, _ in pairs)
        [(twice, _)] = counts.most_common(1)
        raise RepeatedKeyError(f"an object has the key {twice!r:.80} twice")
    return values


def json_bytes(value: Any, indent: int = 1) -> bytes:
    """Encodes a value as strict JSON that people can read.

    JSON has no infinities and no NaN: inf becomes "inf", -inf "-inf", and NaN null.
    """
    try:
        text = _encode(value, indent)
    except ValueError:
        text = _encode(_without_special_numbers(value), indent)
    # Bytes of a path that are not UTF-8 become escapes, which JSON can hold.
    return f"{text}\n".encode("utf-8", "backslashreplace")


def _encode(value: Any, indent: int) -> str:
    return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)


def _without_special_numbers(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(float(value))
    if isinstance(value, Mapping):
        return {key: _without_special_numbers(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_special_numbers(each) for each in value]
    return value


def write_json(path: PathLike, value: Any) -> None:
    """Writes a value as JSON, as `json_bytes` and `write_whole`."""
    write_whole(path, json_bytes(value))


def write_whole(path: PathLike, content: bytes) -> None:
    """Writes a file atomically and durably: its name never stands for a part of it.

    Raises:
      ValueError: the path's scheme is unknown.
      FileExistsError: a file of another kind is there.
      OSError: the disk is full, for instance; the message names the file.
    """
    write_together({path: content})


def write_together(contents: Mapping[Any, bytes]) -> None:
    """Writes files that belong together, in one folder or several: all or none.

    Args:
      contents: path (`storage.PathLike`) -> content. They are renamed in this order;
        processes that write the same local files at once do so one after the other.
    Raises:
      ValueError, FileExistsError, OSError: as `write_whole`.
    """
    for path, content in contents.items():
        check_replaceable(path, content)
    with contextlib.ExitStack() as stack:
        partials = {}
        for path, content in contents.items():
            file = stack.enter_context(partial_file(path))
            partials[file.name] = as_path(path)
            with writing(path):
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        if len(partials) > 1:
            first = next(iter(partials.values()))
            stack.enter_context(waiting(first.with_name(f".{first.name}.lock")))
        _rename_all(partials)


def _rename_all(partials: Mapping[str, AnyPath]) -> None:
    """Renames files; if one cannot be, those before it are as they were."""
    older: dict[AnyPath, bytes | None] = {}
    try:
        for partial, path in partials.items():
            content = None
            if len(partials) > 1 and path.is_file():
                content = path.read_bytes()
            with writing(path):
                move_up(partial, path)
            older[path] = content
    except OSError:
        for path, content in older.items():
            if content is None:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(content)
        raise


def write_shared(path: PathLike, content: bytes) -> None:
    """Writes a file atomically while other processes may write the same one.

    The file is not synchronized with the disk: a power failure may leave it too short.

    Raises:
      OSError: the disk is full, for instance.
    """
    target = as_path(path)
    if isinstance(target, UPath):
        with writing(target):
            target.write_bytes(content)
        return
    with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as file:
        try:
            with writing(path):
                file.write(content)
                file.close()
                os.replace(file.name, target)
        except OSError:
            os.unlink(file.name)
            raise


@contextlib.contextmanager
def partial_file(path: PathLike) -> Iterator[IO[bytes]]:
    """Yields a new local file to fill, and to give to `storage.move_up` with `path`.

    It lies beside a local path, and among the temporary files for one of a bucket.
    Temporary files that killed processes left for the same path are removed first; the
    new one is removed if it was not moved up.

    Raises:
      ValueError: the path's scheme is unknown.
      OSError: the file cannot be made.
    """
    place = as_path(path)
    if isinstance(place, UPath):
        place = Path(tempfile.gettempdir(), place.name)
    with writing(place):
        remove_abandoned(place)
        partial, descriptor = make_partial(place, is_folder=False)
    file = open(partial, "r+b", opener=lambda *_: descriptor)  # noqa: SIM115
    try:
        yield file
    finally:
        partial.unlink(missing_ok=True)
        # A rest that could not be written has raised its error already.
        with contextlib.suppress(OSError):
            file.close()


def sha256(path: PathLike) -> str:
    """Returns the SHA-256 digest of a file's content, in hexadecimal."""
    content = hashlib.sha256()
    with as_path(path).open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            content.update(block)
    return content.hexdigest()


def digest(content: bytes) -> str:
    """Returns the SHA-256 digest of some bytes, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def short_digest(value: Any) -> Any:
    """Shortens a digest for a message; returns other values unchanged."""
    return f"{value[:12]}…" if isinstance(value, str) and len(value) == 64 else value


def require_utf8(path: PathLike) -> None:
    """Raises ValueError unless a path is UTF-8, as TensorFlow and JSON need it."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"Paths must be UTF-8. Received {str(path)!r}: rename it."
        ) from None
