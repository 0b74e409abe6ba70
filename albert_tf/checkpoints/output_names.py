"""Names in an output folder, and the rule for the model that a run starts from.

It loads no TensorFlow, so that commands check their flags at once.
"""

import re

from albert_tf.files import read_json
from albert_tf.storage import PathLike, as_path, comparable

RESULTS_FILE = "results.json"
# What a folder says of its run, to resume no other one in it.
SETTINGS_FILE = "settings.json"
# The best weights of a run, and the evaluation that chose them.
BEST_FOLDER, BEST_REPORT_FILE = "best", "best.json"
# Messages of the training loop.
LOG_FILE = "train.log"
RUN_FOLDER = "run_{}"
# In the results of several runs: the name of the best one's folder.
BEST_RUN_KEY = "best_run"


def check_start(init_checkpoint: PathLike, output_dir: PathLike) -> None:
    """Checks that a run does not train into the model that it starts from.

    Raises:
      ValueError: the model lies in `output_dir`, where the run's files would replace
        its own; or `output_dir` is a subfolder that the model's folder would be read
        from.
    """
    if not str(init_checkpoint):
        return
    folder = as_path(init_checkpoint)
    if not folder.is_dir():
        folder = folder.parent
    start, place = comparable(folder), comparable(output_dir)
    is_weights = False
    if start.is_relative_to(place):
        inner = start.relative_to(place).parts
        is_weights = not inner or inner[0] == BEST_FOLDER or is_run(inner[0])
    elif place.is_relative_to(start):
        is_weights = holds_weights(folder, place.relative_to(start).parts[0])
    if is_weights:
        raise ValueError(
            f"A run in {output_dir} would replace the weights {init_checkpoint} that "
            "it starts from, or be taken for them: give another --output_dir, or leave "
            "--init_checkpoint out to resume the run of that folder."
        )


def is_run(subfolder: str) -> bool:
    """True for the names of the folders of several runs."""
    return re.fullmatch(RUN_FOLDER.format(r"\d+"), subfolder) is not None


def holds_weights(folder: PathLike, subfolder: str) -> bool:
    """True if the weights of a folder may be read from a subfolder.

    Args:
      folder: the folder. Only that of several runs is read from one of them.
      subfolder: name of the subfolder, which need not be there.
    Raises:
      ValueError: `results.json` of the folder is damaged.
    """
    if subfolder == BEST_FOLDER:
        return True
    if not is_run(subfolder):
        return False
    return BEST_RUN_KEY in read_json(as_path(folder) / RESULTS_FILE, missing_ok=True)
