"""Checkpoints of a run: its whole state, saved and restored."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf
from upath import UPath

from albert_tf.checkpoints.averaged_weights import AVERAGES
from albert_tf.checkpoints.load import released_name
from albert_tf.checkpoints.tensorflow_files import BROKEN_FILE, read_state
from albert_tf.locks import TakenOverError
from albert_tf.progress import say
from albert_tf.storage import (
    AnyPath,
    PathLike,
    as_path,
    is_storage_error,
    local_checkpoint,
)
from albert_tf.training.checkpoint_folder import CheckpointFolder
from albert_tf.training.optimization import AdamW

_RESUMES = "it resumes from"
# The checkpoint of a bucket that is not reached.
_UNKNOWN = "its last checkpoint"
_WRITING = (tf.errors.OpError, OSError)


def training_checkpoint(
    model: tf.Module, optimizer: AdamW, **more: tf.Variable
) -> tf.train.Checkpoint:
    """The whole state of a run, keyed by released names.

    Dropout and the order of rows are functions of seed and step, so they need no state
    besides the step.

    Args:
      model: its variables become `weights`.
      optimizer: a built optimizer of `optimization`; its moments, averages and step are
        saved.
      **more: other variables of the run.
    """
    names = [released_name(variable) for variable in optimizer.trained_variables]
    state = {
        "weights": {released_name(v): v for v in model.variables},
        "global_step": optimizer.iterations,
        **more,
    }
    for moment, slots in optimizer.moments.items():
        state[moment] = dict(zip(names, slots, strict=True))
    if optimizer.averages:
        state[AVERAGES] = dict(zip(names, optimizer.averages, strict=True))
    checkpoint = tf.train.Checkpoint(**state)
    # TensorFlow creates this variable at the first save or restore. Workers create
    # variables together, but do not all save or restore first at the same moment.
    checkpoint.save_counter.assign(0)
    return checkpoint


def save(folder: CheckpointFolder, step: int) -> None:
    """Saves a checkpoint of a run, unless the latest one is of this step.

    A checkpoint is listed in the folder's file `checkpoint` once it is complete. One
    that a kill cuts off is not listed, and the run that resumes writes it again.

    Args:
      folder: the run's folder.
      step: optimizer steps done, the number in the checkpoint's name.
    Raises:
      OSError: the disk is full, a bucket is not reached, or the folder cannot be
        written; another process writes the same run.
    """
    latest: str | None = _UNKNOWN
    try:
        latest = latest_of_run(folder.path)
        if latest and step_of(latest) == step:
            return
        path = folder.save(step)
    except TakenOverError:
        raise
    except Exception as error:
        if not isinstance(error, _WRITING) and not is_storage_error(error):
            raise
        raise _writing_error(folder.path, step, error, latest) from error
    say(f"Saved checkpoint {path}.")


def _writing_error(
    folder: AnyPath, step: int, error: Exception, latest: str | None
) -> OSError:
    """The error of a checkpoint that cannot be written, as one line."""
    way_out = "make space there"
    if isinstance(folder, Path):
        # An incomplete file would take up the space that is missing.
        for part in folder.glob("*_temp"):
            shutil.rmtree(part, ignore_errors=True)
    elif isinstance(error, tf.errors.OpError):
        way_out = f"make space in {tempfile.gettempdir()}"
    else:
        way_out = "check the connection and your permissions"
    # A bucket may not even be read any more.
    with contextlib.suppress(Exception):
        latest = latest_of_run(folder)
    return OSError(
        f"Checkpoint {step} cannot be written to {folder} ({reason_of(error)}): "
        f"{way_out} and give the same command again; {_RESUMES} "
        f"{latest or 'the start'}."
    )


@contextlib.contextmanager
def explain_resumption(folder: AnyPath) -> Iterator[None]:
    """Adds to errors of a bucket how the run in it goes on.

    Args:
      folder: the run's folder.
    """
    try:
        yield
    except Exception as error:
        is_told = isinstance(error, TakenOverError) or _RESUMES in str(error)
        is_of_storage = isinstance(error, OSError) or is_storage_error(error)
        if isinstance(folder, UPath) and is_of_storage and not is_told:
            latest = _UNKNOWN
            with contextlib.suppress(Exception):
                latest = latest_of_run(folder) or "the start"
            error.add_note(f"Give the same command again; {_RESUMES} {latest}.")
        raise


def reason_of(error: Exception) -> str:
    """The first line of an error's message; its kind, if it has none."""
    text = str(getattr(error, "message", None) or error) or type(error).__name__
    return text.splitlines()[0]


def step_of(checkpoint: str) -> int:
    """The step in the name of a run's checkpoint."""
    return int(checkpoint.rsplit("-", 1)[1])


def latest_of_run(folder: PathLike) -> str | None:
    """The newest checkpoint of a run; None: there is none.

    If the newest listed checkpoint was deleted, this is the one before it, from which
    the run makes the same again.

    Raises:
      ValueError: the list of checkpoints is damaged.
    """
    listed = reversed(read_state(folder))
    # The index is written last, so a checkpoint that has one is complete.
    return next((p for p in listed if as_path(f"{p}.index").is_file()), None)


def read_run(
    checkpoint: tf.train.Checkpoint,
    prefix: str,
    options: tf.train.CheckpointOptions | None = None,
) -> None:
    """Reads a checkpoint of a run into a `training_checkpoint`.

    Args:
      checkpoint: what is read.
      prefix: the checkpoint to read, which may be in a bucket.
      options: of `devices.checkpoint_options`.
    Raises:
      ValueError: its files are truncated, altered or missing.
    """
    with local_checkpoint(prefix) as local:
        try:
            checkpoint.read(local, options).expect_partial()
        except BROKEN_FILE as error:
            reason = str(error).replace(local, prefix)
            raise ValueError(
                f"Checkpoint {prefix} cannot be read: delete {prefix}.* to resume from "
                f"the checkpoint before it ({reason})."
            ) from error
