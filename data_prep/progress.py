"""A progress bar with the time left; plain lines where there is no terminal."""

import io
import sys

from tqdm import tqdm

# In a log, seconds until the first line and between two.
_SECONDS_PER_LINE = 10.0


class _Lines(io.TextIOBase):
    """Turns a bar that is drawn over itself into lines."""

    def __init__(self, stream):
        self._stream = stream

    def write(self, text: str) -> int:
        if line := text.strip():
            self._stream.write(line + "\n")
            self._stream.flush()
        return len(text)


def progress_bar(total: int, unit: str, description: str) -> tqdm:
    """A bar on standard error, to be used in a `with` statement."""
    options = {"total": total, "unit": unit, "desc": description}
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
