"""Carries out calls on the workers of a Dask cluster.

The scheduler of Dask (`distributed`) gives them to its workers, and those of a lost
worker to another one.
"""

import asyncio
import concurrent.futures
import contextlib
import importlib.metadata
import logging
import os
import pickle
import re
import socket
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from albert_tf.storage import as_path
from data_prep.parallel import Call, Workers, attempt, peak_memory

# Libraries whose versions decide the bytes of the results.
_LIBRARIES = ("albert-tf", "numpy", "sentencepiece", "sentencex", "tensorflow-text")
_SECONDS_TO_CONNECT = 30
_ADDRESS = re.compile(r"(tcp|tls)://[^/]+:[0-9]+/?")
# Without a result for so long, it is checked whether the cluster has workers at all.
_SECONDS_OF_SILENCE = 60
# Calls that a cluster is given for each thread of its workers, so that none waits.
_CALLS_PER_THREAD = 2


class ClusterWorkers:
    """Workers of a Dask cluster: an `Executor`.

    Dask carries a lost worker's calls out again on another one, so calls must have the
    same effect if they are repeated.
    """

    is_remote = True

    def __init__(self, scheduler: str):
        """Connects to a cluster and checks its workers.

        Args:
          scheduler: its address, as tcp://HOST:PORT.
        Raises:
          ValueError: Dask is not installed.
          OSError: there is no such scheduler, it has no workers, or one of them has no
            albert-tf or other libraries.
        """
        self._client = _connect(scheduler)
        self._shared: Any = None
        self._peaks: dict[Any, int] = {}
        try:
            self._check_versions()
        except BaseException:
            self._client.close()
            raise

    def __enter__(self) -> "ClusterWorkers":
        return self

    def __exit__(self, *_) -> None:
        # The scheduler drops the calls of a client that is gone.
        self._client.close()

    @property
    def peak_memory(self) -> int:
        """Sum of the peak resident sizes of all processes so far, in bytes."""
        return peak_memory() + sum(self._peaks.values())

    def share(self, value: Any) -> None:
        """Sets the first argument of all further calls."""
        # A call, not data, which would be lost with the workers that hold it.
        self._shared = self._client.submit(
            pickle.loads, pickle.dumps(value), key=f"share-{uuid.uuid4().hex}"
        )

    def run(
        self,
        next_call: Callable[[], Call | None],
        done: Callable[[Call, Any], object],
    ) -> None:
        """Carries out calls until there are none left; see `Executor`."""
        busy: dict[Any, Call] = {}
        while True:
            room = _CALLS_PER_THREAD * max(self._threads(), 1)
            while len(busy) < room and (call := next_call()) is not None:
                busy[self._submit(call)] = call
            if not busy:
                return
            for future in self._wait(busy):
                call = busy.pop(future)
                done(call, self._result(future, call))

    def check_paths(self, paths: Sequence[str]) -> None:
        """Checks that all workers see some files and folders.

        Raises:
          OSError: one does not.
        """
        for worker, missing in self._ask(_missing, paths).items():
            if missing:
                raise OSError(
                    f"The worker {worker} does not see {missing[0]}: give paths of a "
                    "bucket, or of a disk that all machines of the cluster mount at "
                    "the same place (text, vocabulary, --output_file, --work_dir)."
                )

    def _check_versions(self) -> None:
        own = _versions()
        for worker, versions in self._ask(_versions).items():
            for name, version in own.items():
                if versions.get(name) != version:
                    raise OSError(
                        f"The worker {worker} has {name} {versions.get(name)}, this "
                        f"machine {version}: install the same on both, since results "
                        "depend on it."
                    )

    def _ask(self, function: Callable, *arguments: Any) -> dict[str, Any]:
        """Returns worker -> result of a function that each of them calls."""
        answers = self._client.run(function, *arguments, on_error="return")
        if not answers:
            raise OSError(
                f"The Dask scheduler {self._client.scheduler.address} has no workers: "
                "start some with `dask worker`."
            )
        for worker, answer in answers.items():
            if isinstance(answer, BaseException):
                raise OSError(
                    f"The worker {worker} cannot carry out calls of this package "
                    f"({type(answer).__name__}: {answer}): install albert-tf there as "
                    "on this machine."
                )
        return answers

    def _threads(self) -> int:
        """Returns the number of threads of all workers."""
        with _told("count its workers"):
            return sum(self._client.nthreads().values())

    def _submit(self, call: Call) -> Any:
        with _told(f"carry out {call.function.__name__}"):
            return self._client.submit(
                _attempt_packed,
                self._shared,
                pickle.dumps((call.function, call.arguments)),
                key=f"{call.function.__name__}-{uuid.uuid4().hex}",
            )

    def _wait(self, busy: Mapping[Any, Call]) -> set:
        """Waits until some calls are done, and returns their futures."""
        import distributed

        name = next(iter(busy.values())).function.__name__
        while True:
            with (
                contextlib.suppress(TimeoutError, asyncio.TimeoutError),
                self._client.as_current(),
                _told(f"carry out {name}"),
            ):
                return distributed.wait(
                    list(busy), _SECONDS_OF_SILENCE, return_when="FIRST_COMPLETED"
                ).done
            if not self._threads():
                print("NOTE: the Dask cluster has no workers now.", flush=True)

    def _result(self, future: Any, call: Call) -> Any:
        with _told(f"carry out {call.function.__name__}"):
            error, result, process, peak = future.result()
        if error is not None:
            raise error
        self._peaks[process] = peak
        return result


