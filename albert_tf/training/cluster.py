"""Joining the workers of a cluster, or a TPU, within limited time.

If a TPU or a worker does not answer, TensorFlow waits without limit, or for an hour,
and cannot be interrupted. So each of them is probed before TensorFlow joins it.
"""

import contextlib
import faulthandler
import json
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import grpc
import tensorflow as tf
from official.common import distribute_utils

_SECONDS_BETWEEN_PROBES = 0.5


class Limits(NamedTuple):
    """Limits of waiting, in seconds.

    Attributes:
      tpu: for the address of a TPU given by name, and again for its answer.
      workers: for all workers of a cluster to start; people may start them minutes
        apart.
      join: for TensorFlow to join workers that have all started. It takes a second, or
        longer if GPUs must be initialized.
    """

    tpu: float = 12
    workers: float = 600
    join: float = 120


LIMITS = Limits()


def read_cluster(text: str) -> tuple[dict[str, list[str]], str, int] | None:
    """Parses `TF_CONFIG`, in the format of tf.distribute.

    Args:
      text: {"cluster": {"worker": ["HOST:PORT", ...]}, "task": {"type": "worker",
        "index": 0}}, with an optional job "chief".
    Returns:
      (job -> addresses, this worker's job, its index); None: not a cluster.
    Raises:
      ValueError: the text is of another form.
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


def join_workers(
    cluster: Mapping[str, list[str]], job: str, index: int, limits: Limits = LIMITS
) -> tf.distribute.MultiWorkerMirroredStrategy:
    """Waits for all workers of a cluster, then creates its strategy.

    If TensorFlow does not join them in time, the process prints why and exits with 1.

    Args:
      cluster: job -> addresses.
      job: this worker's job.
      index: its index in the job.
      limits: how long to wait.
    Raises:
      OSError: this worker's port is taken, or another worker does not start in time.
    """
    # TensorFlow's server binds 0.0.0.0, whatever the address in the cluster is.
    port = _host_and_port(cluster[job][index])[1]
    print(
        f"This worker listens on port {port} of all network interfaces, without "
        "authentication or encryption: let only the workers of TF_CONFIG reach it, by "
        "a firewall or a private network.",
        flush=True,
    )
    wait_for_workers(cluster, job, index, limits.workers)
    with _exit_after(limits.join):
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
    if threading.current_thread() is threading.main_thread():
        # TensorFlow has replaced the handler of SIGTERM by one that does nothing.
        signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))
    return strategy


@contextlib.contextmanager
def _exit_after(seconds: float) -> Iterator[None]:
    """Ends the process with exit code 1 if the body takes longer.

    While TensorFlow joins workers it holds the interpreter, ignores SIGTERM, and waits
    for an hour for a worker that died meanwhile. Only a C-level timer can still fire,
    and it cannot print, so we print the hint first.
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


def wait_for_workers(
    cluster: Mapping[str, list[str]], job: str, index: int, seconds: float
) -> None:
    """Returns once every worker of the cluster has opened its port.

    This worker's own port is open meanwhile, for the others to see. It is closed when
    all of them were seen, and TensorFlow opens it again at once.

    Args:
      cluster: job -> addresses.
      job: this worker's job.
      index: its index in the job.
      seconds: how long to wait.
    Raises:
      OSError: this worker's port is taken, or another worker does not start in time.
    """
    others = {address for name in cluster for address in cluster[name]}
    own = cluster[job][index]
    others.discard(own)
    port = _host_and_port(own)[1]
    deadline = time.monotonic() + seconds
    try:
        # Connections are never accepted: for the others it is enough that they wait in
        # the queue.
        server = socket.create_server(
            ("", port),
            family=socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET,
            backlog=4 * len(others) + 4,
            dualstack_ipv6=socket.has_dualstack_ipv6(),
        )
    except OSError as error:
        raise OSError(
            f"Port {port} of this worker in TF_CONFIG ({job} {index}, {own}) cannot be "
            f"opened ({error.strerror}): stop the process that uses it, or give "
            "another port."
        ) from error
    with server:
        missing = {address for address in others if not _answers(address)}
        if missing:
            print(
                f"Waiting for {_listed(missing)} of TF_CONFIG, {seconds} s at most.",
                flush=True,
            )
        while missing:
            if time.monotonic() > deadline:
                raise ConnectionError(
                    f"No worker came at {_listed(missing)} of TF_CONFIG within "
                    f"{seconds} s: start it, check that its port is "
                    "reached from here, and start the others again."
                )
            time.sleep(_SECONDS_BETWEEN_PROBES)
            missing = {address for address in missing if not _answers(address)}


