"""Whole-file writes, JSON and digests."""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def writing(path: str | os.PathLike) -> Iterator[None]:
    """Has errors of the disk name the file that was being made."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise OSError(f"{path} cannot be written: {reason}.") from error


def write_json(path: str | os.PathLike, value: Any) -> None:
    """Writes JSON; as `write_whole`."""
    write_whole(path, json_bytes(value))


def json_bytes(value: Any) -> bytes:
    """JSON for people to read."""
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode("utf-8")


def write_whole(path: str | os.PathLike, content: bytes) -> None:
    """Writes a file so that it stands under its name whole or not at all."""
    path = Path(path)
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_bytes(content)
        sync(partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def sha256(path: str | os.PathLike) -> str:
    """Hexadecimal digest of a file's bytes."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def sync(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())
