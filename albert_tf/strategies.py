"""Which devices a run uses, chosen from what is there."""

import os
import re
import socket
import threading

import tensorflow as tf
from official.common import distribute_utils

_PATIENCE_SECONDS = 20


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
      ValueError: the TPU does not answer, or TF_CONFIG cannot be used.
    """
    if tpu:
        _probe_tpu(tpu, tpu_zone, gcp_project)
        return distribute_utils.get_distribution_strategy("tpu", tpu_address=tpu)
    if os.environ.get("TF_CONFIG"):
        return distribute_utils.get_distribution_strategy("multi_worker_mirrored")
    gpus = len(tf.config.list_physical_devices("GPU"))
    kind = "mirrored" if gpus > 1 else "one_device"
    return distribute_utils.get_distribution_strategy(kind, num_gpus=gpus)


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process writes what there is once: worker 0, or the only one."""
    resolver = strategy.cluster_resolver
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return True
    return resolver.task_type in (None, "chief") or (
        resolver.task_type == "worker"
        and resolver.task_id == 0
        and "chief" not in resolver.cluster_spec().jobs
    )


def _probe_tpu(tpu: str, zone: str, project: str) -> None:
    """Fails within half a minute where TensorFlow would wait without limit."""
    if tpu == "local":
        if not tf.config.list_logical_devices("TPU") and not _has_local_chips():
            raise ValueError(
                "--tpu=local, but this machine has no TPU: run on a TPU VM with "
                "tensorflow-tpu installed, or give the TPU's name."
            )
        return
    address = tpu if tpu.startswith("grpc://") else _resolve(tpu, zone, project)
    match = re.fullmatch(r"(?:grpc://)?([^:/]+):(\d+)", address)
    if not match:
        raise ValueError(f"TPU address {address!r} must be grpc://HOST:PORT.")
    try:
        socket.create_connection((match[1], int(match[2])), _PATIENCE_SECONDS).close()
    except OSError as error:
        raise ValueError(
            f"No TPU answers at {address} ({error}; tried one connection for "
            f"{_PATIENCE_SECONDS} s): check that it runs and is reached from here."
        ) from error


def _has_local_chips() -> bool:
    return any(os.path.exists(f"/dev/{name}") for name in ("accel0", "vfio/0"))


def _resolve(tpu: str, zone: str, project: str) -> str:
    """The address of a TPU that is given by name."""
    answer: list = []

    def ask():
        try:
            resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
                tpu=tpu, zone=zone or None, project=project or None
            )
            answer.append(resolver.master())
        except Exception as error:  # whatever the cloud's client raises
            answer.append(error)

    # A daemon: the client's own retries outlast our patience.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(_PATIENCE_SECONDS)
    found = answer[0] if answer else f"no answer within {_PATIENCE_SECONDS} s"
    if not answer or isinstance(found, Exception):
        raise ValueError(
            f"TPU {tpu!r} is not found (asked the cloud's metadata and TPU service: "
            f"{found}): check the name, --tpu_zone and --gcp_project."
        )
    return found
