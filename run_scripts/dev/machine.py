"""Facts about a machine that decide whether and how fast this project runs."""

import importlib.metadata
import os
import platform
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from packaging.requirements import Requirement

# Distributions that are built against one TensorFlow and fail with another.
FAMILY = ("tensorflow", "tf_keras", "tensorflow-text", "tf-models-official")
# Instructions that decide the speed of products, and what they are for.
_INSTRUCTIONS = {
    "avx2": "fast products of float32",
    "avx512f": "twice as wide ones",
    "avx512_bf16": "products of bfloat16",
    "amx_bf16": "much faster ones",
}
_CPU_INFO, _MEMORY_INFO = Path("/proc/cpuinfo"), Path("/proc/meminfo")
_TPU_DEVICES = ("/dev/accel0", "/dev/vfio/0")


def packages(
    requirements: Iterable[str] | None = None,
) -> tuple[dict[str, str], list[str]]:
    """Reads the versions of the packages that this project needs.

    Args:
      requirements: as those of a distribution; None: those of this project.
    Returns:
      Name -> version, and a line on each package that is missing or of a version that
      does not fit.
    """
    if requirements is None:
        requirements = importlib.metadata.requires("albert-tf") or ()
    versions: dict[str, str] = {}
    problems = []
    for line in requirements:
        needed = Requirement(line)
        if needed.marker and not needed.marker.evaluate({"extra": ""}):
            continue
        try:
            versions[needed.name] = importlib.metadata.version(needed.name)
        except importlib.metadata.PackageNotFoundError:
            problems.append(f"{needed.name} is missing: pip install '{line}'")
            continue
        found = versions[needed.name]
        if not needed.specifier.contains(found, prereleases=True):
            problems.append(
                f"{needed.name} {found} does not fit {needed.specifier}: pip install "
                f"'{line}'"
            )
    return versions, problems


def family_problems(versions: Mapping[str, str]) -> list[str]:
    """Says whether the packages of TensorFlow are of one release.

    Args:
      versions: as of `packages`.
    """
    releases = {
        name: ".".join(versions[name].split(".")[:2])
        for name in FAMILY
        if name in versions
    }
    if len(set(releases.values())) < 2:
        return []
    listed = ", ".join(f"{name} {release}" for name, release in releases.items())
    return [f"{listed} are of different releases: install one of all of them."]


def processor(cpu_info: str | None = None) -> dict[str, str]:
    """Describes the processor.

    Args:
      cpu_info: content of /proc/cpuinfo; None: that of this machine.
    Returns:
      Name -> value: the model, the cores that this process may use, and the
      instructions that it has and lacks.
    """
    if cpu_info is None:
        cpu_info = _CPU_INFO.read_text() if _CPU_INFO.is_file() else ""
    flags = set(_after("flags", cpu_info).split())
    has = [name for name in _INSTRUCTIONS if name in flags]
    lacks = [name for name in _INSTRUCTIONS if name not in flags]
    described = {
        "processor": _after("model name", cpu_info) or platform.processor(),
        "cores": str(len(os.sched_getaffinity(0))),
    }
    if flags:
        described["instructions"] = ", ".join(
            [*(f"{name} ({_INSTRUCTIONS[name]})" for name in has)]
        )
        described["without"] = ", ".join(lacks) or "none"
    return described


def _after(name: str, text: str) -> str:
    """The value of the first line `name : value`."""
    match = re.search(rf"^{name}\s*:\s*(.*)$", text, re.MULTILINE)
    return match[1].strip() if match else ""


def memory(memory_info: str | None = None) -> str:
    """Memory of the machine, and what of it is free, in GiB.

    Args:
      memory_info: content of /proc/meminfo; None: that of this machine.
    """
    if memory_info is None:
        memory_info = _MEMORY_INFO.read_text() if _MEMORY_INFO.is_file() else ""
    sizes = [
        int(value.split()[0]) / 2**20
        for name in ("MemTotal", "MemAvailable")
        if (value := _after(name, memory_info))
    ]
    if len(sizes) < 2:
        return "not known"
    return f"{sizes[0]:.1f} GiB, {sizes[1]:.1f} GiB free"


def tpu_hint() -> str:
    """Says whether this machine looks like one with a TPU."""
    if any(Path(device).exists() for device in _TPU_DEVICES):
        return "this looks like a TPU VM: pass --tpu=local"
    if name := os.environ.get("TPU_NAME"):
        return f"TPU_NAME={name}: pass --tpu={name}"
    return "none found"
