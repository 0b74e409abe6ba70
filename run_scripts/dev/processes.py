"""A function in a process of its own, so that its memory is measured alone.

The process waits between calls, so that several can be timed in turns.
"""

import contextlib
import multiprocessing
import re
import resource
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

# These are sent to the caller; any other error ends the process with its traceback.
_SENT = (ValueError, OSError, ImportError)


class Process:
    """A function that another process has made and calls.

    Attributes:
      peak_megabytes: the most memory of the process so far, 10^6 bytes.
    """

    def __init__(self, make: Callable[..., Callable], *arguments: Any):
        """Starts the process and waits until it has made the function.

        Args:
          make: a function of a module, which returns the function to call.
          *arguments: of `make`.
        Raises:
          ValueError, OSError, ImportError: as `make`; or the process died.
        """
        context = multiprocessing.get_context("spawn")
        self._what = f"{make.__name__}{arguments}"
        self._connection, other = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(other, make, arguments), daemon=True
        )
        self._process.start()
        other.close()
        self.peak_megabytes = 0.0
        try:
            self._receive()
        except BaseException:
            self.close()
            raise

    def __call__(self, *arguments: Any) -> Any:
        """Calls the function there; raises ValueError, OSError or ImportError as it."""
        self._connection.send(arguments)
        return self._receive()

    def close(self) -> None:
        """Ends the process."""
        self._connection.close()
        self._process.join()

    def _receive(self) -> Any:
        try:
            result, self.peak_megabytes = self._connection.recv()
        except (EOFError, ConnectionResetError):
            raise ValueError(
                f"The process that measured {self._what:.400} died, of memory most "
                "likely: use fewer rows."
            ) from None
        if isinstance(result, Exception):
            raise result
        return result


def _serve(
    connection: Connection, make: Callable[..., Callable], arguments: tuple
) -> None:
    """Makes the function, then calls it as often as it is asked to."""
    try:
        function = make(*arguments)
    except _SENT as error:
        connection.send((error, 0.0))
        return
    result = None
    # The caller may be gone, or close the connection.
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            connection.send((result, _peak_megabytes()))
            asked = connection.recv()
            try:
                result = function(*asked)
            except _SENT as error:
                result = error


def _peak_megabytes() -> float:
    """The most memory that this process has had.

    Where /proc is missing, it is at least what its parent had when this one started.
    """
    with contextlib.suppress(OSError):
        found = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
        if found:
            return int(found[1]) * 1024 / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
