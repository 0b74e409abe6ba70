"""Runs in buckets of memory://, and connections to them that break."""

import contextlib
import json

from fsspec.implementations.memory import MemoryFileSystem
from upath import UPath

from albert_tf.storage import as_path
from helpers.bucket_files import files_of, new_bucket

# What a report has of the clock.
_TIMES = {
    "examples_per_second",
    "eval_examples_per_second",
    "steps_per_second",
    "waiting_for_input",
    "minutes_left",
}


def new_folder() -> UPath:
    """A folder of an empty bucket."""
    return as_path(f"{new_bucket()}/out")


def names(folder) -> list[str]:
    """The files below a folder, by their paths in it."""
    return sorted(files_of(folder))


@contextlib.contextmanager
def broken(monkeypatch, end):
    """Lets uploads fail, from the first one on whose path ends so.

    Yields:
      A list, which gets the paths of what was not uploaded.
    """
    put, failed = MemoryFileSystem.put_file, []

    def upload(system, local, path, *arguments, **more):
        if failed or path.endswith(end):
            failed.append(path)
            raise ConnectionResetError("connection lost")
        return put(system, local, path, *arguments, **more)

    with monkeypatch.context() as patch:
        patch.setattr(MemoryFileSystem, "put_file", upload)
        yield failed


def comparable(results, **folders):
    """Results of a run without what depends on the clock, and with names of paths."""
    text = json.dumps(_without_times(results))
    for name, folder in folders.items():
        text = text.replace(str(folder), name)
    return json.loads(text)


def _without_times(value):
    if not isinstance(value, dict):
        return value
    return {k: _without_times(v) for k, v in value.items() if k not in _TIMES}
