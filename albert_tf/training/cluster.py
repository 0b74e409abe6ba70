"""Connects to workers and TPUs within bounded time."""

import contextlib
import faulthandler
import json
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator, Mapping

import grpc
import tensorflow as tf
from official.common import distribute_utils

# For a TPU's name and for its address: both together stay below half a minute.
_TPU_PATIENCE_SECONDS = 12
# Workers of one cluster may be started minutes apart.
_WORKER_PATIENCE_SECONDS = 600
_SECONDS_BETWEEN_CALLS = 0.5
# Between the moment when all of them are seen and that when TensorFlow has joined them,
# which takes a second, and longer where it must wake GPUs.
_JOIN_PATIENCE_SECONDS = 120


def read_cluster(text: str) -> tuple[dict[str, list[str]], str, int] | None:
    """Job -> addresses, and this worker's job and index; None: not a cluster.

    `TF_CONFIG` is what tf.distribute's users know: {"cluster": {"worker": ["HOST:PORT",
    ...]}, "task": {"type": "worker", "index": 0}}, with a job "chief" at will.
    """
    example = (
        '{"cluster": {"worker": ["HOST:PORT", "HOST:PORT"]}, '
        '"task": {"type": "worker", "index": 0}}'
    )
    try:
        config = json.loads(text or "{}")
        if config == {}:
            return None
        cluster, task = config["cluster"], config["task"]
        job, index = task["type"], int(task["index"])
        for addresses in cluster.values():
            for address in addresses:
                _host_and_port(address)
        if not set(cluster) <= {"chief", "worker"}:
            raise ValueError(f"jobs {sorted(cluster)}, only chief and worker train")
        if job not in cluster or not 0 <= index < len(cluster[job]):
            raise ValueError(f"task {job} {index} is not in its cluster")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"lacks {error}" if isinstance(error, KeyError) else error
        raise ValueError(
            f"TF_CONFIG cannot be used ({reason}): it must be JSON such as {example}. "
            f"Received {text[:200]!r}."
        ) from error
    return cluster, job, index


def join_workers(cluster: Mapping[str, list[str]], job: str, index: int):
    """The strategy of a cluster whose workers are all there."""
    _wait_for_workers(cluster, job, index)
    with _at_most(_JOIN_PATIENCE_SECONDS):
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
    if threading.current_thread() is threading.main_thread():
        # TensorFlow has taken SIGTERM and does nothing on it: Python's again.
        signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))
    return strategy