def _answers(address: str) -> bool:
    try:
        socket.create_connection(_host_and_port(address), timeout=2).close()
    except OSError:
        return False
    return True


def _listed(addresses: Iterable[str]) -> str:
    return ", ".join(sorted(addresses))


def _host_and_port(address: str) -> tuple[str, int]:
    """Splits HOST:PORT; an IPv6 host stands in brackets."""
    match = re.fullmatch(r"\[?(.+?)\]?:(\d{1,5})", address)
    if not match or not 0 < int(match[2]) < 65536:
        raise ValueError(f"address {address!r} is not HOST:PORT")
    return match[1], int(match[2])


def join_tpu(
    tpu: str, zone: str, project: str, limits: Limits = LIMITS
) -> tf.distribute.TPUStrategy:
    """Probes a TPU, then creates its strategy.

    Args:
      tpu: its name, its `grpc://HOST:PORT`, or "local" on a TPU VM.
      zone: zone of a TPU given by name; empty: this machine's.
      project: project of a TPU given by name; empty: this machine's.
      limits: how long to wait.
    Raises:
      ValueError: the TPU is not found, or does not answer in time.
    """
    if tpu == "local":
        if not tf.config.list_logical_devices("TPU") and not _has_local_chips():
            raise ValueError(
                "--tpu=local, but this machine has no TPU: run on a TPU VM with "
                "tensorflow-tpu installed, or give the TPU's name."
            )
    else:
        if not tpu.startswith("grpc://"):
            tpu = _resolve(tpu, zone, project, limits.tpu)
        for address in tpu.split(","):
            probe_tpu(address, limits.tpu)
    return distribute_utils.get_distribution_strategy("tpu", tpu_address=tpu)


def _has_local_chips() -> bool:
    return any(os.path.exists(f"/dev/{name}") for name in ("accel0", "vfio/0"))


def _resolve(tpu: str, zone: str, project: str, seconds: float) -> str:
    """The addresses of a TPU given by name: `grpc://HOST:PORT`, several with commas."""
    answer: list[str | Exception] = []

    def resolve() -> None:
        try:
            resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
                tpu=tpu, zone=zone or None, project=project or None
            )
            hosts = resolver.cluster_spec().job_tasks("worker")
            answer.append(",".join(f"grpc://{host}" for host in hosts))
        except Exception as error:  # whatever the cloud's client raises
            answer.append(error)

    # A daemon thread, since the client's own retries take longer than our limit.
    thread = threading.Thread(target=resolve, daemon=True)
    thread.start()
    thread.join(seconds)
    addresses = answer[0] if answer else TimeoutError(f"no answer within {seconds} s")
    if isinstance(addresses, Exception):
        raise ValueError(
            f"TPU {tpu!r} is not found (asked the cloud's metadata and TPU service: "
            f"{addresses}): check the name, --tpu_zone and --gcp_project."
        )
    return addresses


def probe_tpu(address: str, seconds: float) -> None:
    """Checks that a gRPC server answers.

    Args:
      address: `grpc://HOST:PORT`.
      seconds: how long to wait.
    Raises:
      ValueError: no server answers in time, or the address is of another form.
    """
    target = address.removeprefix("grpc://")
    if not re.fullmatch(r"[^/:]+:\d{1,5}", target):
        raise ValueError(f"TPU address {address!r} must be grpc://HOST:PORT.")
    with grpc.insecure_channel(target) as channel:
        # A channel is ready once the server has sent the first frame of the protocol;
        # an open port is not enough.
        ready = grpc.channel_ready_future(channel)
        try:
            ready.result(seconds)
        except grpc.FutureTimeoutError as error:
            ready.cancel()
            raise ValueError(
                f"No TPU answers at {address} (tried to open a gRPC channel for "
                f"{seconds} s): check that it runs, that it is reached "
                "from here, and the port (8470, as a rule)."
            ) from error
