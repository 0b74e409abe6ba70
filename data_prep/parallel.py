"""Carries out calls in several processes of this machine (cluster.py: of others).

`concurrent.futures` is not used because its workers outlive a parent that is killed and
wait forever, and because values shared by all calls would need a global variable. Here
each worker holds one end of a pipe whose other end only the parent has, so each of them
notices when the other dies.
"""

import multiprocessing
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple, Protocol

from albert_tf.progress import can_fork
from albert_tf.storage import is_storage_error


class Call(NamedTuple):
    """A call `function(shared, *arguments)` of a function at the top of a module.

    `note` is not sent to the worker; it tells the caller which call is done.
    """

    function: Callable
    arguments: tuple
    note: Any = None


def default_count() -> int:
    """Returns the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Executor(Protocol):
    """Carries out calls; use it in a `with` statement.

    Attributes:
      is_remote: True if calls are carried out on other machines.
    """

    is_remote: bool

    @property
    def peak_memory(self) -> int:
        """Sum of the peak resident sizes of all processes so far, in bytes."""
        ...

    def share(self, value: Any) -> None:
        """Sets the first argument of all further calls."""
        ...

    def run(
        self,
        next_call: Callable[[], Call | None],
        done: Callable[[Call, Any], object],
    ) -> None:
        """Carries out calls until there are none left.

        Args:
          next_call: returns the next call; None if another call has to be done first,
            or if none is left.
          done: gets each call and its result, in the order of completion.
        Raises:
          ValueError: raised by a call.
          OSError: raised by a call, or a worker died.
          RuntimeError: a call raised another error in a worker.
        """
        ...


class Workers:
    """Processes of this machine: an `Executor`."""

    is_remote = False

    def __init__(self, count: int):
        """Starts the processes.

        Args:
          count: number of processes; 1 starts none, so that calls run in this one.
        Raises:
          ValueError: the count is not positive.
        """
        if count < 1:
            raise ValueError(f"num_workers must be at least 1. Received {count}.")
        self._shared: Any = None
        self._peaks: dict[int, int] = {}
        self._processes: dict[Connection, BaseProcess] = {}
        method = _start_method()
        context: Any = multiprocessing.get_context(method)
        for _ in range(count if count > 1 else 0):
            parent_end, worker_end = context.Pipe()
            # A fork inherits the parent's ends and would keep them open.
            inherited = (*self._processes, parent_end) if method == "fork" else ()
            process = context.Process(
                target=_work, args=(worker_end, inherited), daemon=True
            )
            process.start()
            worker_end.close()
            self._processes[parent_end] = process

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, error_type: type[BaseException] | None, *_) -> None:
        for connection, process in self._processes.items():
            if error_type is not None:
                process.kill()
            connection.close()
        for process in self._processes.values():
            process.join()

    @property
    def peak_memory(self) -> int:
        """Sum of the peak resident sizes of all processes so far, in bytes."""
        return peak_memory() + sum(self._peaks.values())

    def share(self, value: Any) -> None:
        """Sets the first argument of all further calls."""
        self._shared = value
        for connection in self._processes:
            self._send(connection, (None, value))

    def run(
        self,
        next_call: Callable[[], Call | None],
        done: Callable[[Call, Any], object],
    ) -> None:
        """Carries out calls until there are none left; see `Executor`."""
        if not self._processes:
            while (call := next_call()) is not None:
                done(call, call.function(self._shared, *call.arguments))
            return
        idle = list(self._processes)
        busy: dict[Connection, Call] = {}
        while True:
            while idle and (call := next_call()) is not None:
                connection = idle.pop()
                self._send(connection, (call.function, call.arguments))
                busy[connection] = call
            if not busy:
                return
            ready: Any = wait(list(busy))
            for connection in ready:
                result = self._receive(connection)
                idle.append(connection)
                done(busy.pop(connection), result)

    def _send(self, connection: Connection, value: Any) -> None:
        try:
            connection.send(value)
        except OSError as error:
            raise self._death(connection) from error

    def _receive(self, connection: Connection) -> Any:
        try:
            error, result, self._peaks[id(connection)] = connection.recv()
        except (EOFError, ConnectionError) as broken:
            raise self._death(connection) from broken
        if error is not None:
            raise error
        return result

    def _death(self, connection: Connection) -> OSError:
        process = self._processes[connection]
        process.join(timeout=10)
        return OSError(
            f"A worker process died (exit code {process.exitcode}), perhaps for lack "
            "of memory: start again, if so with fewer --num_workers; finished "
            "files are kept."
        )


def _start_method() -> str:
    """Chooses how processes start: by a fork if that is safe.

    A fork takes a hundredth of the time of a new process. But it copies the locks of
    threads as they are, so it is safe only in a process without further threads, and
    TensorFlow has many.
    """
    is_simple = can_fork() and "tensorflow" not in sys.modules
    return "fork" if is_simple and sys.platform == "linux" else "spawn"


def _work(connection: Connection, inherited: Sequence[Connection]) -> None:
    """Carries out calls until the parent closes the pipe or dies."""
    for parent_end in inherited:
        parent_end.close()
    # Ctrl-C goes to all processes of a terminal; the parent ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        shared = None
        while True:
            function, arguments = connection.recv()
            if function is None:
                shared = arguments
            else:
                result = attempt(shared, function, arguments)
                connection.send((*result, peak_memory()))
    except (EOFError, ConnectionError):
        return


def attempt(
    shared: Any, function: Callable, arguments: tuple
) -> tuple[Exception | None, Any]:
    """Returns (error, None) or (None, result) of a call."""
    try:
        return None, function(shared, *arguments)
    except (ValueError, OSError) as error:
        return error, None
    except Exception as error:
        if is_storage_error(error):  # some of them cannot be pickled
            return OSError(str(error) or type(error).__name__), None
        return RuntimeError(f"In a worker process:\n{traceback.format_exc()}"), None


def peak_memory() -> int:
    """Returns the peak resident size of this process so far, in bytes."""
    try:
        # Not `getrusage`, whose value a new process inherits from its parent.
        with open("/proc/self/status") as status:
            lines = [line for line in status if line.startswith("VmHWM:")]
        return 1024 * int(lines[0].split()[1])
    except (OSError, IndexError):
        unit = 1 if sys.platform == "darwin" else 1024
        return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
