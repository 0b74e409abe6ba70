"""Which devices a run uses, chosen from what is there, and how its workers agree.

TensorFlow waits without limit, or for an hour, where a TPU or a worker does not answer.
So whatever shall be joined is asked first, with limits of our own.
"""

import contextlib
import os
import re
from collections.abc import Iterator

import tensorflow as tf
from official.common import distribute_utils

from albert_tf.training.cluster import join_tpu, join_workers, read_cluster

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
        return join_tpu(tpu, tpu_zone, gcp_project)
    cluster = read_cluster(os.environ.get("TF_CONFIG", ""))
    if cluster:
        return join_workers(*cluster)
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
