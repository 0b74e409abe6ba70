"""The devices of a run, and the values that its workers exchange."""

import contextlib
import os
import re
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from official.common import distribute_utils

from albert_tf.training.cluster import (
    LIMITS,
    Limits,
    join_tpu,
    join_workers,
    read_cluster,
)

# A variable of the environment that TensorFlow reads.
_FROZEN_WEIGHTS = "TF_ONEDNN_ASSUME_FROZEN_WEIGHTS"
# TensorFlow's name of this process, where other hosts compute.
_LOCAL_JOB = "/job:localhost"
# TensorFlow's collective operations report a lost worker in these words.
_WORKER_LOST = re.compile(r"Collective ops is aborted by: (.*)")
_WORKER_NAME = re.compile(r"/job:(\w+)(?:/replica:\d+)?/task:(\d+)")


def create_strategy(
    tpu: str = "",
    tpu_zone: str = "",
    gcp_project: str = "",
    limits: Limits = LIMITS,
) -> tf.distribute.Strategy:
    """The strategy for the devices that are available.

    Args:
      tpu: a TPU's name, its `grpc://HOST:PORT`, or "local" on a TPU VM. Empty: the
        workers of `TF_CONFIG` if that is set, else all GPUs of this machine, else its
        CPU.
      tpu_zone: zone of a TPU given by name; empty: this machine's.
      gcp_project: project of a TPU given by name; empty: this machine's.
      limits: how long to wait for a TPU and for other workers.
    Raises:
      ValueError: the TPU is not found or does not answer; `TF_CONFIG` cannot be used;
        or TensorFlow was told that weights never change.
      OSError: this worker's port is taken, or another worker does not start in time.
    """
    _check_weights_may_change()
    if tpu:
        return join_tpu(tpu, tpu_zone, gcp_project, limits)
    cluster = read_cluster(os.environ.get("TF_CONFIG", ""))
    if cluster:
        return join_workers(*cluster, limits)
    gpus = len(tf.config.list_physical_devices("GPU"))
    kind = "mirrored" if gpus > 1 else "one_device"
    return distribute_utils.get_distribution_strategy(kind, num_gpus=gpus)


def _check_weights_may_change() -> None:
    """Raises ValueError if operations keep the weights that they saw first.

    They would evaluate later weights of a run by its first ones, without a message.
    """
    value = os.environ.get(_FROZEN_WEIGHTS, "")
    if value.lower() in ("1", "true"):
        raise ValueError(
            f"{_FROZEN_WEIGHTS}={value} is for servers: TensorFlow would go on to "
            "compute with the first weights that it sees. Unset it."
        )


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """True for the process that writes files: chief, worker 0, or the only one."""
    resolver = strategy.cluster_resolver
    if not _has_workers(strategy):
        return True
    return resolver.task_type in (None, "chief") or (
        resolver.task_type == "worker"
        and resolver.task_id == 0
        and "chief" not in resolver.cluster_spec().jobs
    )


def checkpoint_options(
    strategy: tf.distribute.Strategy,
) -> tf.train.CheckpointOptions | None:
    """Options that make this process write and read the files of checkpoints.

    Without options each variable is written by the host of its device. The hosts of a
    remote TPU have other disks than this machine, so there all values come here first.
    """
    if not is_remote_tpu(strategy):
        return None
    return tf.train.CheckpointOptions(experimental_io_device=_LOCAL_JOB)


def is_remote_tpu(strategy: tf.distribute.Strategy) -> bool:
    """True for a TPU whose hosts are other machines than this one."""
    if not isinstance(strategy, tf.distribute.TPUStrategy):
        return False
    devices = tf.config.list_logical_devices("TPU")
    return not all(_LOCAL_JOB in device.name for device in devices)


def shared_number(value: float) -> tf.Variable:
    """A variable that steps assign, with the same number on all replicas.

    Args:
      value: the first one; its type decides between int32 and float32.
    """
    return tf.Variable(
        value, trainable=False, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA
    )


def gather(strategy: tf.distribute.Strategy, number: int) -> list[int]:
    """The numbers that all workers pass, the chief's first; waits for all of them.

    Workers must take the same decisions, or one of them waits for ever in a step that
    the others do not take. So they decide by gathered numbers.

    Args:
      strategy: the strategy of the run.
      number: this worker's number, of 64 bits.
    Returns:
      The same list on every worker, with one item for each replica.
    """
    if not _has_workers(strategy):
        return [number]
    numbers = strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant([number], tf.int64)
    )
    return strategy.gather(numbers, axis=0).numpy().tolist()


def chiefs_seconds(strategy: tf.distribute.Strategy, seconds: float) -> float:
    """The chief's value of what each worker measures; waits for all of them.

    Args:
      strategy: the strategy of the run.
      seconds: this worker's value.
    """
    return gather(strategy, round(seconds * 1e6))[0] / 1e6


def all_rows(strategy: tf.distribute.Strategy, values: Any) -> tf.Tensor:
    """The values of all replicas of all workers, [B, ...] each, in one tensor.

    Args:
      strategy: the strategy of the run.
      values: a result of `strategy.run`.
    """
    if _has_workers(strategy):
        return strategy.gather(values, axis=0)
    return tf.concat(strategy.experimental_local_results(values), axis=0)


def require_equal(strategy: tf.distribute.Strategy, number: int, problem: str) -> None:
    """Checks that all workers pass the same number.

    Args:
      strategy: the strategy of the run.
      number: this worker's number, of 64 bits.
      problem: the end of the message's sentence "The workers of TF_CONFIG ...".
    Raises:
      ValueError: they do not; on every worker, with the problem and the numbers.
    """
    numbers = gather(strategy, number)
    if len(set(numbers)) > 1:
        raise ValueError(
            f"The workers of TF_CONFIG {problem} ({numbers}, the chief's first)."
        )


@contextlib.contextmanager
def explain_lost_worker(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Turns TensorFlow's report of a lost worker into one line.

    A worker that dies closes its connections, which ends the collective operations of
    the others at once. One that hangs is lost after ten seconds without heartbeat.

    Raises:
      ConnectionError: another worker is lost.
    """
    try:
        yield
    except tf.errors.OpError as error:
        lost = _WORKER_LOST.search(error.message)
        if not lost or not _has_workers(strategy):
            raise
        name = _WORKER_NAME.search(error.message[lost.start() :])
        raise ConnectionError(
            f"Lost {' '.join(name.groups()) if name else 'a worker'} of TF_CONFIG "
            f"({lost[1].rstrip(': ')}): see its log, then start all workers again "
            "with the same command; they resume."
        ) from error


def _has_workers(strategy: tf.distribute.Strategy) -> bool:
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
