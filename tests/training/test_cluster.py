"""Workers and TPUs are probed before they are joined; a missing one is named soon."""

import json
import os
import socket
import subprocess
import sys
import time
from concurrent import futures

import grpc
import pytest
import tensorflow as tf

from albert_tf.training import cluster, devices
from helpers.paths import ROOT

# Seconds, where the library waits for minutes.
SHORT = cluster.Limits(tpu=1, workers=1)


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)


def closed_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def test_a_worker_says_that_it_listens_on_all_interfaces(monkeypatch, capsys):
    # TensorFlow's server does so whatever its address is.
    server = tf.distribute.Server.create_local_server(start=False)
    port = int(server.target.rpartition(":")[2])
    server.start()
    with open("/proc/net/tcp") as table, open("/proc/net/tcp6") as table6:
        addresses = [line.split()[1] for line in (*table, *table6)]
    listening = [a for a in addresses if a.endswith(f":{port:04X}")]
    assert any(set(address.rpartition(":")[0]) == {"0"} for address in listening)

    def stop(*_):
        raise OSError("enough")

    monkeypatch.setattr(cluster, "wait_for_workers", stop)
    jobs = {"worker": ["10.0.0.1:2222", "10.0.0.2:2223"]}
    with pytest.raises(OSError, match="enough"):
        cluster.join_workers(jobs, "worker", 1)
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("This worker listens on port 2223 of all network interfaces")
    assert "a firewall or a private network" in line


def test_a_tpu_name_that_nobody_knows_is_named():
    with pytest.raises(
        ValueError, match=r"TPU 'no-such-tpu' is not found .* --tpu_zone"
    ):
        devices.create_strategy("no-such-tpu", "us-east1-d", "no-such-project")


def test_a_tpu_name_that_nobody_answers_for_is_given_up(monkeypatch):
    resolver = "TPUClusterResolver"
    monkeypatch.setattr(
        tf.distribute.cluster_resolver, resolver, lambda **_: time.sleep(9)
    )
    with pytest.raises(ValueError, match="no answer within 1 s"):
        devices.create_strategy("silent", limits=SHORT)


def test_a_machine_without_a_tpu_says_so():
    with pytest.raises(ValueError, match="this machine has no TPU"):
        devices.create_strategy("local")


@pytest.mark.parametrize("address", ["grpc://host", "grpc://host:many", "grpc://:1"])
def test_an_address_of_another_form_is_refused(address):
    with pytest.raises(ValueError, match="must be grpc://HOST:PORT"):
        devices.create_strategy(address)


def test_an_address_where_nothing_listens_is_given_up():
    address = f"grpc://127.0.0.1:{closed_port()}"
    with pytest.raises(ValueError, match=rf"No TPU answers at {address} \(tried to"):
        devices.create_strategy(address, limits=SHORT)


def test_an_address_that_does_not_speak_grpc_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"grpc://127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(ValueError, match=f"No TPU answers at {address}"):
            devices.create_strategy(address, limits=SHORT)


def test_waiting_for_a_tpu_takes_less_than_half_a_minute():
    assert 2 * cluster.LIMITS.tpu < 30


def test_an_address_that_speaks_grpc_passes():
    server = grpc.server(futures.ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    cluster.probe_tpu(f"grpc://127.0.0.1:{port}", SHORT.tpu)
    server.stop(None)


TASK = {"type": "worker", "index": 0}
BAD_CLUSTERS = {
    "worker 0 of two": "Expecting value",
    "[1]": "must be JSON such as",
    '{"cluster": {"worker": ["a:1"]}}': "lacks 'task'",
    json.dumps({"task": TASK}): "lacks 'cluster'",
    json.dumps({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker"}}): "'index'",
    json.dumps({"cluster": {"worker": ["a"]}, "task": TASK}): "'a' is not HOST:PORT",
    json.dumps({"cluster": {"worker": ["a:70000"]}, "task": TASK}): "'a:70000' is not",
    json.dumps({"cluster": {"chief": ["a:1"]}, "task": TASK}): "worker 0 is not in",
    json.dumps(
        {"cluster": {"worker": ["a:1"], "ps": ["b:1"]}, "task": TASK}
    ): r"jobs \['ps', 'worker'\]",
}


@pytest.mark.parametrize("text", BAD_CLUSTERS)
def test_a_cluster_that_cannot_be_is_refused(text, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ValueError, match=f"TF_CONFIG cannot .*{BAD_CLUSTERS[text]}"):
        devices.create_strategy()


def cluster_of(*ports):
    addresses = [f"127.0.0.1:{port}" for port in ports]
    return json.dumps({"cluster": {"worker": addresses}, "task": TASK})


def test_a_port_that_is_taken_is_named(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        monkeypatch.setenv("TF_CONFIG", cluster_of(port, closed_port()))
        with pytest.raises(OSError, match=rf"Port {port} .*\(worker 0, 127.0.0.1"):
            devices.create_strategy()


def test_a_worker_that_does_not_come_is_named(monkeypatch):
    own, other = closed_port(), closed_port()
    monkeypatch.setenv("TF_CONFIG", cluster_of(own, other))
    with pytest.raises(OSError, match=f"No worker came at 127.0.0.1:{other} "):
        devices.create_strategy(limits=SHORT)
    # The port is free again for the next start.
    socket.create_server(("", own)).close()


def test_a_worker_that_answers_once_and_dies_does_not_keep_the_others():
    """In a process of its own, since TensorFlow's wait cannot be left otherwise."""
    program = (
        "from albert_tf.training import cluster, devices\n"
        "devices.create_strategy(limits=cluster.Limits(join=3))\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as other:
        ports = [closed_port(), other.getsockname()[1]]
        workers = {"worker": [f"127.0.0.1:{port}" for port in ports]}
        task = {"type": "worker", "index": 0}
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "TF_CONFIG": json.dumps({"cluster": workers, "task": task}),
            },
            capture_output=True,
            text=True,
            timeout=100,
        )
    assert done.returncode == 1
    assert "3 s at most. If this is the last line" in done.stdout.splitlines()[-1]
    assert "Traceback" not in done.stderr and "Timeout" not in done.stderr


def test_workers_that_come_are_seen():
    with socket.create_server(("127.0.0.1", 0)) as other:
        jobs = {
            "chief": [f"127.0.0.1:{closed_port()}"],
            "worker": [f"127.0.0.1:{other.getsockname()[1]}"],
        }
        cluster.wait_for_workers(jobs, "chief", 0, SHORT.workers)
