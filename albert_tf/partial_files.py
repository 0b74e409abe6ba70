"""Temporary files and folders beside the ones that they become.

They are always new, never a link or a file that is there, and locked in the meantime.
What a killed process left has no lock, and is removed when the name is written again.
"""

import contextlib
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from albert_tf.locks import is_at, try_lock
from albert_tf.storage import PathLike

# Age of a temporary file, in seconds, after which nobody writes it any more. It counts
# only on disks without locks.
_ABANDONED_AFTER = 7 * 24 * 3600


def make_partial(path: Path, is_folder: bool) -> tuple[Path, int]:
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


def remove_abandoned(path: Path) -> None:
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
def writing(path: PathLike) -> Iterator[None]:
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