@contextlib.contextmanager
def _told(task: str) -> Iterator[None]:
    """Turns errors of Dask itself into one line, but for the end of a wait.

    Args:
      task: what the cluster was to do.
    """
    try:
        yield
    except (TimeoutError, asyncio.TimeoutError):
        raise
    except (Exception, asyncio.CancelledError) as error:
        reason = f"{type(error).__name__}: {error}"
        is_cancelled = isinstance(error, concurrent.futures.CancelledError)
        if is_cancelled or isinstance(error, OSError | asyncio.CancelledError):
            reason = "the connection to its scheduler is lost"
        raise OSError(
            f"The Dask cluster could not {task} ({reason}): see the logs of its "
            "scheduler and workers, and start again; finished files are kept."
        ) from error


def _connect(scheduler: str) -> Any:
    """Returns a client of Dask."""
    try:
        import distributed
    except ImportError as error:
        raise ValueError(
            f"--scheduler needs a package that is not installed ({error}): pip install "
            "'albert-tf[dask]'."
        ) from None
    # Its errors are raised as well, and told in one line.
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    if not _ADDRESS.fullmatch(scheduler):
        raise ValueError(
            f"--scheduler must be tcp://HOST:PORT or tls://HOST:PORT. Received "
            f"{scheduler!r}."
        )
    try:
        asyncio.run(_greet(scheduler))
        return distributed.Client(
            scheduler, timeout=_SECONDS_TO_CONNECT, set_as_default=False
        )
    except (OSError, ValueError, asyncio.TimeoutError) as error:
        raise OSError(
            f"No Dask scheduler answers at {scheduler!r}: start one with `dask "
            "scheduler`, or correct --scheduler."
        ) from error


async def _greet(scheduler: str) -> None:
    """Raises TimeoutError or OSError unless a process of Dask answers.

    The client itself waits without end for a server of another protocol.
    """
    from distributed.comm import connect

    connected = connect(scheduler, timeout=_SECONDS_TO_CONNECT)
    comm = await asyncio.wait_for(connected, _SECONDS_TO_CONNECT)
    await comm.close()


def _versions() -> dict[str, str]:
    """Library -> its version in this process."""
    versions = {}
    for name in _LIBRARIES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed as a package"
    return versions


def _missing(paths: Sequence[str]) -> list[str]:
    """Returns those of some paths that this process does not see."""
    return [path for path in paths if not as_path(path).exists()]


def _attempt_packed(shared: Any, packed: bytes) -> tuple:
    """Carries out a pickled call; returns (error, result, process, peak memory)."""
    function, arguments = pickle.loads(packed)
    process = socket.gethostname(), os.getpid()
    return (*attempt(shared, function, arguments), process, peak_memory())


def start_workers(count: int, scheduler: str = "") -> Workers | ClusterWorkers:
    """Starts processes of this machine, or connects to a Dask cluster.

    Args:
      count: as for `Workers`; unused if there is a scheduler.
      scheduler: as for `ClusterWorkers`; empty: this machine.
    """
    return ClusterWorkers(scheduler) if scheduler else Workers(count)
