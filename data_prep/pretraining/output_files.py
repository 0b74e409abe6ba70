"""The files to write: their names, which of them are ours, and which are finished."""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from albert_tf.records.sidecar import read_metadata, shard_paths, sidecar_path


@dataclass(frozen=True)
class Outputs:
    """A set of record files, some of which this run makes.

    Attributes:
      paths: all files of the set.
      first, end: half-open range of those that this run makes.
    """

    paths: tuple[str, ...]
    first: int
    end: int

    @property
    def own(self) -> range:
        """Numbers of the files that this run makes."""
        return range(self.first, self.end)

    @property
    def own_paths(self) -> tuple[str, ...]:
        """The files that this run makes."""
        return self.paths[self.first : self.end]

    def all_finished(self) -> bool:
        """Whether every file of the set is there, whoever made it."""
        return all(map(is_finished, self.paths))


def expand_outputs(outputs: str, shard_range: str = "", check: bool = True) -> Outputs:
    """Reads names of files, and proves that they can be written.

    It is called before the work starts, which may take hours.

    Args:
      outputs: a comma list of files, or of NAME@N for `NAME-00000-of-N` and so on.
      shard_range: FIRST:END, half-open, of the files to make; empty for all.
      check: False to make no folder and try nothing.
    Raises:
      ValueError: no file is named, or one twice, or a folder; no such range.
      OSError: a folder cannot be made or written.
    """
    names = [name.strip() for name in outputs.split(",") if name.strip()]
    paths = tuple(path for name in names for path in shard_paths(name))
    if not paths or len({os.path.abspath(path) for path in paths}) < len(paths):
        raise ValueError(
            "The output files must be named, separated by commas, each once. "
            f"Received {outputs!r}."
        )
    first, end = _parse_range(shard_range, len(paths))
    if not check:
        return Outputs(paths, first, end)
    for path in paths[first:end]:
        if os.path.isdir(path):
            raise ValueError(f"{path} is a folder: name a file to write in it.")
    for folder in sorted({os.path.dirname(path) or "." for path in paths[first:end]}):
        check_writable(folder)
    return Outputs(paths, first, end)


def _parse_range(shard_range: str, count: int) -> tuple[int, int]:
    if not shard_range:
        return 0, count
    first, colon, end = shard_range.partition(":")
    if colon and first.isdecimal() and end.isdecimal():
        first, end = int(first), int(end)
        if 0 <= first < end <= count:
            return first, end
    raise ValueError(
        f"shard_range must be FIRST:END within 0:{count}, as 0:{count} itself. "
        f"Received {shard_range!r}."
    )


def check_writable(folder: str) -> None:
    """Makes a folder; raises OSError if it cannot be made or written."""
    try:
        os.makedirs(folder, exist_ok=True)
        # Permission bits do not tell everything (read-only disks): try.
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OSError(
            f"The output folder {folder} cannot be made or written "
            f"({error.strerror}): choose another --output_file."
        ) from error


def is_finished(path: str) -> bool:
    """Whether a file is there with its sidecar, which is written last."""
    return os.path.exists(path) and sidecar_path(path).exists()


def finished_sidecars(
    outputs: Outputs, expected: Mapping[str, Any]
) -> dict[int, dict[str, Any]]:
    """Sidecars of this run's files that an earlier run finished, by number.

    Raises:
      ValueError: one of them was made with other settings, or is damaged.
    """
    found = {}
    for number in outputs.own:
        path = outputs.paths[number]
        if not is_finished(path):
            continue
        sidecar = read_metadata(path)
        for key, value in (expected | {"shard": number}).items():
            if sidecar.get(key) != value:
                raise ValueError(
                    f"{path} is there already, made with {key}={sidecar.get(key)}, but "
                    f"{key}={value} is asked for: name another --output_file, or "
                    "remove the old files and their sidecars."
                )
        found[number] = sidecar
    return found
