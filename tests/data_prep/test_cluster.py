"""A Dask cluster carries calls out, again if a worker is lost; errors are one line."""

import asyncio
import contextlib
import dataclasses
import importlib.metadata
import os
import signal
import socket
import sys
from pathlib import Path

import dask
import distributed
import numpy as np
import pytest

from data_prep import cluster
from data_prep.cluster import ClusterWorkers, start_workers
from data_prep.parallel import Call, Workers
from data_prep.pretraining import shards
from data_prep.pretraining.job import make_pretraining_data
from helpers.calls import die, run_all
from helpers.letters import CONFIG, make_documents
from helpers.pretraining_jobs import digests, make_job

pytestmark = pytest.mark.slow


def multiply(shared, value):
    return shared * value, os.getpid()


def fail(shared, error):
    raise error


def die_once(shared, marker):
    """Kills the worker that is the first to carry it out."""
    if not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return shared


def start_cluster(workers):
    return distributed.LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        silence_logs="CRITICAL",
    )


@pytest.fixture(scope="module")
def address():
    """A scheduler with two worker processes, which are started again when they die."""
    # A call that kills two workers is given up.
    failures = {"distributed.scheduler.allowed-failures": 1}
    with dask.config.set(failures), start_cluster(2) as local:
        yield local.scheduler_address


@contextlib.contextmanager
def on_workers(address, function, undo):
    """Calls a function in all workers, and another one in the end."""
    with distributed.Client(address, set_as_default=False) as client:
        client.run(function)
        try:
            yield
        finally:
            client.run(undo)


def test_every_call_is_done_once_with_what_is_shared(address):
    with ClusterWorkers(address) as workers:
        workers.share(3)
        results = run_all(workers, [Call(multiply, (n,), n) for n in range(20)])
        assert {n: value for n, (value, _) in results.items()} == {
            n: 3 * n for n in range(20)
        }
        processes = {pid for _, pid in results.values()}
        assert os.getpid() not in processes and len(processes) == 2
        workers.share(5)
        assert run_all(workers, [Call(multiply, (4,), 0)])[0][0] == 20
        assert workers.peak_memory > 3 * 10_000_000


def test_a_call_may_wait_for_another(address):
    results, ready = [], [Call(multiply, (1,))]

    def done(call, result):
        results.append(result[0])
        if len(results) < 6:
            ready.append(Call(multiply, (result[0],)))

    with ClusterWorkers(address) as workers:
        workers.share(2)
        workers.run(lambda: ready.pop() if ready else None, done)
    assert results == [2, 4, 8, 16, 32, 64]


def test_errors_of_calls_are_raised(address):
    with ClusterWorkers(address) as workers:
        workers.share(None)
        for error in (ValueError("bad text"), OSError("no disk")):
            with pytest.raises(type(error), match=str(error)):
                run_all(workers, [Call(fail, (error,))])
        with pytest.raises(RuntimeError, match="in fail"):
            run_all(workers, [Call(fail, (ZeroDivisionError("bug"),))])


def test_the_call_of_a_lost_worker_is_carried_out_by_another(address, tmp_path):
    with ClusterWorkers(address) as workers:
        workers.share(7)
        calls = [Call(multiply, (n,), n) for n in range(1, 9)]
        calls.insert(3, Call(die_once, (tmp_path / "killed",), 0))
        results = run_all(workers, calls)
    assert (tmp_path / "killed").exists() and results[0] == 7
    assert [results[n][0] for n in range(1, 9)] == [7 * n for n in range(1, 9)]


def test_a_call_that_kills_every_worker_is_one_error(address):
    with (
        pytest.raises(OSError, match=r"could not carry out die \(KilledWorker.*logs"),
        ClusterWorkers(address) as workers,
    ):
        workers.share(1)
        run_all(workers, [Call(die, ())])


def test_a_scheduler_that_is_lost_is_one_error():
    """Dask cancels the calls, or its connections break."""
    for lost in (
        distributed.client.FuturesCancelledError([]),
        distributed.client.FutureCancelledError("key", "scheduler-connection-lost"),
        distributed.comm.CommClosedError("in connection"),
        asyncio.CancelledError(),
    ):
        message = r"could not carry out x \(the connection to its scheduler is lost\)"
        with pytest.raises(OSError, match=message), cluster._told("carry out x"):
            raise lost
    with pytest.raises(TimeoutError), cluster._told("carry out x"):
        raise TimeoutError


