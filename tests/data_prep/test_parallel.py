"""Workers carry calls out, hand errors over, and die with their parent."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from data_prep.parallel import Call, Workers
from helpers.calls import die, run_all
from helpers.paths import ROOT


def multiply(shared, value):
    return shared * value, os.getpid()


def fail(shared, error):
    raise error


@pytest.mark.parametrize("count", [1, 2, 3])
def test_every_call_is_done_once_with_what_is_shared(count):
    with Workers(count) as workers:
        workers.share(3)
        results = run_all(workers, [Call(multiply, (n,), n) for n in range(20)])
        assert {n: value for n, (value, _) in results.items()} == {
            n: 3 * n for n in range(20)
        }
        processes = {pid for _, pid in results.values()}
        assert (os.getpid() in processes) == (count == 1) and len(processes) <= count
        workers.share(5)
        assert run_all(workers, [Call(multiply, (4,), 0)])[0][0] == 20
        assert workers.peak_memory > count * 10_000_000


def test_a_call_may_wait_for_another():
    """Each result gives the next call, so that all but one worker wait."""
    results, ready = [], [Call(multiply, (1,))]

    def done(call, result):
        results.append(result[0])
        if len(results) < 6:
            ready.append(Call(multiply, (result[0],)))

    with Workers(2) as workers:
        workers.share(2)
        workers.run(lambda: ready.pop() if ready else None, done)
    assert results == [2, 4, 8, 16, 32, 64]


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("error", [ValueError("bad text"), OSError("no disk")])
def test_errors_of_calls_are_raised(count, error):
    with (
        pytest.raises(type(error), match=str(error)),
        Workers(count) as workers,
    ):
        run_all(workers, [Call(fail, (error,))] * 3)


class StorageError(Exception):
    """An error of a library that reaches buckets: no OSError, and not to be pickled."""

    __module__ = "gcsfs.retry"

    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")


def break_connection(shared):
    raise StorageError(403, "no permission")


def test_errors_of_storage_libraries_become_those_of_files():
    with pytest.raises(OSError, match=r"^403: no permission$"), Workers(2) as workers:
        run_all(workers, [Call(break_connection, ())])


def test_other_errors_tell_where_they_come_from():
    with (
        pytest.raises(RuntimeError, match="in fail"),
        Workers(2) as workers,
    ):
        run_all(workers, [Call(fail, (ZeroDivisionError("bug"),))])


def test_a_worker_that_dies_is_an_error_that_says_so():
    with (
        pytest.raises(OSError, match=r"A worker process died \(exit code -9\)"),
        Workers(2) as workers,
    ):
        workers.share(1)
        run_all(workers, [Call(multiply, (1,), 0), Call(die, ()), Call(die, ())])


def test_no_worker_is_refused():
    with pytest.raises(ValueError, match=r"at least 1\. Received 0"):
        Workers(0)


PATHS = [str(ROOT), str(ROOT / "tests"), str(Path(__file__).parent)]
PARENT = """
import sys, test_parallel
from data_prep.parallel import Workers, Call
if __name__ == "__main__":
    with Workers(2) as workers:
        workers.share(1)
        done = test_parallel.run_all(
            workers, [Call(test_parallel.multiply, (n,), n) for n in range(8)]
        )
        print(*{pid for _, pid in done.values()}, flush=True)
        sys.stdin.read()
"""


def test_workers_end_when_their_parent_is_killed(tmp_path):
    (tmp_path / "parent.py").write_text(PARENT)
    parent = subprocess.Popen(
        [sys.executable, str(tmp_path / "parent.py")],
        env={
            **os.environ,
            "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}:{Path(__file__).parent}",
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    workers = [int(pid) for pid in parent.stdout.readline().split()]
    assert workers
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 20
    while any(map(is_alive, workers)):
        assert time.monotonic() < deadline, "workers outlive their parent"
        time.sleep(0.05)
    parent.stdin.close()
    parent.stdout.close()


def is_alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
