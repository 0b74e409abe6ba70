"""Disks that are full."""

import contextlib
import resource


@contextlib.contextmanager
def full_disk(limit):
    """No file grows beyond a limit in bytes: writing fails as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
