"""Locks between processes.

They end with the process that holds them, even if it is killed. Some network disks have
no locks: there every process goes on as if it held them.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from typing import IO


@contextlib.contextmanager
def exclusive(path: str | os.PathLike[str], purpose: str) -> Iterator[None]:
    """Holds an exclusive lock, or fails at once.

    Args:
      path: a folder; or the lock file, created if missing, which is not removed.
      purpose: what the holder is doing, for the message: "making rows".
    Raises:
      OSError: another process holds the lock, or the file cannot be made.
    """
    with open_lock(path) as file:
        if try_lock(file) is False:
            raise OSError(f"Another process is {purpose}: let it finish, or end it.")
        yield


@contextlib.contextmanager
def waiting(path: str | os.PathLike[str]) -> Iterator[None]:
    """Holds an exclusive lock, after other processes that hold it.

    Args:
      path: the lock file, created if missing, which is removed at the end.
    Raises:
      OSError: the file cannot be made.
    """
    while True:
        with open_lock(path) as file:
            if try_lock(file) is False:
                fcntl.flock(file, fcntl.LOCK_EX)
            if not is_at(file, path):
                continue  # its last holder has removed it
            try:
                yield
            finally:
                # On disks without locks another holder may have removed it.
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
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
