"""The subfolders of an output folder.

OUTPUT_DIR/
  results.json          `best_run` names the best one of several runs
  run_1/, run_2/, ...   several runs (`--num_runs`), each an output folder
  best/                 the best weights of one run, chosen by its best.json
  model.ckpt-N.*        other weights of the run
"""

import os
from pathlib import Path

from albert_tf.checkpoints.location import Container, locate
from albert_tf.checkpoints.output_names import BEST_FOLDER as BEST_FOLDER
from albert_tf.checkpoints.output_names import BEST_REPORT_FILE as BEST_REPORT_FILE
from albert_tf.checkpoints.output_names import BEST_RUN_KEY, RUN_FOLDER
from albert_tf.checkpoints.output_names import RESULTS_FILE as RESULTS_FILE
from albert_tf.checkpoints.tensorflow_files import is_start_of_run
from albert_tf.files import check_local, read_json


def locate_best(path: str | os.PathLike[str]) -> str:
    """Finds the best weights of an output folder; other paths as `location.locate`.

    Of several runs these are the weights of the best run; of one run, those in its
    `best/`, or else its latest.

    Raises:
      FileNotFoundError: no weights there.
      ValueError: as `location.locate`; a damaged summary of several runs; or a run that
        has made no step yet.
    """
    check_local(path)
    run = best_run_folder(path)
    best = run / BEST_FOLDER
    return locate_trained(best if best.is_dir() else run)


def locate_trained(path: str | os.PathLike[str]) -> str:
    """Finds weights as `location.locate`, in a run's own folder its latest ones.

    Raises:
      FileNotFoundError: no weights there.
      ValueError: as `location.locate`; or a folder of a run that has made no step yet.
    """
    location = locate(path)
    is_checkpoint = location.container is Container.CHECKPOINT
    if Path(path).is_dir() and is_checkpoint and is_start_of_run(location.path):
        raise ValueError(
            f"{path} holds a run that has made no step yet: train first, or name the "
            f"weights that it starts from, {location.path}, by this path."
        )
    return location.path


def best_run_folder(output_dir: str | os.PathLike[str]) -> Path:
    """The folder of the best of several runs; for a single run, `output_dir`.

    Raises:
      ValueError: the summary of several runs is damaged.
    """
    output_dir = Path(output_dir)
    results = read_json(output_dir / RESULTS_FILE, missing_ok=True)
    name = results.get(BEST_RUN_KEY, "")
    if not isinstance(name, str) or Path(name).name != name:
        raise ValueError(
            f"{output_dir / RESULTS_FILE}: {BEST_RUN_KEY} must name a folder in "
            f"{output_dir}. Received {name!r}: bring the file back."
        )
    return output_dir / name


def run_folder(output_dir: str | os.PathLike[str], number: int) -> Path:
    """The folder of one of several runs, which are numbered from 1."""
    return Path(output_dir) / RUN_FOLDER.format(number)


def folders_of_runs(output_dir: str | os.PathLike[str], num_runs: int) -> list[Path]:
    """The output folder, and the folders in it that several runs get."""
    numbers = range(1, num_runs + 1) if num_runs > 1 else ()
    return [Path(output_dir), *(run_folder(output_dir, n) for n in numbers)]


def run_folders(output_dir: str | os.PathLike[str]) -> list[Path]:
    """The folders of several runs; empty for a single run."""
    return sorted(Path(output_dir).glob(RUN_FOLDER.format("*")))
