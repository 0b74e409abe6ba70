"""The folder of a tokenized text while runs make it and use it.

Several runs on one or more machines may share the folder if they make the same text.

    lock                     locked as long as a run uses the folder
    settings.json            the text, its vocabulary and the configuration of reading
    text-00012-00000.npy     a segment of a group of parts
    text-00012.json          the group's list of segments and statistics

A group's list is written last, so a group with a list is complete.

Where there are no locks, as in buckets, nobody can tell whether another run uses the
folder. So each text has a folder of its own in it, named by the text's digest, and
nothing is removed before all records are made. The file `lock` marks the folder as one
that may be emptied.
"""

import contextlib
import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from upath import UPath

from albert_tf.files import digest, parse_json, write_shared
from albert_tf.locks import open_lock, share_lock, try_lock
from albert_tf.storage import AnyPath, PathLike, as_path, is_storage_error
from data_prep.corpus.files import map_files
from data_prep.corpus.statistics import Statistics
from data_prep.corpus.tokenized_corpus import Segment

_LOCK_FILE = "lock"
_CONFIG_FILE = "settings.json"
_DIGITS = 16


@contextlib.contextmanager
def hold_folder(folder: PathLike, config: Mapping[str, Any]) -> Iterator[str]:
    """Holds a folder for a text, together with other runs of the same text.

    Files of an ended run of another text are removed, where there are locks.

    Args:
      folder: the folder, which exists.
      config: JSON values that tell one text from another.
    Yields:
      The folder of the text's files: `folder`, or one in it where there are no locks.
    Raises:
      OSError: a run of another text uses the folder.
    """
    place = as_path(folder)
    if isinstance(place, UPath):
        yield _make_unlocked(place, config)
        return
    with open_lock(place / _LOCK_FILE) as lock:
        is_alone = try_lock(lock)
        if is_alone is None:
            yield _make_unlocked(place, config)
            return
        if not is_alone:
            # Waits for a run that is just setting the folder up.
            share_lock(lock)
        path = place / _CONFIG_FILE
        noted = _read_if_whole(path) or {}
        differing = [key for key in config if noted.get(key) != config[key]]
        if noted and differing and not is_alone:
            raise OSError(
                f"{folder} is in use by a run whose {differing[0]} differs: let it "
                "end, or name another --output_file or --work_dir."
            )
        if differing:
            _clear(place)
            write_shared(path, json.dumps(config).encode())
        share_lock(lock)
        yield str(place)


def _make_unlocked(folder: AnyPath, config: Mapping[str, Any]) -> str:
    content = json.dumps(config).encode()
    text = folder / digest(content)[:_DIGITS]
    if isinstance(text, Path):
        text.mkdir(exist_ok=True)
    else:
        write_shared(folder / _LOCK_FILE, b"")
    write_shared(text / _CONFIG_FILE, content)
    print(
        f"NOTE: {folder} has no locks. Runs that make the same files at once waste "
        "each other's time, but each file is complete.",
        flush=True,
    )
    return str(text)


def check_folder(folder: PathLike) -> None:
    """Checks that a folder is missing, empty, or one of `hold_folder` and of this user.

    Raises:
      FileExistsError: it is a link or holds something else, which would be removed.
    """
    place = as_path(folder)
    if isinstance(place, UPath):
        is_own = place.is_dir() or not place.exists()
    else:
        try:
            status = os.lstat(place)
        except FileNotFoundError:
            return
        is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    if not (is_own and (_is_marked(place) or _is_empty(place))):
        raise FileExistsError(
            f"{folder} is there and was not made by this command, which would empty "
            "it: move it, or name another --work_dir."
        )


def _is_empty(folder: AnyPath) -> bool:
    if isinstance(folder, UPath) and not folder.exists():
        return True
    return not any(folder.iterdir())


