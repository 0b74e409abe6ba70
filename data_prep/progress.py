"""Shows the progress of long work, in a terminal or in a log."""

import io
import sys
from typing import Any, TextIO

from tqdm import tqdm

# Seconds until the first line of a log and between two lines.
_SECONDS_PER_LINE = 10.0


class _Lines(io.TextIOBase):
    """A stream that turns a progress bar, which is drawn over itself, into lines."""

    def __init__(self, stream: TextIO):
        self._stream = stream

    def write(self, text: str) -> int:
        """Writes a line if there is anything visible to write."""
        if line := text.strip():
            self._stream.write(line + "\n")
            self._stream.flush()
        return len(text)


def progress_bar(total: int, unit: str, description: str) -> tqdm:
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
        return tqdm(**options)
    return tqdm(
        **options,
        file=_Lines(sys.stderr),
        mininterval=_SECONDS_PER_LINE,
        delay=_SECONDS_PER_LINE,
        bar_format="{desc}: {percentage:.0f} %, {n_fmt} of {total_fmt} {unit}, "
        "{elapsed} so far, {remaining} left",
    )
