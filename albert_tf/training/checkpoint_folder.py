"""Folders that checkpoints are saved into, on this machine or in a bucket.

In a local folder TensorFlow's manager of checkpoints does everything. For one of a
bucket it works in a temporary folder, with the bucket's list of checkpoints. What it
wrote there is copied in an order in which every checkpoint that is listed is complete:
the data, the index, the list. Then the files of those that the list no longer has are
deleted.
"""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import tensorflow as tf

from albert_tf.checkpoints.tensorflow_files import STATE_FILE, read_state
from albert_tf.storage import AnyPath, move_up
from albert_tf.training.run_folder import no_check

CHECKPOINT_NAME = "model.ckpt"


class CheckpointFolder:
    """A folder that a checkpoint is saved into.

    Attributes:
      path: the folder.
    """

    def __init__(
        self,
        checkpoint: tf.train.Checkpoint,
        path: AnyPath,
        max_to_keep: int | None,
        options: tf.train.CheckpointOptions | None = None,
        check: Callable[[], None] = no_check,
    ):
        """Writes nothing yet.

        Args:
          checkpoint: what is saved.
          path: the folder, which need not be there.
          max_to_keep: checkpoints to keep; None: all.
          options: of `devices.checkpoint_options`.
          check: as of `RunFolder`.
        """
        self._checkpoint, self.path = checkpoint, path
        self._max_to_keep, self._options, self._check = max_to_keep, options, check
        self._manager = self._create_manager(path) if isinstance(path, Path) else None

    def save(self, step: int) -> str:
        """Saves the checkpoint, and deletes the oldest beyond the limit.

        Args:
          step: the number in its name.
        Returns:
          Its prefix.
        Raises:
          locks.TakenOverError: another process writes the same run.
          OSError, tf.errors.OpError, or an error that `storage.is_storage_error` tells:
            it cannot be written; what is listed is complete all the same.
        """
        self._check()
        if self._manager:
            return self._manager.save(step, options=self._options)
        with tempfile.TemporaryDirectory() as folder:
            self._save_in_bucket(Path(folder), step)
        return str(self.path / f"{CHECKPOINT_NAME}-{step}")

    def _create_manager(self, folder: Path) -> tf.train.CheckpointManager:
        return tf.train.CheckpointManager(
            self._checkpoint,
            str(folder),
            max_to_keep=self._max_to_keep,
            checkpoint_name=CHECKPOINT_NAME,
        )

    def _save_in_bucket(self, folder: Path, step: int) -> None:
        """Saves through an empty local folder."""
        state = self.path / STATE_FILE
        if state.is_file():
            (folder / STATE_FILE).write_bytes(state.read_bytes())
        listed = _names(folder)
        self._create_manager(folder).save(step, options=self._options)
        kept = _names(folder)
        # "data" comes before "index".
        parts = sorted(folder.glob(f"{CHECKPOINT_NAME}-{step}.*"))
        for file in (*parts, folder / STATE_FILE):
            self._check()
            move_up(file, self.path / file.name)
        for name in listed - kept:
            self._delete(name)

    def _delete(self, name: str) -> None:
        """Deletes the files of a checkpoint, first the index, so that none counts."""
        files = [each for each in self.path.iterdir() if each.stem == name]
        for file in sorted(files, key=lambda file: file.suffix != ".index"):
            self._check()
            file.unlink(missing_ok=True)


def _names(folder: Path) -> set[str]:
    """Names of the checkpoints that a local folder lists."""
    return {os.path.basename(prefix) for prefix in read_state(folder)}
