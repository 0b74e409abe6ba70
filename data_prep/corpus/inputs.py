"""The input files that a flag names: lists, globs, and folders of data sets."""

import glob
import os

from albert_tf.storage import as_path, find, is_local
from data_prep import column_files
from data_prep.corpus.files import map_files


def expand_inputs(inputs: str) -> list[str]:
    """Turns a comma list of files and globs into files.

    Args:
      inputs: such as "a.txt,b/*.txt.gz"; `**` matches folders of any depth.
    Returns:
      Paths, each once, sorted by name.
    Raises:
      ValueError: nothing is named, a glob matches no file, an empty file or a folder
        is named that is no data set of `datasets`.
      FileNotFoundError: a named file is missing.
    """
    paths: set[str] = set()
    for item in filter(None, (item.strip() for item in inputs.split(","))):
        if column_files.is_dataset_folder(item):
            paths.update(map(str, column_files.dataset_files(item)))
            continue
        if not glob.has_magic(item) or as_path(item).exists():
            paths.add(item)
            continue
        found = find(item)
        kinds = map_files(lambda path: as_path(path).is_dir(), found, found)
        matches = [p for p, is_dir in zip(found, kinds, strict=True) if not is_dir]
        if not matches:
            raise ValueError(f"No file matches {item!r}: check the pattern.")
        paths.update(matches)
    if not paths:
        raise ValueError(f"No input file is named. Received {inputs!r}.")
    named = list(paths)
    map_files(_check_input, named, named)
    return sorted({os.path.normpath(p) if is_local(p) else p for p in named})


def _check_input(path: str) -> None:
    """Raises ValueError or FileNotFoundError unless a path is a file with content."""
    file = as_path(path)
    if file.is_dir():
        raise ValueError(f"{path} is a folder: name its files, as in '{path}/*'.")
    if not file.exists():
        raise FileNotFoundError(
            f"Input file {path} does not exist: check --input_file."
        )
    if file.stat().st_size == 0:
        raise ValueError(f"Input file {path} is empty: remove it from the inputs.")