@contextlib.contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Ends the process, exit code 1, if the body lasts longer.

    While TensorFlow joins workers it holds the interpreter, takes SIGTERM, and waits
    for an hour for one that died meanwhile. What remains is a timer that needs no
    Python; it can say nothing, so that is said before.
    """
    print(
        f"Joining the workers of TF_CONFIG, {seconds} s at most. If this is the last "
        "line, one of them died just then: see its log, start all of them again.",
        flush=True,
    )
    with open(os.devnull, "w") as nowhere:
        faulthandler.dump_traceback_later(seconds, exit=True, file=nowhere)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()


def _wait_for_workers(cluster, job, index) -> None:
    """Returns once every worker of the cluster has opened its port.

    While TensorFlow waits for workers, nothing can stop it. Our own port is open
    meanwhile, for the others to see, and is given up when we have seen all of them:
    then TensorFlow opens it again at once.
    """
    others = {address for name in cluster for address in cluster[name]}
    own = cluster[job][index]
    others.discard(own)
    port = _host_and_port(own)[1]
    deadline = time.monotonic() + _WORKER_PATIENCE_SECONDS
    try:
        # Nobody accepts: that a connection waits in the queue is all they need.
        server = socket.create_server(
            ("", port),
            family=socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET,
            backlog=4 * len(others) + 4,
            dualstack_ipv6=socket.has_dualstack_ipv6(),
        )
    except OSError as error:
        raise OSError(
            f"Port {port} of this worker in TF_CONFIG ({job} {index}, {own}) cannot be "
            f"opened ({os.strerror(error.errno)}): stop what uses it, or give another."
        ) from error
    with server:
        missing = {address for address in others if not _answers(address)}
        if missing:
            print(
                f"Waiting for {_listed(missing)} of TF_CONFIG, "
                f"{_WORKER_PATIENCE_SECONDS} s at most.",
                flush=True,
            )
        while missing:
            if time.monotonic() > deadline:
                raise ConnectionError(
                    f"No worker came at {_listed(missing)} of TF_CONFIG within "
                    f"{_WORKER_PATIENCE_SECONDS} s: start it, check that its port is "
                    "reached from here, and start the others again."
                )
            time.sleep(_SECONDS_BETWEEN_CALLS)
            missing = {address for address in missing if not _answers(address)}


def _answers(address: str) -> bool:
    try:
        socket.create_connection(_host_and_port(address), timeout=2).close()
    except OSError:
        return False
    return True


def _listed(addresses) -> str:
    return ", ".join(sorted(addresses))


def _host_and_port(address: str) -> tuple[str, int]:
    """Parts of HOST:PORT, an IPv6 host in brackets."""
    match = re.fullmatch(r"\[?(.+?)\]?:(\d{1,5})", address)
    if not match or not 0 < int(match[2]) < 65536:
        raise ValueError(f"address {address!r} is not HOST:PORT")
    return match[1], int(match[2])


def join_tpu(tpu: str, zone: str, project: str) -> tf.distribute.TPUStrategy:
    """The strategy of a TPU that answers."""
    if tpu == "local":
        if not tf.config.list_logical_devices("TPU") and not _has_local_chips():
            raise ValueError(
                "--tpu=local, but this machine has no TPU: run on a TPU VM with "
                "tensorflow-tpu installed, or give the TPU's name."
            )
    else:
        if not tpu.startswith("grpc://"):
            tpu = _resolve(tpu, zone, project)
        for address in tpu.split(","):
            _probe(address)
    return distribute_utils.get_distribution_strategy("tpu", tpu_address=tpu)


def _has_local_chips() -> bool:
    return any(os.path.exists(f"/dev/{name}") for name in ("accel0", "vfio/0"))


def _resolve(tpu: str, zone: str, project: str) -> str:
    """The addresses of a TPU given by name: `grpc://HOST:PORT`, several with commas."""
    answer: list = []

    def ask():
        try:
            resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
                tpu=tpu, zone=zone or None, project=project or None
            )
            hosts = resolver.cluster_spec().job_tasks("worker")
            answer.append(",".join(f"grpc://{host}" for host in hosts))
        except Exception as error:  # whatever the cloud's client raises
            answer.append(error)

    # A daemon: the client's own retries outlast our patience.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(_TPU_PATIENCE_SECONDS)
    found = answer[0] if answer else f"no answer within {_TPU_PATIENCE_SECONDS} s"
    if not answer or isinstance(found, Exception):
        raise ValueError(
            f"TPU {tpu!r} is not found (asked the cloud's metadata and TPU service: "
            f"{found}): check the name, --tpu_zone and --gcp_project."
        )
    return found


def _probe(address: str) -> None:
    """Fails where no gRPC server answers; TensorFlow would wait without limit."""
    target = address.removeprefix("grpc://")
    if not re.fullmatch(r"[^/:]+:\d{1,5}", target):
        raise ValueError(f"TPU address {address!r} must be grpc://HOST:PORT.")
    with grpc.insecure_channel(target) as channel:
        # Ready is what has sent the first frame of the protocol, not any open port.
        ready = grpc.channel_ready_future(channel)
        try:
            ready.result(_TPU_PATIENCE_SECONDS)
        except grpc.FutureTimeoutError as error:
            ready.cancel()
            raise ValueError(
                f"No TPU answers at {address} (tried to open a gRPC channel for "
                f"{_TPU_PATIENCE_SECONDS} s): check that it runs, that it is reached "
                "from here, and the port (8470, as a rule)."
            ) from error
