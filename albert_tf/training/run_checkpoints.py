"""Checkpoints of a run: its whole state, saved and restored."""

import os
import shutil
from pathlib import Path

import tensorflow as tf

from albert_tf.checkpoints.load import released_name
from albert_tf.checkpoints.tensorflow_files import BROKEN_FILE, read_state
from albert_tf.training.optimization import AdamW


def training_checkpoint(
    model: tf.Module, optimizer: AdamW, **more: tf.Variable
) -> tf.train.Checkpoint:
    """The whole state of a run, keyed by released names.

    Dropout and the order of rows are functions of seed and step, so they need no state
    besides the step.

    Args:
      model: its variables become `weights`.
      optimizer: a built optimizer of `optimization`; its moments and step are saved.
      **more: other variables of the run.
    """
    names = [released_name(variable) for variable in model.trainable_variables]
    state = {
        "weights": {released_name(v): v for v in model.variables},
        "global_step": optimizer.iterations,
        **more,
    }
    for moment, slots in optimizer.moments.items():
        state[moment] = dict(zip(names, slots, strict=True))
    checkpoint = tf.train.Checkpoint(**state)
    # TensorFlow creates this variable at the first save or restore. Workers create
    # variables together, but do not all save or restore first at the same moment.
    checkpoint.save_counter.assign(0)
    return checkpoint


def save(manager: tf.train.CheckpointManager, step: int) -> None:
    """Saves a checkpoint of a run, and deletes the oldest beyond the limit.

    A checkpoint is listed in the folder's file `checkpoint` once it is complete. One
    that a kill cuts off is not listed, and the run that resumes writes it again.

    Args:
      manager: of the run's folder.
      step: optimizer steps done, the number in the checkpoint's name.
    Raises:
      OSError: the folder's disk is full, or cannot be written.
    """
    folder = Path(manager.directory)
    try:
        path = manager.save(checkpoint_number=step)
    except (tf.errors.OpError, OSError) as error:
        # An incomplete file would take up the space that is missing.
        for part in folder.glob("*_temp"):
            shutil.rmtree(part, ignore_errors=True)
        reason = getattr(error, "message", str(error)).splitlines()[0]
        raise OSError(
            f"Checkpoint {step} cannot be written to {folder} ({reason}): make space "
            "there and give the same command again; it resumes from "
            f"{latest_of_run(folder) or 'the start'}."
        ) from error
    print(f"saved checkpoint to {path}.", flush=True)


def step_of(checkpoint: str) -> int:
    """The step in the name of a run's checkpoint."""
    return int(checkpoint.rsplit("-", 1)[1])


def latest_of_run(folder: str | os.PathLike) -> str | None:
    """The newest checkpoint of a run; None: there is none.

    If the newest listed checkpoint was deleted, this is the one before it, from which
    the run makes the same again.

    Raises:
      ValueError: the list of checkpoints is damaged.
    """
    listed = reversed(read_state(folder))
    # TensorFlow writes the index last, so a checkpoint that has one is complete.
    return next((p for p in listed if Path(f"{p}.index").is_file()), None)


def read_run(checkpoint: tf.train.Checkpoint, prefix: str) -> None:
    """Reads a checkpoint of a run into a `training_checkpoint`.

    Raises:
      ValueError: its files are truncated, altered or missing.
    """
    try:
        checkpoint.read(prefix).expect_partial()
    except BROKEN_FILE as error:
        raise ValueError(
            f"Checkpoint {prefix} cannot be read: delete {prefix}.* to resume from the "
            f"checkpoint before it ({error})."
        ) from error
