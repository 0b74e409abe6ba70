"""The predictions of a run, stored for commands that come later.

A run's folder has `predictions/SPLIT.npz` for each split that its best weights have
predicted; the folder of several runs has those of the best run.
"""

import io
import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping

import numpy as np

from albert_tf.checkpoints import output_folders
from albert_tf.file_kinds import check_replaceable
from albert_tf.files import make_folder, write_whole
from albert_tf.records.reader import read_strings
from albert_tf.records.sidecar import RecordSet
from albert_tf.storage import AnyPath

PREDICTIONS_FOLDER = "predictions"
# Errors of reading a damaged file, which may claim any size.
_DAMAGE = (
    ValueError,
    OSError,
    EOFError,
    KeyError,
    NotImplementedError,
    MemoryError,
    OverflowError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)

# Name -> array, as `complete` makes them.
Predictions = Mapping[str, np.ndarray]


def complete(
    predictions: Mapping[str, np.ndarray], record_set: RecordSet
) -> dict[str, np.ndarray]:
    """Predictions together with what tells whose they are.

    Args:
      predictions: name -> [R, ...], in the order of the rows.
      record_set: the rows.
    Returns:
      The predictions, the strings of the rows, the split's `content_sha256`, and
      `labelled`: False if its labels mean nothing.
    """
    metadata = record_set.metadata
    return {
        **predictions,
        **read_strings(record_set),
        "content_sha256": np.array(metadata.get("content_sha256", "")),
        "labelled": np.array(metadata.get("labelled", True)),
    }


def write(output_dir: AnyPath, predictions: Mapping[str, Predictions]) -> None:
    """Writes predictions into a run's folder.

    Args:
      output_dir: the folder.
      predictions: name of the split -> from `complete`.
    """
    folder = output_dir / PREDICTIONS_FOLDER
    for name, arrays in predictions.items():
        make_folder(folder)
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **arrays)
        write_whole(folder / f"{name}.npz", buffer.getvalue())


def check_outputs(output_dir: AnyPath, names: Iterable[str]) -> None:
    """Checks that predictions replace no files of another kind.

    Args:
      output_dir: the folder that `write` is to write into.
      names: of the splits.
    Raises:
      FileExistsError: they would.
    """
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, index=[])
    for name in names:
        file = output_dir / PREDICTIONS_FOLDER / f"{name}.npz"
        check_replaceable(file, buffer.getvalue())


def splits(output_dir: AnyPath) -> list[str]:
    """Names of the splits that a run, or the best of several, has predicted."""
    folders = _folders(output_dir)
    return sorted({file.stem for folder in folders for file in folder.glob("*.npz")})


def read(output_dir: AnyPath, name: str) -> dict[str, np.ndarray]:
    """The last predictions of a run, or of the best of several, for a split.

    Returns:
      As `complete`.
    Raises:
      FileNotFoundError: it predicted no such split.
      ValueError: the file is damaged.
    """
    files = [folder / f"{name}.npz" for folder in _folders(output_dir)]
    file = next((file for file in files if file.is_file()), None)
    if file is None:
        raise FileNotFoundError(
            f"{files[-1]} is missing: run that model with --do_predict, or --do_eval, "
            "first."
        )
    try:
        # NumPy does not close a damaged file that it has opened itself.
        with file.open("rb") as content, np.load(content) as arrays:
            return dict(arrays)
    except _DAMAGE as error:
        raise ValueError(f"{file} is damaged ({error!r}): predict again.") from error


def _folders(output_dir: AnyPath) -> list[AnyPath]:
    """Folders with predictions, the one with the latest first.

    Every command writes to the output folder itself. The folder of the best run is for
    output folders made before that was so for several runs.
    """
    folders = (output_dir, output_folders.best_run_folder(output_dir))
    return [folder / PREDICTIONS_FOLDER for folder in folders]
