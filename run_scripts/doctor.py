r"""Says what this machine has, and what files and folders are.

    python run_scripts/doctor.py
    python run_scripts/doctor.py albert_base data/train.tfrecord mail.csv

Without paths: versions, processor, memory, devices, and what does not fit together.
With paths: what each is, which commands take it, and what is wrong with it. Exit code 1
if anything is wrong.
"""

import os
import platform
import sys
from collections.abc import Iterable

from absl import flags

from albert_tf.storage import as_path
from dev import machine, recognition
from flags import common_flags, device_flags

FLAGS = flags.FLAGS


def main(paths: list[str]) -> None:
    problems = []
    for path in map(as_path, paths):
        found = recognition.recognize(str(path))
        print(f"{path}:")
        _print_list("", found.facts)
        _print_list("commands:", found.uses)
        _print_list("wrong:", found.problems)
        problems += found.problems
    if not paths:
        problems = _examine_machine()
        _print_list("wrong:", problems)
        if not problems:
            print("Nothing is wrong.")
    if problems:
        sys.exit(1)


def _examine_machine() -> list[str]:
    """Prints what the machine has; returns what is wrong with it."""
    versions, problems = machine.packages()
    print(f"Python {platform.python_version()}, {platform.platform()}")
    listed = sorted({*machine.FAMILY, "numpy", "sentencepiece"} & versions.keys())
    print("packages: " + ", ".join(f"{name} {versions[name]}" for name in listed))
    for name, value in machine.processor().items():
        print(f"{name}: {value}")
    print(f"memory: {machine.memory()}")
    problems += machine.family_problems(versions)
    try:
        _print_devices()
    except ImportError as error:
        problems.append(f"TensorFlow does not load: {error}.")
    return problems


def _print_devices() -> None:
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    print(f"GPUs: {', '.join(gpu.name for gpu in gpus) or 'none'}")
    one_dnn = os.environ.get("TF_ENABLE_ONEDNN_OPTS", "1") != "0"
    print(f"oneDNN: {'on' if one_dnn else 'off, by TF_ENABLE_ONEDNN_OPTS=0: slower'}")
    if not FLAGS.tpu:
        print(f"TPU: {machine.tpu_hint()}")
        return
    strategy = device_flags.create_strategy()
    print(f"TPU: {FLAGS.tpu} answers, {strategy.num_replicas_in_sync} cores")


def _print_list(title: str, lines: Iterable[str]) -> None:
    lines = list(lines)
    if lines and title:
        print(f"  {title}")
    for line in lines:
        print(f"  {'  ' if title else ''}{line}")


if __name__ == "__main__":
    device_flags.define_tpu_flags()
    common_flags.run(main, texts="[PATH ...]")
