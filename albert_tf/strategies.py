"""Which devices a run uses, chosen from what is there, and how its workers agree.

TensorFlow waits without limit, or for an hour, where a TPU or a worker does not answer.
So whatever shall be joined is asked first, with limits of our own.
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
# How TensorFlow's collective operations report that another worker is gone.
_WORKER_LOST = re.compile(r"Collective ops is aborted by: (.*)")
_WORKER_NAME = re.compile(r"/job:(\w+)(?:/replica:\d+)?/task:(\d+)")


def create_strategy(
    tpu: str = "", tpu_zone: str = "", gcp_project: str = ""
) -> tf.distribute.Strategy:
    """The strategy for the devices that are there.

    Args:
      tpu: a TPU's name, its `grpc://HOST:PORT`, or "local" on a TPU VM. Empty: the
        workers of `TF_CONFIG` if that is set, else all GPUs of this machine, else its
        CPU.
      tpu_zone: zone of a TPU given by name; empty: this machine's.
      gcp_project: project of a TPU given by name; empty: this machine's.
    Raises:
      ValueError: the TPU is not found or does not answer, which takes less than half a
        minute; or `TF_CONFIG` cannot be used.
      OSError: this worker's port is taken, or another worker does not come within ten
        minutes.
    """
    if tpu:
        return _join_tpu(tpu, tpu_zone, gcp_project)
    cluster = _read_cluster(os.environ.get("TF_CONFIG", ""))
    if cluster:
        return _join_workers(*cluster)
    gpus = len(tf.config.list_physical_devices("GPU"))
    kind = "mirrored" if gpus > 1 else "one_device"
    return distribute_utils.get_distribution_strategy(kind, num_gpus=gpus)


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process writes what there is once: worker 0, or the only one."""
    resolver = strategy.cluster_resolver
    if not _has_workers(strategy):
        return True
    return resolver.task_type in (None, "chief") or (
        resolver.task_type == "worker"
        and resolver.task_id == 0
        and "chief" not in resolver.cluster_spec().jobs
    )


def gather(strategy: tf.distribute.Strategy, number: int) -> list[int]:
    """The numbers that all workers pass, the chief's first; waits for all of them.

    Workers must take the same decisions, or one of them waits for ever in a step that
    the others do not take: what they decide by goes through here.

    Args:
      strategy: the run's.
      number: this worker's, of 64 bits.
    Returns:
      The same list on every worker, with one item for each replica.
    """
    if not _has_workers(strategy):
        return [number]
    numbers = strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant([number], tf.int64)
    )
    return strategy.gather(numbers, axis=0).numpy().tolist()


def all_rows(strategy: tf.distribute.Strategy, values) -> tf.Tensor:
    """What all replicas of all workers hold, [B, ...] each, in one tensor.

    Args:
      strategy: the run's.
      values: what `strategy.run` gave.
    """
    if _has_workers(strategy):
        return strategy.gather(values, axis=0)
    return tf.concat(strategy.experimental_local_results(values), axis=0)


def require_equal(strategy: tf.distribute.Strategy, number: int, problem: str) -> None:
    """Refuses workers that do not all pass the same number.

    Raises:
      ValueError: on every worker, with the problem and the numbers.
    """
    numbers = gather(strategy, number)
    if len(set(numbers)) > 1:
        raise ValueError(
            f"The workers of TF_CONFIG {problem} ({numbers}, the chief's first)."
        )


@contextlib.contextmanager
def explain_lost_worker(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Turns TensorFlow's report of a worker that is gone into one line.

    A worker that dies closes its connections, which ends the collective operations of
    the others at once; one that hangs misses its heartbeats, for ten seconds.

    Raises:
      ConnectionError: another worker is gone.
    """
    try:
        yield
    except tf.errors.OpError as error:
        found = _WORKER_LOST.search(error.message)
        if not found or not _has_workers(strategy):
            raise
        name = _WORKER_NAME.search(error.message[found.start() :])
        raise ConnectionError(
            f"Lost {' '.join(name.groups()) if name else 'a worker'} of TF_CONFIG "
            f"({found[1].rstrip(': ')}): see its log, then start all workers again "
            "with the same command; they resume."
        ) from error


def _has_workers(strategy) -> bool:
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)


def _read_cluster(text: str) -> tuple[dict[str, list[str]], str, int] | None:
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


def _join_workers(cluster: Mapping[str, list[str]], job: str, index: int):
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


def _join_tpu(tpu: str, zone: str, project: str) -> tf.distribute.TPUStrategy:
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
