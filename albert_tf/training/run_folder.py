"""The folder that a run writes into, on this machine or in a bucket."""

import contextlib
import dataclasses
import errno
import io
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from upath import UPath

from albert_tf import files, locks
from albert_tf.checkpoints.output_names import LOG_FILE, RESULTS_FILE
from albert_tf.file_kinds import check_replaceable
from albert_tf.partial_files import writing
from albert_tf.storage import AnyPath, as_path
from albert_tf.training import curves
from albert_tf.training.job import Job

# Of the first message in a log, of a loop or of an evaluation before one.
_LOG_BEGINNINGS = (b"train | step:", b" eval | step:")
# Locked while a run trains into its folder; the lock of a killed run ends with it.
LOCK_FILE = ".lock"


def no_check() -> None:
    """The check of a folder that no other process writes into."""


@dataclasses.dataclass(frozen=True)
class RunFolder:
    """The folder that one worker of a run writes into.

    Attributes:
      path: the folder.
      events: where the log and TensorFlow's events for TensorBoard are written: `path`,
        or a temporary folder if that is in a bucket.
      check: raises OSError once another process writes the same run; call it before
        each write.
    """

    path: AnyPath
    events: Path
    check: Callable[[], None] = no_check

    def upload_events(self) -> None:
        """Copies the events and the log, as far as they are, to a bucket.

        Files of events have names of their own, so those of earlier calls stay.

        Raises:
          OSError: they cannot be written, or another process writes the same run.
        """
        if not isinstance(self.path, UPath):
            return
        found = sorted(file for file in self.events.rglob("*") if file.is_file())
        for file in found:
            target = self.path / file.relative_to(self.events).as_posix()
            self.check()
            with writing(target):
                target.fs.put_file(str(file), target.path)


@contextlib.contextmanager
def open_run_folder(job: Job, chief: bool) -> Iterator[RunFolder]:
    """Yields the folder that a worker writes into, locked if the job trains.

    Args:
      job: the job.
      chief: whether the worker's files are kept. Every worker must take part in saving:
        the others get a temporary folder.
    Raises:
      OSError: the folder cannot be written, another run trains into it, or it holds a
        file of another kind under the name of the results or the curves.
    """
    with contextlib.ExitStack() as stack:

        def make_temporary() -> Path:
            return Path(stack.enter_context(tempfile.TemporaryDirectory()))

        if not chief:
            temporary = make_temporary()
            yield RunFolder(temporary, temporary)
            return
        path, check = as_path(job.train_config.output_dir), no_check
        make_folder(path)
        if job.train_rows:
            lock = locks.exclusive(path / LOCK_FILE, f"training into {path}")
            check = stack.enter_context(lock)
        check_results(path)
        if job.train_rows:
            curves.check_outputs(path)
            check_log(path)
        events = path if isinstance(path, Path) else make_temporary()
        if events != path and (path / LOG_FILE).is_file():
            # Earlier calls wrote the beginning of the log.
            (events / LOG_FILE).write_bytes((path / LOG_FILE).read_bytes())
        yield RunFolder(path, events, check)


def make_folder(folder: AnyPath) -> None:
    """Makes the output folder.

    Raises:
      ValueError: the path's scheme is unknown.
      OSError: no files can be made in it.
    """
    try:
        files.make_folder(folder)
        if isinstance(folder, Path) and not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        if not error.strerror:
            raise  # of a bucket, with the reason and the way out
        raise OSError(
            f"--output_dir {folder} cannot be used ({error.strerror}): give a folder "
            "that can be written."
        ) from error


def check_log(folder: AnyPath) -> None:
    """Raises FileExistsError if the log would be added to another kind of file."""
    file = folder / LOG_FILE
    if not file.exists():
        return
    with file.open("rb") if file.is_file() else io.BytesIO(b"\0") as opened:
        beginning = opened.read(len(_LOG_BEGINNINGS[0]))
    if beginning and beginning not in _LOG_BEGINNINGS:
        raise FileExistsError(
            f"{file} is no log of a training: move it, or give another --output_dir."
        )


def check_results(folder: AnyPath) -> None:
    """Raises FileExistsError if the results would replace a file of another kind."""
    sample = files.json_bytes({"global_step": 0, "settings": {}})
    check_replaceable(folder / RESULTS_FILE, sample)
