"""The subfolders of an output folder.

OUTPUT_DIR/
  results.json          `best_run` names the best one of several runs
  run_1/, run_2/, ...   several runs (`--num_runs`), each an output folder
  best/                 the best weights of one run, chosen by its best.json
  model.ckpt-N.*        other weights of the run
"""

from pathlib import PurePath

from albert_tf.checkpoints.location import Container, locate
from albert_tf.checkpoints.output_names import BEST_FOLDER as BEST_FOLDER
from albert_tf.checkpoints.output_names import BEST_REPORT_FILE as BEST_REPORT_FILE
from albert_tf.checkpoints.output_names import BEST_RUN_KEY, RUN_FOLDER
from albert_tf.checkpoints.output_names import RESULTS_FILE as RESULTS_FILE
from albert_tf.checkpoints.tensorflow_files import is_start_of_run
from albert_tf.files import read_json
from albert_tf.storage import AnyPath, PathLike, as_path, entries


def locate_best(path: PathLike) -> str:
    """Finds the best weights of an output folder; other paths as `location.locate`.

    Of several runs these are the weights of the best run; of one run, those in its
    `best/`, or else its latest.

    Raises:
      FileNotFoundError: no weights there.
      ValueError: as `location.locate`; a damaged summary of several runs; or a run that
        has made no step yet.
    """
    run = best_run_folder(path)
    is_chosen = BEST_FOLDER in entries(run).folders
    return locate_trained(run / BEST_FOLDER if is_chosen else run)


def locate_trained(path: PathLike) -> str:
    """Finds weights as `location.locate`, in a run's own folder its latest ones.

    Raises:
      FileNotFoundError: no weights there.
      ValueError: as `location.locate`; or a folder of a run that has made no step yet.
    """
    location = locate(path)
    is_checkpoint = location.container is Container.CHECKPOINT
    if is_checkpoint and is_start_of_run(location.path) and as_path(path).is_dir():
        raise ValueError(
            f"{path} holds a run that has made no step yet: train first, or name the "
            f"weights that it starts from, {location.path}, by this path."
        )
    return location.path


def best_run_folder(output_dir: PathLike) -> AnyPath:
    """The folder of the best of several runs; for a single run, `output_dir`.

    Raises:
      ValueError: the summary of several runs is damaged.
    """
    output_dir = as_path(output_dir)
    if RESULTS_FILE not in entries(output_dir).files:
        return output_dir
    results = read_json(output_dir / RESULTS_FILE)
    name = results.get(BEST_RUN_KEY, "")
    if not isinstance(name, str) or PurePath(name).name != name:
        raise ValueError(
            f"{output_dir / RESULTS_FILE}: {BEST_RUN_KEY} must name a folder in "
            f"{output_dir}. Received {name!r}: bring the file back."
        )
    return output_dir / name


def run_folder(output_dir: PathLike, number: int) -> AnyPath:
    """The folder of one of several runs, which are numbered from 1."""
    return as_path(output_dir) / RUN_FOLDER.format(number)


def folders_of_runs(output_dir: PathLike, num_runs: int) -> list[AnyPath]:
    """The output folder, and the folders in it that several runs get."""
    numbers = range(1, num_runs + 1) if num_runs > 1 else ()
    return [as_path(output_dir), *(run_folder(output_dir, n) for n in numbers)]


def run_folders(output_dir: PathLike) -> list[AnyPath]:
    """The folders of several runs; empty for a single run."""
    return sorted(as_path(output_dir).glob(RUN_FOLDER.format("*")))
