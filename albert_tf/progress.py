"""Shows the progress of long work, in a terminal or in a log.

`progress_bar` is for work whose units are counted. `watched_output` is for all the
rest of a command: it says that work goes on where nothing else is printed.
"""

import contextlib
import io
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, TextIO

from tqdm import tqdm

# Seconds until the first line of a log and between two lines.
SECONDS_PER_LINE = 10.0
# Seconds without any output after which a line says that work goes on.
SECONDS_OF_SILENCE = 20.0
_WATCHER = "watcher of the output"
# Held while the watcher writes. A fork waits for it, so that no lock of the output is
# copied in the state of being held.
_writing = threading.Lock()
os.register_at_fork(
    before=_writing.acquire,
    after_in_parent=_writing.release,
    after_in_child=_writing.release,
)
_FORMAT = (
    "{desc}: {percentage:.0f} %, {n_fmt} of {total_fmt} {unit}, "
    "{elapsed} so far, {remaining} left"
)


def terminal_size() -> dict[str, int]:
    """Arguments of tqdm for a bar on a terminal, which may not know its own size."""
    columns, lines = shutil.get_terminal_size()
    return {"ncols": columns, "nrows": lines}


class _Lines(io.TextIOBase):
    """A stream that turns a progress bar, which is drawn over itself, into lines."""

    def __init__(self, stream: TextIO):
        self._stream, self._last = stream, ""

    def write(self, text: str) -> int:
        """Writes a line if there is anything visible and new to write."""
        line = text.strip()
        if line and line != self._last:
            self._stream.write(line + "\n")
            self._stream.flush()
            self._last = line
        return len(text)


def progress_bar(
    total: int,
    unit: str,
    description: str,
) -> tqdm:
    """Makes a progress bar on standard error; plain lines without a terminal.

    Args:
      total: number of units.
      unit: name of a unit; "B" for bytes.
      description: text in front of the bar.
    Returns:
      A bar to be used in a `with` statement.
    """
    options: dict[str, Any] = {"total": total, "unit": unit, "desc": description}
    options["unit_scale"] = unit == "B"
    if sys.stderr.isatty():
        return tqdm(**options, **terminal_size())
    return tqdm(
        **options,
        file=_Lines(sys.stderr),
        mininterval=SECONDS_PER_LINE,
        delay=SECONDS_PER_LINE,
        bar_format=_FORMAT,
    )


def can_fork() -> bool:
    """True if no thread runs but the main one and the watcher, which holds no lock
    while the process is copied."""
    threads = threading.enumerate()
    return all(t is threading.main_thread() or t.name == _WATCHER for t in threads)


def say(text: str) -> None:
    """Prints a line on standard output, above any bar that is drawn."""
    tqdm.write(text)
    sys.stdout.flush()


class _Watched:
    """Standard output or error that tells when something was written last."""

    def __init__(self, stream: TextIO, clock: list[float]):
        self._stream, self._clock = stream, clock

    def write(self, text: str) -> int:
        """Writes to the stream itself."""
        self._clock[0] = time.monotonic()
        return self._stream.write(text)

    def flush(self) -> None:
        """Flushes the stream itself."""
        self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def watched_output(seconds: float = SECONDS_OF_SILENCE) -> Iterator[None]:
    """Prints a line whenever nothing was written for a while, on standard error.

    Loading, tracing, compiling and saving take long with large models and count no
    units.

    Args:
      seconds: how long nothing may be written.
    """
    began = time.monotonic()
    clock, ended = [began], threading.Event()

    def watch() -> None:
        while not ended.wait(min(1.0, seconds / 4)):
            if time.monotonic() - clock[0] >= seconds:
                passed = tqdm.format_interval(time.monotonic() - began)
                # A reader that has gone, as `head`, stops the main thread by itself.
                with _writing, contextlib.suppress(OSError):
                    tqdm.write(f"Working, {passed} so far.", file=sys.stderr)

    with (
        contextlib.redirect_stdout(_Watched(sys.stdout, clock)),
        contextlib.redirect_stderr(_Watched(sys.stderr, clock)),
    ):
        watcher = threading.Thread(target=watch, name=_WATCHER, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
