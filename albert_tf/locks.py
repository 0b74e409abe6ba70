"""Locks between processes: they end with the process, however it ends.

Some network disks have no locks. There two runs of the same data files may waste each
other's time, but since a file gets its name when it is whole, each is still right.
"""

import contextlib
import fcntl
from collections.abc import Iterator
from typing import IO


@contextlib.contextmanager
def exclusive(path: str, purpose: str) -> Iterator[None]:
    """Holds a lock alone.

    Args:
      path: a file, made if missing; it stays.
      purpose: what its holder is doing, for the message: "making rows".
    Raises:
      OSError: another process holds it, or the file cannot be written.
    """
    with open(path, "a") as file:
        if try_lock(file) is False:
            raise OSError(f"Another process is {purpose}: let it finish, or end it.")
        yield


def try_lock(file: IO) -> bool | None:
    """Locks an open file until it is closed; False if another holds it, None if there
    are no locks here."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def share_lock(file: IO) -> None:
    """Locks an open file, or changes its lock, so that others can share but not own."""
    with contextlib.suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_SH)
