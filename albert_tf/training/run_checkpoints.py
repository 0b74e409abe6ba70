"""Checkpoints of a run: state to save, resume and keep."""

import os
import shutil
from pathlib import Path

import tensorflow as tf

from albert_tf.checkpoints.load import released_name
from albert_tf.checkpoints.tensorflow_files import BROKEN_FILE


def training_checkpoint(
    model: tf.Module, optimizer, **more: tf.Variable
) -> tf.train.Checkpoint:
    """The whole state of a run, keyed by released names: save and restore this.

    Dropout and the order of rows are functions of seed and step, so that the step is
    their state too.

    Args:
      model: its variables become `weights`.
      optimizer: a built `optimization` optimizer: its moments and its step.
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
    # TensorFlow makes this variable at the first saving or restoring. Workers make
    # variables together, and those do not fall on the same moment for all of them.
    checkpoint.save_counter.assign(0)
    return checkpoint


class Keeper(tf.train.CheckpointManager):
    """Writes a run's checkpoints, at multiples of its interval, and deletes old ones.

    A checkpoint appears in the folder's list, the file `checkpoint`, when it is whole:
    one that a kill cuts off is written again by the run that resumes.
    """

    def save(self, checkpoint_number=None, check_interval=True, options=None):
        """As the base class, but that intervals count from step 0, not from a resume.

        Args:
          checkpoint_number: the optimizer step.
          check_interval: whether to save at multiples of the interval only.
          options: as of the base class.
        Raises:
          OSError: the folder's disk is full, or cannot be written.
        """
        if check_interval and checkpoint_number % self.checkpoint_interval:
            return None
        try:
            return super().save(
                checkpoint_number, check_interval=False, options=options
            )
        except (tf.errors.OpError, OSError) as error:
            # A part would hold the space that is missing.
            for part in Path(self.directory).glob("*_temp"):
                shutil.rmtree(part, ignore_errors=True)
            reason = getattr(error, "message", str(error)).splitlines()[0]
            raise OSError(
                f"Checkpoint {checkpoint_number} cannot be written to {self.directory} "
                f"({reason}): make space there and give the same command again; it "
                f"resumes from {latest_of_run(self.directory) or 'the start'}."
            ) from error

    def restore_or_initialize(self):
        """Does nothing: all workers have read what only the chief's folder holds."""


def latest_of_run(folder: str | os.PathLike) -> str | None:
    """The newest checkpoint of a run that is there; None: none.

    TensorFlow's own answer is none where the newest of its list has been deleted.
    """
    state = tf.train.get_checkpoint_state(str(folder))
    listed = state.all_model_checkpoint_paths if state else ()
    # TensorFlow writes the index last, so that who has one is whole.
    return next((p for p in reversed(listed) if Path(f"{p}.index").is_file()), None)


def read_run(checkpoint: tf.train.Checkpoint, prefix: str) -> None:
    """Reads a checkpoint of a run into a `training_checkpoint`.

    Raises:
      ValueError: its files are cut off, altered or missing.
    """
    try:
        checkpoint.read(prefix).expect_partial()
    except BROKEN_FILE as error:
        raise ValueError(
            f"Checkpoint {prefix} cannot be read: delete {prefix}.* to resume from the "
            f"checkpoint before it ({error})."
        ) from error
