"""Reads and writes whole files: JSON, digests, atomic writes, locks between processes.

A file or folder is made under a temporary name beside its own (`partial_path`) and then
renamed, so that whatever stands under its own name is complete.

Locks end with the process that holds them, even if it is killed. Some network disks
have no locks. Two runs that make the same files there may waste each other's time, but
each result is still complete.
"""

import collections
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any


class RepeatedKeyError(ValueError):
    """A JSON object has a key twice, so that one of the values would be lost."""


def read_json(
    path: str | os.PathLike[str], *, missing_ok: bool = False
) -> dict[str, Any]:
    """Reads a file that holds one JSON object.

    Args:
      path: the file, UTF-8.
      missing_ok: return {} if there is no such file.
    Raises:
      FileNotFoundError: there is no such file.
      ValueError: it is not valid JSON, is nested too deeply, has a key twice in one
        object, or is not an object.
    """
    if not Path(path).is_file():
        if missing_ok:
            return {}
        raise FileNotFoundError(f"There is no file {path}: check the path.")
    try:
        value = parse_json(Path(path).read_text(encoding="utf-8-sig"))
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
    """Encodes a value as JSON that people can read."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return f"{text}\n".encode()


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Writes a value as JSON, atomically as `write_whole`."""
    write_whole(path, json_bytes(value))


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Writes a file atomically and durably: its name never stands for a part of it."""
    partial = partial_path(path)
    try:
        partial.write_bytes(content)
        sync(partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def write_shared(path: str | os.PathLike[str], content: bytes) -> None:
    """Writes a file atomically while other processes may write the same one.

    The file is not synchronized with the disk: a power failure may leave it too short.

    Raises:
      OSError: the disk is full, for instance.
    """
    with tempfile.NamedTemporaryFile(dir=Path(path).parent, delete=False) as file:
        try:
            with writing(path):
                file.write(content)
                file.close()
                os.replace(file.name, path)
        except OSError:
            os.unlink(file.name)
            raise


@contextlib.contextmanager
def whole_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields an empty folder to fill, which is renamed to `path` if no error occurs.

    An earlier temporary folder of the same name is removed first; after an error
    nothing is left.
    """
    partial = partial_path(path)
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        yield partial
        for file in partial.rglob("*"):
            if file.is_file():
                sync(file)
        os.replace(partial, path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def partial_path(path: str | os.PathLike[str]) -> Path:
    """Returns the temporary name of a file or folder until it is complete."""
    path = Path(path)
    return path.with_name(f".{path.name}.partial")


@contextlib.contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Makes errors of the disk name the file that is being written."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise OSError(f"{path} cannot be written: {reason}.") from error


def sync(path: str | os.PathLike[str]) -> None:
    """Waits until a file's content is on the disk."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def sha256(path: str | os.PathLike[str]) -> str:
    """Returns the SHA-256 digest of a file's content, in hexadecimal."""
    content = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            content.update(block)
    return content.hexdigest()


def digest(content: bytes) -> str:
    """Returns the SHA-256 digest of some bytes, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def short_digest(value: Any) -> Any:
    """Shortens a digest for a message; returns other values unchanged."""
    return f"{value[:12]}…" if isinstance(value, str) and len(value) == 64 else value


def require_utf8(path: str | os.PathLike[str]) -> None:
    """Raises ValueError unless a path is UTF-8, as TensorFlow and JSON need it."""
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"Paths must be UTF-8. Received {os.fspath(path)!r}: rename it."
        ) from None


@contextlib.contextmanager
def exclusive(path: str | os.PathLike[str], purpose: str) -> Iterator[None]:
    """Holds an exclusive lock.

    Args:
      path: the lock file, created if missing; it is not removed.
      purpose: what the holder is doing, for the message: "making rows".
    Raises:
      OSError: another process holds the lock, or the file cannot be written.
    """
    with open(path, "a") as file:
        if try_lock(file) is False:
            raise OSError(f"Another process is {purpose}: let it finish, or end it.")
        yield


def try_lock(file: IO) -> bool | None:
    """Tries to lock an open file until it is closed.

    Returns:
      True if this process holds the lock, False if another does, None if the disk has
      no locks.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def share_lock(file: IO) -> None:
    """Waits for a shared lock on an open file; an exclusive one becomes shared."""
    with contextlib.suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_SH)
