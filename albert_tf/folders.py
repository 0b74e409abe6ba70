"""Folders that are whole or absent, also where a folder cannot be renamed.

A folder is filled under a temporary name and renamed. Buckets cannot rename folders,
and some mounted ones refuse it: there its files are copied one by one, first a list of
them (.unfinished), last the file without which no reader takes the folder for whole.
What a killed process left still has that list, and is removed by it when the folder is
written again.
"""

import contextlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from upath import UPath

from albert_tf.files import make_folder
from albert_tf.partial_files import make_partial, remove_abandoned, sync, writing
from albert_tf.storage import AnyPath, PathLike, as_path

LIST_FILE = ".unfinished"


@contextlib.contextmanager
def whole_folder(path: PathLike, last: str) -> Iterator[Path]:
    """Yields an empty local folder to fill, which becomes `path` if no error occurs.

    Temporary folders that killed processes left for the same path are removed first;
    after an error nothing is left.

    Args:
      path: the folder, in a bucket or on this machine.
      last: name of the file, in the folder itself, that readers need most. Where files
        are copied one by one it is the last one.
    Raises:
      ValueError: the path's scheme is unknown.
      FileExistsError: at the end `path` is there and is not an empty folder.
      OSError: the files cannot be written; another process wrote the same folder.
    """
    target = as_path(path)
    make_folder(target.parent)
    if isinstance(target, UPath):
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
            copy_folder(Path(folder), target, last)
        return
    remove_abandoned(target)
    partial, descriptor = make_partial(target, is_folder=True)
    try:
        yield partial
        for file in partial.rglob("*"):
            if file.is_file():
                sync(file)
        _rename(partial, target, last)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        os.close(descriptor)


def check_whole(folder: PathLike) -> None:
    """Checks that a folder is not one whose copying was cut off.

    Raises:
      ValueError: it is.
    """
    if not is_whole(folder):
        raise ValueError(
            f"{folder} is not complete: what wrote it was cut off, or still writes. "
            "Wait for it, or give the same command again."
        )


def is_whole(folder: PathLike) -> bool:
    """False for a folder whose copying was cut off or goes on."""
    names = _read_list(as_path(folder))
    return not names or (as_path(folder) / names[-1]).is_file()


def _rename(partial: Path, target: Path, last: str) -> None:
    try:
        os.replace(partial, target)
        return
    except OSError as error:
        unfinished = (target / LIST_FILE).is_file()
        if os.path.lexists(target) and not unfinished:
            raise _in_use(target) from error
        refused = error
    # A mounted bucket, which renames no folders.
    try:
        copy_folder(partial, target, last)
    except OSError as error:
        raise error from refused


def copy_folder(source: Path, target: AnyPath, last: str) -> None:
    """Copies the files of a folder one by one, `last` last.

    Args:
      source: the local folder, which holds the file `last`.
      target: missing, empty, or what was left of an earlier call.
      last: name of a file.
    Raises:
      FileExistsError: `target` holds something else.
      OSError: a file cannot be written; another process wrote the same folder.
    """
    files = [path for path in sorted(source.rglob("*")) if path.is_file()]
    names = [path.relative_to(source).as_posix() for path in files]
    names.sort(key=lambda name: name == last)
    for name in _read_list(target):
        (target / name).unlink(missing_ok=True)
    if _holds_files(target):
        raise _in_use(target)
    token = secrets.token_hex(8)
    if isinstance(target, Path):
        target.mkdir(exist_ok=True)
    content = json.dumps({"token": token, "files": names}).encode()
    with writing(target / LIST_FILE):
        (target / LIST_FILE).write_bytes(content)
    for name in names:
        if name == names[-1] and _read(target).get("token") != token:
            raise OSError(
                f"Another process began to write {target} meanwhile: this one ends, "
                "and leaves the folder to it."
            )
        with writing(target / name):
            _copy(source / name, target / name)
    (target / LIST_FILE).unlink(missing_ok=True)


def _copy(source: Path, target: AnyPath) -> None:
    if isinstance(target, UPath):
        target.fs.put_file(str(source), target.path)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    sync(target)


def _holds_files(folder: AnyPath) -> bool:
    if folder.is_file():
        return True
    if not folder.is_dir():
        return False
    return any(each.name != LIST_FILE for each in folder.iterdir() if each.is_file())


def _read(folder: AnyPath) -> dict:
    try:
        value = json.loads((folder / LIST_FILE).read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _read_list(folder: AnyPath) -> list[str]:
    """Names of the files that a folder is to hold, the last one last; []: no list."""
    names = _read(folder).get("files", [])
    return [name for name in names if ".." not in Path(name).parts and name[:1] != "/"]


def _in_use(path: AnyPath) -> FileExistsError:
    return FileExistsError(
        f"{path} is in use, by another process or a file: name another."
    )
