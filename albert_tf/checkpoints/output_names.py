"""Names in an output folder, and the rule for the model that a run starts from.

It loads no TensorFlow, so that commands check their flags at once.
"""

import os
import re
from pathlib import Path

RESULTS_FILE = "results.json"
# The best weights of a run, and the evaluation that chose them.
BEST_FOLDER, BEST_REPORT_FILE = "best", "best.json"
RUN_FOLDER = "run_{}"


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
    inner: tuple[str, ...] | None = None
    if start.is_relative_to(place):
        inner = start.relative_to(place).parts
    elif place.is_relative_to(start):
        inner = place.relative_to(start).parts[:1]
    if inner is not None and (not inner or holds_weights(inner[0])):
        raise ValueError(
            f"A run in {output_dir} would replace the weights {init_checkpoint} that "
            "it starts from, or be taken for them: give another --output_dir, or leave "
            "--init_checkpoint out to resume the run of that folder."
        )


def holds_weights(subfolder: str) -> bool:
    """True for names of an output folder's subfolders that hold weights."""
    is_run = re.fullmatch(RUN_FOLDER.format(r"\d+"), subfolder)
    return subfolder == BEST_FOLDER or is_run is not None
