"""Locks between processes.

They end with the process that holds them, even if it is killed. Buckets and some
network disks have no locks. There the last process that begins is the one that may
write: it stores a token, and one before it finds at its next check that the token is
not its own, and ends.
"""

import contextlib
import fcntl
import json
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from typing import IO

from upath import UPath

from albert_tf.storage import AnyPath, PathLike, as_path

_TOKEN_FILE = ".writer"


class TakenOverError(OSError):
    """Another process has begun to write the same files, on storage without locks."""


@contextlib.contextmanager
def exclusive(
    path: PathLike, purpose: str, announce: bool = True
) -> Iterator[Callable[[], None]]:
    """Holds an exclusive lock, or fails at once.

    Without locks it stores a token, and says so.

    Args:
      path: a folder; or the lock file, created if missing, which is not removed.
      purpose: what the holder is doing, for the message: "making rows".
      announce: False if the caller has said already that there are no locks.
    Yields:
      A function to call before each write: it raises TakenOverError if another process
      has stored its token since.
    Raises:
      OSError: another process holds the lock, or the file cannot be made.
    """
    place = as_path(path)
    if isinstance(place, UPath):
        with _token(place, purpose, announce) as check:
            yield check
        return
    with open_lock(place) as file:
        is_held = try_lock(file)
        if is_held is False:
            raise OSError(f"Another process is {purpose}: let it finish, or end it.")
        if is_held:
            yield lambda: None
            return
    with _token(place, purpose, announce) as check:
        yield check


@contextlib.contextmanager
def _token(path: AnyPath, purpose: str, announce: bool) -> Iterator[Callable[[], None]]:
    """Stores a token and yields its check; the token is removed at the end."""
    is_folder = isinstance(path, UPath) or path.is_dir()
    file = path / _TOKEN_FILE if is_folder else path
    token = secrets.token_hex(8)
    earlier = _read_token(file)
    content = {
        "token": token,
        "host": socket.gethostname(),
        "process": os.getpid(),
        "since": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
    }
    file.write_text(json.dumps(content), encoding="utf-8")
    if announce:
        print(
            f"NOTE: this storage has no locks. Of two processes that are {purpose}, "
            "the first one ends once it notices the second.",
            flush=True,
        )
    if announce and earlier:
        print(
            f"NOTE: {file} is left of a process on {earlier.get('host')}, begun at "
            f"{earlier.get('since')}: if it still runs, it will end now.",
            flush=True,
        )

    def check() -> None:
        found = _read_token(file)
        if found.get("token") != token:
            raise TakenOverError(
                f"Another process is {purpose} since {found.get('since')}, on "
                f"{found.get('host')}: this one ends, and leaves the files to it."
            )

    try:
        yield check
    finally:
        # If the connection is broken, the error that is under way says so. A token that
        # is left is taken for that of a killed process.
        with contextlib.suppress(Exception):
            if _read_token(file).get("token") == token:
                file.unlink(missing_ok=True)


def _read_token(file: AnyPath) -> dict[str, str]:
    try:
        value = json.loads(file.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


@contextlib.contextmanager
def waiting(path: PathLike) -> Iterator[None]:
    """Holds an exclusive lock, after other processes that hold it.

    Buckets have no locks: there it goes on at once.

    Args:
      path: the lock file, created if missing, which is removed at the end.
    Raises:
      OSError: the file cannot be made.
    """
    place = as_path(path)
    if isinstance(place, UPath):
        yield
        return
    while True:
        with open_lock(place) as file:
            if try_lock(file) is False:
                fcntl.flock(file, fcntl.LOCK_EX)
            if not is_at(file, place):
                continue  # its last holder has removed it
            try:
                yield
            finally:
                # On disks without locks another holder may have removed it.
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(place)
            return


@contextlib.contextmanager
def open_lock(path: str | os.PathLike[str]) -> Iterator[int]:
    """Opens a lock file, or a folder as one, and yields its descriptor.

    Raises:
      OSError: the file cannot be made, or is a link.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    if os.path.isdir(path):
        flags = os.O_RDONLY
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise OSError(f"{path} cannot be locked: {error.strerror}.") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def try_lock(file: IO | int) -> bool | None:
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


def share_lock(file: IO | int) -> None:
    """Waits for a shared lock on an open file; an exclusive one becomes shared."""
    with contextlib.suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_SH)


def is_at(descriptor: int, path: str | os.PathLike[str]) -> bool:
    """True if a path still names an open file, and is no link to it."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False
