"""Names in an output folder, and the rule for the model that a run starts from.

It loads no TensorFlow, so that commands check their flags at once.
"""

import os
import re
from pathlib import Path

from albert_tf.files import read_json

RESULTS_FILE = "results.json"
# The best weights of a run, and the evaluation that chose them.
BEST_FOLDER, BEST_REPORT_FILE = "best", "best.json"
RUN_FOLDER = "run_{}"
# In the results of several runs: the name of the best one's folder.
BEST_RUN_KEY = "best_run"


def check_start(
    init_checkpoint: str | os.PathLike[str], output_dir: str | os.PathLike[str]
) -> None:
    """Checks that a run does not train into the model that it starts from.

    Raises:
      ValueError: the model lies in `output_dir`, where the run's files would replace
        its own; or `output_dir` is a subfolder that the model's folder would be read
        from.
    """
    if not os.fspath(init_checkpoint):
        return
    start, place = Path(init_checkpoint).resolve(), Path(output_dir).resolve()
    if not start.is_dir():
        start = start.parent
    is_weights = False
    if start.is_relative_to(place):
        inner = start.relative_to(place).parts
        is_weights = not inner or inner[0] == BEST_FOLDER or is_run(inner[0])
    elif place.is_relative_to(start):
        is_weights = holds_weights(start, place.relative_to(start).parts[0])
    if is_weights:
        raise ValueError(
            f"A run in {output_dir} would replace the weights {init_checkpoint} that "
            "it starts from, or be taken for them: give another --output_dir, or leave "
            "--init_checkpoint out to resume the run of that folder."
        )


def is_run(subfolder: str) -> bool:
    """True for the names of the folders of several runs."""
    return re.fullmatch(RUN_FOLDER.format(r"\d+"), subfolder) is not None


def holds_weights(folder: Path, subfolder: str) -> bool:
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
    return BEST_RUN_KEY in read_json(folder / RESULTS_FILE, missing_ok=True)
