"""The folder of a tokenized text while runs make it and use it.

Several runs on one or more machines may share the folder if they make the same text.

    lock                     locked as long as a run uses the folder
    settings.json            the text, its vocabulary and the configuration of reading
    text-00012-00000.npy     a segment of a group of parts
    text-00012.json          the group's list of segments and statistics

A group's list is written last, so a group with a list is complete.
"""

import contextlib
import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from typing import Any

from albert_tf.files import digest, read_json, write_shared
from albert_tf.locks import open_lock, share_lock, try_lock
from data_prep.corpus.statistics import Statistics
from data_prep.corpus.tokenized_corpus import Segment

_LOCK_FILE = "lock"
_CONFIG_FILE = "settings.json"


@contextlib.contextmanager
def hold_folder(folder: str, config: Mapping[str, Any]) -> Iterator[None]:
    """Holds a folder for a text, together with other runs of the same text.

    Files of an ended run of another text are removed.

    Args:
      folder: the folder, which exists.
      config: JSON values that tell one text from another.
    Raises:
      OSError: a run of another text uses the folder, or may do so.
    """
    path = os.path.join(folder, _CONFIG_FILE)
    with open_lock(os.path.join(folder, _LOCK_FILE)) as lock:
        is_alone = try_lock(lock)
        if is_alone is False:
            # Waits for a run that is just setting the folder up.
            share_lock(lock)
        noted = _read_if_whole(path) or {}
        differing = [key for key in config if noted.get(key) != config[key]]
        if noted and differing and not is_alone:
            raise OSError(
                f"{folder} is in use by a run whose {differing[0]} differs: let it "
                "end, or name another --output_file or --work_dir."
            )
        if differing:
            _clear(folder)
            write_shared(path, json.dumps(config).encode())
        share_lock(lock)
        yield


def check_folder(folder: str) -> None:
    """Checks that a folder is missing, empty, or one of `hold_folder` and of this user.

    Raises:
      FileExistsError: it is a link or holds something else, which would be removed.
    """
    try:
        status = os.lstat(folder)
    except FileNotFoundError:
        return
    is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    if not (is_own and (_is_marked(folder) or not os.listdir(folder))):
        raise FileExistsError(
            f"{folder} is there and was not made by this command, which would empty "
            "it: move it, or name another --work_dir."
        )


def _is_marked(folder: str) -> bool:
    try:
        status = os.lstat(os.path.join(folder, _LOCK_FILE))
    except FileNotFoundError:
        return False
    return stat.S_ISREG(status.st_mode)


def discard_folder(folder: str) -> None:
    """Removes a folder of `hold_folder`, unless another run holds it."""
    if not _is_marked(folder):
        return
    with open_lock(os.path.join(folder, _LOCK_FILE)) as lock:
        if try_lock(lock) is not False:
            # The lock last: it marks the folder as one that may be emptied.
            with contextlib.suppress(OSError):
                _clear(folder)
            shutil.rmtree(folder, ignore_errors=True)


def write_group(
    folder: str, number: int, segments: Iterator[Segment], statistics: Statistics
) -> None:
    """Writes the segments of a group of parts, then their list.

    Args:
      folder: a folder of `hold_folder`.
      number: of the group.
      segments: in text order.
      statistics: of the group, complete once `segments` is exhausted.
    Raises:
      OSError: a file cannot be written.
    """
    entries = []
    for index, segment in enumerate(segments):
        content = segment.corpus.to_bytes()
        name = f"text-{number:05d}-{index:05d}.npy"
        write_shared(os.path.join(folder, name), content)
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
    write_shared(_list_path(folder, number), json.dumps(group).encode())


def read_group(folder: str, number: int) -> dict[str, Any] | None:
    """Reads the list of a group and checks that its segments are complete.

    Returns:
      `segments` and `statistics` as `write_group` wrote them; None if the group is
      missing or incomplete.
    """
    group = _read_if_whole(_list_path(folder, number))
    if group is None:
        return None
    is_complete = all(
        _size(os.path.join(folder, segment["name"])) == segment["bytes"]
        for segment in group["segments"]
    )
    return group if is_complete else None


def _clear(folder: str) -> None:
    for entry in list(os.scandir(folder)):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        elif entry.name != _LOCK_FILE:
            os.unlink(entry.path)


def _list_path(folder: str, number: int) -> str:
    return os.path.join(folder, f"text-{number:05d}.json")


def _read_if_whole(path: str) -> dict[str, Any] | None:
    """Reads a file that a power failure may have damaged; None: make it again."""
    try:
        return read_json(path)
    except (FileNotFoundError, ValueError):
        return None


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return -1
