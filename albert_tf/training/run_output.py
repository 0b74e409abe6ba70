"""The lines that a run prints while it trains, and the messages in its log."""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tqdm import tqdm

from albert_tf.checkpoints.output_names import LOG_FILE
from albert_tf.progress import SECONDS_PER_LINE, terminal_size
from albert_tf.training.run_folder import RunFolder

# Loops that are as long as they should be end sooner.
SECONDS_PER_LOOP_LINE = 15.0


class TrainingProgress:
    """A bar on a terminal; elsewhere a line now and then.

    Lines are at least ten seconds apart, but for the one of the last step. Within a
    loop that takes longer they have the step and the speed alone.
    """

    def __init__(self, step: int, num_train_steps: int, current: Callable[[], int]):
        """Starts at a step.

        Args:
          step: optimizer steps done.
          num_train_steps: those of the whole training.
          current: returns the steps done, within a loop, too; called in a thread.
        """
        self._total, self._bar = num_train_steps, None
        # While a loop runs, prints go to the log.
        self._stream = sys.stdout
        self._current, self._known = current, step
        self._lock, self._ended = threading.Lock(), threading.Event()
        if sys.stderr.isatty():
            self._bar = tqdm(
                total=num_train_steps,
                initial=step,
                unit="step",
                desc="Training",
                bar_format="{l_bar}{bar:10}| {n_fmt}/{total_fmt}{postfix}",
                **terminal_size(),
            )
        self._printed = time.monotonic()
        self._follower = threading.Thread(target=self._follow, daemon=True)
        self._follower.start()

    def show(self, step: int, report: Mapping[str, float]) -> None:
        """Shows the report of a loop.

        Args:
          step: optimizer steps done.
          report: as of `Trainer.train_loop_end`.
        """
        left = tqdm.format_interval(60 * report["minutes_left"])
        with self._lock:
            self._show(step, [f"{left} left", *_numbers(report)])

    def _show(self, step: int, facts: list[str]) -> None:
        now = time.monotonic()
        if self._bar is not None:
            self._bar.set_postfix_str(", ".join(facts), refresh=False)
            self._bar.update(step - self._bar.n)
        elif now - self._printed >= SECONDS_PER_LINE or step >= self._total:
            share = f"Step {step:,} of {self._total:,} ({step / self._total:.0%})"
            self._stream.write(", ".join([share, *facts]) + "\n")
            self._stream.flush()
        else:
            return
        self._printed, self._known = now, step

    def _follow(self) -> None:
        """Shows the steps of a loop that takes longer than a line may be late."""
        # A reader that has gone, as `head`, stops the main thread by itself.
        with contextlib.suppress(OSError):
            self._follow_loops()

    def _follow_loops(self) -> None:
        while not self._ended.wait(1.0):
            passed = time.monotonic() - self._printed
            if passed < SECONDS_PER_LOOP_LINE:
                continue
            step = self._current()
            with self._lock:
                steps = step - self._known
                if steps > 0 and step < self._total:
                    left = (self._total - step) * passed / steps
                    speed = f"{steps / passed:.2f} steps/s"
                    self._show(step, [f"{tqdm.format_interval(left)} left", speed])

    def close(self) -> None:
        """Ends the bar."""
        self._ended.set()
        self._follower.join()
        if self._bar is not None:
            self._bar.close()


@contextlib.contextmanager
def shown_progress(
    step: int, num_train_steps: int, current: Callable[[], int]
) -> Iterator[TrainingProgress]:
    """Yields the progress of a training; arguments as of `TrainingProgress`."""
    progress = TrainingProgress(step, num_train_steps, current)
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
    file = Path(os.devnull)
    if trains:
        folder.events.mkdir(parents=True, exist_ok=True)
        file = folder.events / LOG_FILE
    with (
        open(file, "a", encoding="utf-8") as log,
        contextlib.redirect_stdout(log),
    ):
        yield