@pytest.fixture(scope="module")
def documents():
    return make_documents(1500, np.random.default_rng(2))


def test_a_cluster_makes_the_bytes_of_one_process_though_a_worker_is_killed(
    address, documents, tmp_path, monkeypatch
):
    alone = make_job(documents, CONFIG, tmp_path / "alone", files=3)
    make_pretraining_data(alone)
    job = make_job(documents, CONFIG, tmp_path / "cluster", files=3)
    with distributed.Client(address, set_as_default=False) as client:
        client.wait_for_workers(1)
        killed = min(client.run(os.getpid).values())
        is_stage_done, calls = shards._Shard.is_stage_done, []

        def kill_at_first(shard, index, result):
            calls.append(index)
            if len(calls) == 1:
                os.kill(killed, signal.SIGKILL)
            return is_stage_done(shard, index, result)

        monkeypatch.setattr(shards._Shard, "is_stage_done", kill_at_first)
        report = make_pretraining_data(dataclasses.replace(job, scheduler=address))
        client.wait_for_workers(1)
        assert killed not in client.run(os.getpid).values()
    assert len(calls) > 9 and report["shards"] == 3
    assert digests(job.outputs.paths) == digests(alone.outputs.paths)
    left = {path.name for path in (tmp_path / "cluster" / "out").iterdir()}
    assert not [name for name in left if name.startswith(".")]


def test_an_error_in_the_text_is_that_of_one_process(address, tmp_path):
    job = make_job([["a b"]], CONFIG, tmp_path)
    Path(job.input_paths[0]).write_bytes(b"good\nbad \xff\n")
    with pytest.raises(ValueError, match=r"text\.txt, line 2: not UTF-8"):
        make_pretraining_data(dataclasses.replace(job, scheduler=address))


def test_files_that_workers_do_not_see_are_named(address, tmp_path):
    (tmp_path / "seen").touch()
    with ClusterWorkers(address) as workers:
        workers.check_paths([str(tmp_path / "seen")])
        with pytest.raises(
            OSError, match=r"worker tcp:.* does not see .*/unseen: give"
        ):
            workers.check_paths([str(tmp_path / "seen"), str(tmp_path / "unseen")])


def test_workers_with_other_libraries_are_named(address, monkeypatch):
    found = importlib.metadata.version("sentencex")
    monkeypatch.setattr(cluster, "_LIBRARIES", ("sentencex",))
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.7")
    message = rf"has sentencex {found}, this machine 0\.7: install the same"
    with pytest.raises(OSError, match=message):
        ClusterWorkers(address)


def test_workers_without_this_package_are_named(address):
    def hide():
        sys.modules["data_prep.cluster"] = None

    def show():
        del sys.modules["data_prep.cluster"]

    with (
        on_workers(address, hide, show),
        pytest.raises(OSError, match=r"ModuleNotFoundError.*install albert-tf there"),
    ):
        ClusterWorkers(address)


def test_a_scheduler_that_does_not_answer_or_has_no_workers_is_one_line(monkeypatch):
    monkeypatch.setattr(cluster, "_SECONDS_TO_CONNECT", 0.2)
    for wrong in ("nonsense://a:1", "tcp://", "tcp://a", "http://a:8787", "a:8786"):
        with pytest.raises(ValueError, match=f"must be tcp://HOST:.*'{wrong}'"):
            ClusterWorkers(wrong)
    # A server that never answers in Dask's protocol, and none.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for port in (silent.getsockname()[1], 9):
            missing = f"tcp://127.0.0.1:{port}"
            words = f"No Dask scheduler answers at '{missing}'"
            with pytest.raises(OSError, match=words):
                ClusterWorkers(missing)
    with (
        start_cluster(0) as empty,
        pytest.raises(OSError, match="has no workers: start some with `dask worker`"),
    ):
        ClusterWorkers(empty.scheduler_address)


def test_without_dask_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ValueError, match=r"pip install 'albert-tf\[dask\]'"):
        start_workers(1, "tcp://127.0.0.1:9")
    with start_workers(1) as workers:
        assert isinstance(workers, Workers)