def _is_marked(folder: AnyPath) -> bool:
    lock = folder / _LOCK_FILE
    if isinstance(lock, UPath):
        return lock.is_file()
    try:
        status = os.lstat(lock)
    except FileNotFoundError:
        return False
    return stat.S_ISREG(status.st_mode)


def discard_folder(folder: PathLike, is_done: bool) -> None:
    """Removes a folder of `hold_folder`, unless another run holds it.

    Args:
      folder: the folder.
      is_done: True if all records are made, so that no run needs it any more. Else a
        folder without locks is kept, which others may use.
    """
    place = as_path(folder)
    if not _is_marked(place):
        return
    if isinstance(place, UPath):
        if is_done:
            remove_folder(place)
        return
    with open_lock(place / _LOCK_FILE) as lock:
        is_alone = try_lock(lock)
        if is_alone or (is_alone is None and is_done):
            # The lock last: it marks the folder as one that may be emptied.
            with contextlib.suppress(OSError):
                _clear(place)
            remove_folder(place)


def write_group(
    folder: PathLike, number: int, segments: Iterator[Segment], statistics: Statistics
) -> None:
    """Writes the segments of a group of parts, then their list.

    Args:
      folder: the text's folder, of `hold_folder`.
      number: of the group.
      segments: in text order.
      statistics: of the group, complete once `segments` is exhausted.
    Raises:
      OSError: a file cannot be written.
    """
    place = as_path(folder)
    entries = []
    for index, segment in enumerate(segments):
        content = segment.corpus.to_bytes()
        name = f"text-{number:05d}-{index:05d}.npy"
        write_shared(place / name, content)
        entries.append(
            {
                "name": name,
                "bytes": len(content),
                "sha256": digest(content),
                "pieces": len(segment.corpus.ids),
                "new_documents": segment.new_documents,
                "continues": segment.continues,
            }
        )
    group = {"segments": entries, "statistics": statistics.to_dict()}
    write_shared(_list_path(place, number), json.dumps(group).encode())


def read_group(folder: PathLike, number: int) -> dict[str, Any] | None:
    """Reads the list of a group and checks that its segments are complete.

    Returns:
      `segments` and `statistics` as `write_group` wrote them; None if the group is
      missing or incomplete.
    """
    place = as_path(folder)
    group = _read_if_whole(_list_path(place, number))
    # Files of buckets are whole, and the list comes after them.
    if group is None or isinstance(place, UPath):
        return group
    is_complete = all(
        _size(place / segment["name"]) == segment["bytes"]
        for segment in group["segments"]
    )
    return group if is_complete else None


def read_groups(
    folder: PathLike, numbers: Sequence[int]
) -> list[dict[str, Any] | None]:
    """Reads the lists of groups, as `read_group`; of a bucket many at once."""
    return map_files(lambda number: read_group(folder, number), numbers, [folder])


def remove_folder(folder: AnyPath) -> None:
    """Removes a folder of temporary files, as far as it can."""
    if isinstance(folder, Path):
        shutil.rmtree(folder, ignore_errors=True)
        return
    fs, lock = folder.fs, (folder / _LOCK_FILE).path
    try:
        # Not `rm`, which takes brackets in names for patterns. What marks a work folder
        # comes last.
        paths = fs.find(folder.path)
        map_files(fs.rm_file, [path for path in paths if path != lock], [folder])
        map_files(fs.rm_file, [path for path in paths if path == lock], [folder])
    except Exception as error:
        if not isinstance(error, OSError) and not is_storage_error(error):
            raise


def _clear(folder: Path) -> None:
    for entry in list(os.scandir(folder)):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        elif entry.name != _LOCK_FILE:
            os.unlink(entry.path)


def _list_path(folder: AnyPath, number: int) -> AnyPath:
    return folder / f"text-{number:05d}.json"


def _read_if_whole(path: AnyPath) -> dict[str, Any] | None:
    """Reads a file that a power failure may have damaged; None: make it again."""
    try:
        value = parse_json(path.read_bytes().decode())
    except (FileNotFoundError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def _size(path: AnyPath) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return -1
