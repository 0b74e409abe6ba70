"""Signals that ask a run to stop, remembered until it is ready to."""

import os
import signal


class StopSignals:
    """A context in which SIGTERM and SIGINT do nothing but to be remembered.

    A second SIGINT interrupts at once. Outside the main thread, which alone gets
    signals, the context does nothing: whoever runs us there listens.
    """

    def __init__(self):
        self._received: int | None = None
        self._previous = {}

    def __bool__(self) -> bool:
        """Whether one came."""
        return self._received is not None

    @property
    def interrupted(self) -> bool:
        """Whether it was SIGINT, which Ctrl-C sends."""
        return self._received == signal.SIGINT

    def __enter__(self):
        try:
            for number in (signal.SIGTERM, signal.SIGINT):
                self._previous[number] = signal.signal(number, self._remember)
        except ValueError:
            self._previous.clear()
        return self

    def __exit__(self, *_):
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _remember(self, number, _):
        self._received = number
        if number == signal.SIGINT:
            # Not `print`, which must not be entered twice.
            os.write(2, b"Saving after this loop of steps; Ctrl-C again: at once.\n")
            signal.signal(number, signal.default_int_handler)
