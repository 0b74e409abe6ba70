"""Flags of a run's devices, and the strategy that they describe."""

import ctypes
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from absl import flags, logging

if TYPE_CHECKING:
    import tensorflow as tf

FLAGS = flags.FLAGS

# Abseil's number of this severity.
_FATAL = 3


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

    if logging.get_verbosity() <= logging.WARNING:
        _hide_native_notes()
    return devices.create_strategy(FLAGS.tpu, FLAGS.tpu_zone, FLAGS.gcp_project)


def _hide_native_notes() -> None:
    """Hides what TensorFlow's C++ code reports of its own work.

    Of these lines TF_CPP_MIN_LOG_LEVEL hides a part only, and TensorFlow has no other
    setting. Errors are exceptions.
    """
    import tensorflow as tf

    library = os.path.join(os.path.dirname(tf.__file__), "libtensorflow_cc.so.2")
    try:
        # absl::SetMinLogLevel of the Abseil that TensorFlow 2.20 has in it.
        set_level = ctypes.CDLL(library)[
            "_ZN4absl12lts_2025012714SetMinLogLevelENS0_18LogSeverityAtLeastE"
        ]
    except (AttributeError, OSError):
        return  # another build of TensorFlow: its notes are shown
    set_level(_FATAL)


def _check_precision(values: Mapping[str, Any]) -> bool:
    if values["tpu"]:
        # It loads TensorFlow, which other runs need only later.
        from albert_tf.model.precision import check_tpu_precision

        check_tpu_precision(values["precision"])
    return True
