"""Flags of a run's devices, and the strategy that they describe."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from absl import flags

if TYPE_CHECKING:
    import tensorflow as tf

FLAGS = flags.FLAGS


def define_tpu_flags() -> None:
    """Defines `--tpu` and where to find it."""
    flags.DEFINE_string(
        "tpu", "", "TPU to train on: its name, grpc://HOST:8470, or local on a TPU VM."
    )
    flags.DEFINE_alias("tpu_name", "tpu")
    flags.DEFINE_string("tpu_zone", "", "Zone of a TPU that is given by name.")
    flags.DEFINE_string("gcp_project", "", "Project of a TPU that is given by name.")


def refuse_precisions_of_gpus() -> None:
    """Makes the command line refuse a `--precision` that `--tpu` does not have."""
    flags.register_multi_flags_validator(["tpu", "precision"], _check_precision)


def create_strategy() -> "tf.distribute.Strategy":
    """Returns the strategy for the devices of the flags."""
    from albert_tf.training import devices

    return devices.create_strategy(FLAGS.tpu, FLAGS.tpu_zone, FLAGS.gcp_project)


def _check_precision(values: Mapping[str, Any]) -> bool:
    if values["tpu"]:
        # It loads TensorFlow, which other runs need only later.
        from albert_tf.model.precision import check_tpu_precision

        check_tpu_precision(values["precision"])
    return True
