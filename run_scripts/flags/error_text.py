"""The one line that a script prints about an error."""

import errno
import os
import re
import traceback
from pathlib import Path

from upath import UPath

from albert_tf.storage import is_storage_error

# Characters of a line: messages of libraries may quote whole files.
MAX_LENGTH = 1_000
_PROJECT = Path(__file__).resolve().parents[2]
# What TensorFlow and Keras wrap around an error in a model's code; its last line is the
# error itself.
_WRAPPED = re.compile(r"in user code:|Exception encountered when calling")
_LAST_ERROR = re.compile(r"\w*(?:Error|Exception): (.+)")
_MEMORY = "there is not enough memory"
_DEPTH = "values are nested too deeply"


def describe(error: BaseException | str) -> str:
    """Describes an error in one line of bounded length.

    Errors that the project raises state the fact, the value and the way out. Those of
    Python and of libraries may have no text, or name no file: they get their kind, what
    was being done, and the notes that were added on their way (`add_note`).
    """
    if isinstance(error, str):
        return _shorten(error.removeprefix("ERROR:: "))  # of absl, about --flagfile
    text = _text(error)
    if _is_of_bucket(error):
        where = _bucket_path(error) or "A bucket"
        return _shorten(
            f"{where} cannot be reached ({type(error).__name__}: {text}): check the "
            "path, your permissions and the connection."
        )
    if not (_is_own(error) and text):
        text = ": ".join(filter(None, [f"{type(error).__name__}{_place(error)}", text]))
    notes = " ".join(getattr(error, "__notes__", ()))
    return _shorten(f"{text} {notes}")


def _text(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    text = str(error)
    if isinstance(error, MemoryError):
        return f"{_MEMORY}. {text}" if text else f"{_MEMORY}."
    if isinstance(error, RecursionError):
        return f"{_DEPTH}."
    if _WRAPPED.search(text):
        found = _LAST_ERROR.findall(text)
        text = found[-1] if found else text
    return text


def _is_of_bucket(error: BaseException) -> bool:
    """True if a library that reaches buckets made the error.

    Some of their errors are OSErrors that name no file.
    """
    if isinstance(error, OSError) and not _is_own(error) and not error.filename:
        return error.errno != errno.ENOSPC and bool(_bucket_path(error))
    return is_storage_error(error)


def _bucket_path(error: BaseException) -> str:
    """The path of a bucket that was in use; empty: none is known."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    for frame in reversed(frames):
        for value in frame.f_locals.values():
            if isinstance(value, UPath):
                return str(value)
    return ""


def _is_own(error: BaseException) -> bool:
    """True if a `raise` of the project made the error."""
    if error.__traceback__ is None:
        return True
    last = traceback.extract_tb(error.__traceback__)[-1]
    return _is_project(last.filename) and (last.line or "").startswith("raise")


def _place(error: BaseException) -> str:
    """The last function of the project on an error's way, as " in NAME (FILE:LINE)"."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if _is_project(frame.filename):
            file = os.path.relpath(frame.filename, _PROJECT)
            return f" in {frame.name} ({file}:{frame.lineno})"
    return ""


def _is_project(file: str) -> bool:
    folders = ("albert_tf", "data_prep", "run_scripts")
    return any(Path(file).is_relative_to(_PROJECT / folder) for folder in folders)


def _shorten(text: str) -> str:
    """Joins lines, and leaves out the middle of a long text."""
    text = " ".join(text.split())
    if len(text) <= MAX_LENGTH:
        return text
    half = MAX_LENGTH // 2 - 10
    return f"{text[:half]} [...] {text[-half:]}"
