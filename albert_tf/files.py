"""Reads and writes whole files: JSON, digests, atomic writes.

A file or folder is made under a temporary name beside its own (.NAME.1a2b3c4d.partial)
and then renamed, so that whatever stands under its own name is complete. The temporary
one is always new, never a link or a file that is there, and is locked in the meantime.
What a killed process left has no lock, and is removed when the name is written again.

On disks without locks (locks.py) two runs that make the same files may waste each
other's time, but each result is still complete.
"""

import collections
import contextlib
import hashlib
import json
import math
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from albert_tf.file_kinds import check_replaceable
from albert_tf.locks import is_at, try_lock, waiting

# A path of another kind of storage; `Path` makes one slash of two.
_REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|(gs|s3|hdfs|https?|file):/")
# Age of a temporary file, in seconds, after which nobody writes it any more. It counts
# only on disks without locks.
_ABANDONED_AFTER = 7 * 24 * 3600


def check_local(path: str | os.PathLike[str]) -> None:
    """Checks that a path is one of the file system.

    Raises:
      ValueError: it is of another scheme, as gs://bucket/folder.
    """
    if _REMOTE.match(os.fspath(path)):
        raise ValueError(
            f"{path} is not a path of the file system: copy the files to a local or "
            "mounted disk, and name that path."
        )


def make_folder(path: str | os.PathLike[str]) -> None:
    """Makes a folder and those above it, unless they are there.

    Raises:
      ValueError: the path is not one of the file system.
      OSError: the folder cannot be made.
    """
    check_local(path)
    Path(path).mkdir(parents=True, exist_ok=True)


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
    check_local(path)
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


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Writes a value as JSON, as `json_bytes` and `write_whole`."""
    write_whole(path, json_bytes(value))


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Writes a file atomically and durably: its name never stands for a part of it.

    Raises:
      ValueError: the path is not one of the file system.
      FileExistsError: a file of another kind is there.
      OSError: the disk is full, for instance; the message names the file.
    """
    write_together({path: content})


def write_together(contents: Mapping[str | os.PathLike[str], bytes]) -> None:
    """Writes files that belong together, in one folder or several: all or none.

    Args:
      contents: path -> content. They are renamed in this order; processes that write
        the same files at once do so one after the other.
    Raises:
      ValueError, FileExistsError, OSError: as `write_whole`.
    """
    for path, content in contents.items():
        check_local(path)
        check_replaceable(path, content)
    with contextlib.ExitStack() as stack:
        partials = {}
        for path, content in contents.items():
            file = stack.enter_context(partial_file(path))
            partials[file.name] = Path(path)
            with writing(path):
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        if len(partials) > 1:
            first = next(iter(partials.values()))
            stack.enter_context(waiting(first.with_name(f".{first.name}.lock")))
        _rename_all(partials)


def _rename_all(partials: Mapping[str, Path]) -> None:
    """Renames files; if one cannot be, those before it are as they were."""
    older: dict[Path, bytes | None] = {}
    try:
        for partial, path in partials.items():
            content = None
            if len(partials) > 1 and path.is_file():
                content = path.read_bytes()
            with writing(path):
                os.replace(partial, path)
            older[path] = content
    except OSError:
        for path, content in older.items():
            if content is None:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(content)
        raise


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
def partial_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Yields a new file beside `path` to fill, and to rename to `path`.

    Temporary files that killed processes left for the same path are removed first; the
    new one is removed if it was not renamed.

    Raises:
      ValueError: the path is not one of the file system.
      OSError: the file cannot be made.
    """
    check_local(path)
    with writing(path):
        _remove_abandoned(Path(path))
        partial, descriptor = _make_partial(Path(path), is_folder=False)
    file = open(partial, "r+b", opener=lambda *_: descriptor)  # noqa: SIM115
    try:
        yield file
    finally:
        partial.unlink(missing_ok=True)
        # A rest that could not be written has raised its error already.
        with contextlib.suppress(OSError):
            file.close()


@contextlib.contextmanager
def whole_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields an empty folder to fill, which is renamed to `path` if no error occurs.

    Temporary folders that killed processes left for the same path are removed first;
    after an error nothing is left.

    Raises:
      ValueError: the path is not one of the file system.
      FileExistsError: at the end `path` is there and is not an empty folder.
    """
    check_local(path)
    path = Path(path)
    make_folder(path.parent)
    _remove_abandoned(path)
    partial, descriptor = _make_partial(path, is_folder=True)
    try:
        yield partial
        for file in partial.rglob("*"):
            if file.is_file():
                sync(file)
        try:
            os.replace(partial, path)
        except OSError as error:
            if os.path.lexists(path):
                raise FileExistsError(
                    f"{path} is in use, by another process or a file: name another."
                ) from error
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        os.close(descriptor)


def _make_partial(path: Path, is_folder: bool) -> tuple[Path, int]:
    """Makes a temporary file or folder.

    Returns:
      Its path, and a descriptor that holds its lock.
    """
    while True:
        partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
        flags = os.O_CLOEXEC | os.O_NOFOLLOW
        if is_folder:
            os.mkdir(partial)
            flags |= os.O_RDONLY | os.O_DIRECTORY
        else:
            flags |= os.O_RDWR | os.O_CREAT | os.O_EXCL
        descriptor = os.open(partial, flags, 0o666)
        # A process that looks for abandoned files may have been first to lock it.
        if try_lock(descriptor) is not False and is_at(descriptor, partial):
            return partial, descriptor
        os.close(descriptor)


def _remove_abandoned(path: Path) -> None:
    """Removes temporary files of a path that no process writes any more."""
    name = re.compile(re.escape(f".{path.name}.") + r"[0-9a-f]{8}\.partial")
    with contextlib.suppress(OSError), os.scandir(path.parent) as entries:
        for partial in [e.path for e in entries if name.fullmatch(e.name)]:
            _remove_if_abandoned(partial)


def _remove_if_abandoned(partial: str) -> None:
    try:
        # Not through a link; and without waiting, if it is a pipe.
        descriptor = os.open(partial, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return
    try:
        status = os.fstat(descriptor)
        is_free = try_lock(descriptor)
        if is_free is None:
            is_free = time.time() - status.st_mtime > _ABANDONED_AFTER
        if not is_free or status.st_uid != os.geteuid():
            return
        if stat.S_ISDIR(status.st_mode):
            shutil.rmtree(partial, ignore_errors=True)
        elif stat.S_ISREG(status.st_mode):
            os.unlink(partial)
    finally:
        os.close(descriptor)


class _WriteError(OSError):
    """An error that names the file that could not be written."""


@contextlib.contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Makes errors of the disk name the file that is being written."""
    try:
        yield
    except (_WriteError, FileExistsError):
        raise
    except OSError as error:
        reason = error.strerror or error
        raise _WriteError(f"{path} cannot be written: {reason}.") from error


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
