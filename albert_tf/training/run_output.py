"""What a run prints while it trains, and what goes to its log instead."""

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tqdm import tqdm

from albert_tf.checkpoints.output_names import LOG_FILE
from albert_tf.progress import SECONDS_PER_LINE
from albert_tf.training.run_folder import RunFolder


class TrainingProgress:
    """A bar on a terminal; elsewhere a line now and then.

    Lines are at least ten seconds apart, but for the one of the last step.
    """

    def __init__(self, step: int, num_train_steps: int):
        """Starts at a step.

        Args:
          step: optimizer steps done.
          num_train_steps: those of the whole training.
        """
        self._total, self._bar = num_train_steps, None
        if sys.stderr.isatty():
            self._bar = tqdm(
                total=num_train_steps,
                initial=step,
                unit="step",
                desc="Training",
                dynamic_ncols=True,
            )
        self._printed = time.monotonic()

    def show(self, step: int, report: Mapping[str, float]) -> None:
        """Shows the report of a loop.

        Args:
          step: optimizer steps done.
          report: as of `Trainer.train_loop_end`.
        """
        if self._bar is not None:
            self._bar.set_postfix_str(", ".join(_numbers(report)), refresh=False)
            self._bar.update(step - self._bar.n)
            return
        now = time.monotonic()
        if now - self._printed < SECONDS_PER_LINE and step < self._total:
            return
        self._printed = now
        left = tqdm.format_interval(60 * report["minutes_left"])
        share = f"Step {step:,} of {self._total:,} ({step / self._total:.0%})"
        print(", ".join([share, f"{left} left", *_numbers(report)]), flush=True)

    def close(self) -> None:
        """Ends the bar."""
        if self._bar is not None:
            self._bar.close()


@contextlib.contextmanager
def shown_progress(step: int, num_train_steps: int) -> Iterator[TrainingProgress]:
    """Yields the progress of a training; arguments as of `TrainingProgress`."""
    progress = TrainingProgress(step, num_train_steps)
    try:
        yield progress
    finally:
        progress.close()


def _numbers(report: Mapping[str, float]) -> Iterator[str]:
    speed = report["examples_per_second"]
    yield f"{speed:,.0f} rows/s" if speed >= 10 else f"{speed:.2f} rows/s"
    for name, value in report.items():
        if name.endswith("loss"):
            yield f"{name.replace('_', ' ')} {value:.3f}"
    if layers := report.get("layers"):
        yield f"{layers:.0f} layers"
    if skipped := report.get("skipped_steps"):
        yield f"{skipped:.0f} steps skipped"
    yield f"learning rate {report['learning_rate']:.2e}"


def evaluation_line(step: int, report: Mapping[str, Any]) -> str:
    """An evaluation during training, in one line.

    Args:
      step: optimizer steps done.
      report: as of `finish_report`.
    """
    rows = f"{report['eval_rows']:,}"
    if whole := report.get("eval_rows_of"):
        rows += f" of {whole:,}"
    numbers = [
        f"{name.replace('_', ' ')} {value:.3f}"
        for name, value in report.items()
        if isinstance(value, float) and "per_second" not in name
    ]
    return f"Evaluation at step {step:,}, {rows} rows: {', '.join(numbers)}"


@contextlib.contextmanager
def loop_messages_logged(folder: RunFolder, trains: bool) -> Iterator[None]:
    """Appends to the log what is printed meanwhile: orbit's reports of its loops.

    Args:
      folder: the folder of the run.
      trains: whether the run trains. An evaluation leaves a model's folder as it is.
    """
    file = folder.events / LOG_FILE if trains else Path(os.devnull)
    with (
        open(file, "a", encoding="utf-8") as log,
        contextlib.redirect_stdout(log),
    ):
        yield
