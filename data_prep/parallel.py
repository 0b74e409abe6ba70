"""Processes that carry out tasks; one process does so itself.

Why not `concurrent.futures`: its workers outlive a parent that is killed, waiting for
ever, and need a global variable for what all tasks share. Here each worker holds one
end of a pipe whose other end only the parent has, so either sees when the other dies.
"""

import multiprocessing
import os
import resource
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple


class Task(NamedTuple):
    """A call `function(shared, *arguments)` of a function of a module.

    `note` is for the one who gave the task and stays with it.
    """

    function: Callable
    arguments: tuple
    note: Any = None


def default_count() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Workers:
    """A number of processes, to be used in a `with` statement."""

    def __init__(self, count: int):
        """Starts the processes; a count of 1 starts none.

        Raises:
          ValueError: the count is not positive.
        """
        if count < 1:
            raise ValueError(f"num_workers must be at least 1. Received {count}.")
        self._shared = None
        self._peaks: dict[int, int] = {}
        self._processes: dict[Connection, multiprocessing.Process] = {}
        method = _start_method()
        context = multiprocessing.get_context(method)
        for _ in range(count if count > 1 else 0):
            mine, theirs = context.Pipe()
            # A fork has the parent's ends too, and would keep them open.
            inherited = (*self._processes, mine) if method == "fork" else ()
            process = context.Process(
                target=_work, args=(theirs, inherited), daemon=True
            )
            process.start()
            theirs.close()
            self._processes[mine] = process

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, error_type, *_) -> None:
        for connection, process in self._processes.items():
            if error_type is not None:
                process.kill()
            connection.close()
        for process in self._processes.values():
            process.join()

    @property
    def peak_memory(self) -> int:
        """Sum of the largest resident sizes of all processes so far, in bytes."""
        return _peak_memory() + sum(self._peaks.values())

    def share(self, value: Any) -> None:
        """Sets what all further tasks get as their first argument."""
        self._shared = value
        for connection in self._processes:
            self._send(connection, (None, value))

    def run(
        self,
        next_task: Callable[[], Task | None],
        done: Callable[[Task, Any], None],
    ) -> None:
        """Carries out tasks until there are none.

        Args:
          next_task: gives the next task; None if there is none before another task is
            done, or none at all.
          done: is told of each task and its result, in the order of completion.
        Raises:
          ValueError, OSError: as a task raised it, or a worker died.
        """
        if not self._processes:
            while (task := next_task()) is not None:
                done(task, task.function(self._shared, *task.arguments))
            return
        idle, busy = list(self._processes), {}
        while True:
            while idle and (task := next_task()) is not None:
                connection = idle.pop()
                self._send(connection, task[:2])
                busy[connection] = task
            if not busy:
                return
            for connection in wait(list(busy)):
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
            f"A worker process died (exit code {process.exitcode}), perhaps for want "
            "of memory: start again, with fewer --num_workers if it was; finished "
            "files are kept."
        )


def _start_method() -> str:
    """How to start a process: a fork takes a hundredth of the time of a new one.

    But it copies threads' locks as they happen to be, which only a process without
    threads of its own survives for sure, and TensorFlow has many.
    """
    is_simple = threading.active_count() == 1 and "tensorflow" not in sys.modules
    return "fork" if is_simple and sys.platform == "linux" else "spawn"


def _work(connection: Connection, inherited: Sequence[Connection]) -> None:
    """What a worker does until its parent closes the pipe or dies."""
    for parents_end in inherited:
        parents_end.close()
    # Ctrl-C goes to all processes of a terminal; the parent ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        shared = None
        while True:
            function, arguments = connection.recv()
            if function is None:
                shared = arguments
            else:
                result = _attempt(shared, function, arguments)
                connection.send((*result, _peak_memory()))
    except (EOFError, ConnectionError):
        return


def _attempt(shared, function, arguments) -> tuple[Exception | None, Any]:
    try:
        return None, function(shared, *arguments)
    except (ValueError, OSError) as error:
        return error, None
    except Exception:
        return RuntimeError(f"In a worker process:\n{traceback.format_exc()}"), None


def _peak_memory() -> int:
    """The largest resident size of this process so far, in bytes."""
    try:
        # Not `getrusage`, whose number a new process takes over from its parent.
        with open("/proc/self/status") as status:
            lines = [line for line in status if line.startswith("VmHWM:")]
        return 1024 * int(lines[0].split()[1])
    except (OSError, IndexError):
        unit = 1 if sys.platform == "darwin" else 1024
        return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
