"""Signals that ask a run to stop: they are recorded until it is ready to."""

import os
import signal
from types import FrameType, TracebackType
from typing import Any


class StopSignals:
    """Context manager that records SIGTERM and SIGINT instead of acting on them.

    A second SIGINT interrupts at once. Python delivers signals to the main thread only:
    in other threads the context does nothing.
    """

    def __init__(self) -> None:
        self._number: int | None = None
        self._previous: dict[int, Any] = {}

    @property
    def received(self) -> bool:
        """True if a signal came."""
        return self._number is not None

    @property
    def interrupted(self) -> bool:
        """True if the signal was SIGINT, which Ctrl-C sends."""
        return self._number == signal.SIGINT

    def __enter__(self) -> "StopSignals":
        try:
            for number in (signal.SIGTERM, signal.SIGINT):
                self._previous[number] = signal.signal(number, self._record)
        except ValueError:  # not the main thread
            self._previous.clear()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _record(self, number: int, frame: FrameType | None) -> None:
        self._number = number
        if number == signal.SIGINT:
            # `print` must not be entered again while it runs; `write` may.
            os.write(2, b"Saving after this loop of steps; Ctrl-C again: at once.\n")
            signal.signal(number, signal.default_int_handler)
