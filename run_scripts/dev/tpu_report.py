"""Reports from the TPU compiler's figures: if a step fits, and how long it takes."""

import dataclasses
import itertools
import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dev import tpu_program, tpu_slices

# A search stops at so many rows per core: beyond, the figures hardly change.
_MOST_ROWS = 1024
# Guesses from memory before a search goes on by bisection.
_GUESSES_BY_MEMORY = 4


@dataclasses.dataclass(frozen=True)
class Core:
    """Published figures of one core, as the compiler counts cores.

    Attributes:
      hbm_bytes: size of its memory.
      flops_per_second: peak of its matrix unit, whose inputs are always bfloat16.
      bytes_per_second: peak of its memory's bandwidth.
    """

    hbm_bytes: int
    flops_per_second: float
    bytes_per_second: float


# From Cloud TPU's system architecture pages. A chip of v2, v3 and v4 has two cores,
# each with half of its resources; a v5p chip counts as one core.
CORES = {
    "v2": Core(8 * 2**30, 23e12, 350e9),
    "v3": Core(16 * 2**30, 61.5e12, 450e9),
    "v4": Core(16 * 2**30, 137.5e12, 614e9),
    "v5e": Core(16 * 2**30, 197e12, 819e9),
    "v5p": Core(95 * 2**30, 459e12, 2765e9),
    "v6e": Core(32 * 2**30, 918e12, 1640e9),
}

_COLUMNS = (
    ("topology", 9),
    ("rows/core", 10),
    ("HBM GiB", 8),
    ("fits", 5),
    ("temporary GB", 13),
    ("TFLOP", 8),
    ("GB moved", 9),
    ("compute ms", 11),
    ("move ms", 8),
    ("step ms", 8),
    ("bound by", 9),
)
HEADER = " ".join(f"{name:>{width}}" for name, width in _COLUMNS)


def generation(topology: str) -> str:
    """The generation in the name of a topology: v3 of v3:2x2."""
    return topology.split(":")[0]


def check_topology(name: str, cores: Sequence[int]) -> str:
    """Returns the name of a topology, checked.

    Args:
      name: generation and shape.
      cores: numbers of cores of slices.
    Raises:
      ValueError: its generation is unknown or has no such slice, or it has no shape.
    """
    if generation(name) not in CORES or ":" not in name:
        raise ValueError(
            f"Unknown --topology {name!r}: give a generation ({', '.join(CORES)}) and "
            "a shape, as v3:2x2, v4:2x2x1 or v5e:2x2."
        )
    for number in cores:
        tpu_slices.find_slice(generation(name), number)
    return name


def check_compiler(python: str) -> None:
    """Checks that a Python interpreter has jax and libtpu.

    Raises:
      ValueError: it does not have them, does not run, or is another program.
    """
    try:
        missing = json.loads(answer := _run_compiler(python))
    except json.JSONDecodeError:
        raise ValueError(
            f"--compiler_python {python!r} is no Python: it answers {answer[:80]!r}. "
            "Name an interpreter that has jax and libtpu."
        ) from None
    if missing:
        raise ValueError(
            f"The TPU compiler needs {' and '.join(missing)}, which {python} does not "
            "have: pip install jax libtpu (x86-64 Linux), or name a Python that has "
            "them with --compiler_python."
        )


def compile_step(file: Path, topology: str, python: str) -> dict[str, Any]:
    """Runs `tpu_compiler.py`; returns its figures and those of `tpu_program`.

    Args:
      file: StableHLO text.
      topology: a name that `check_topology` accepts.
      python: an interpreter that `check_compiler` accepts.
    Raises:
      ValueError: the compiler refuses the step or the topology.
    """
    figures = json.loads(_run_compiler(python, str(file), topology))
    if "error" in figures:
        raise ValueError(
            f"The compiler refuses {topology} ({figures['error'][:300]}): check "
            "--topology."
        )
    if program := figures.pop("program", None):
        figures |= tpu_program.summarize(program)
    return figures


def _run_compiler(python: str, *arguments: str) -> str:
    """Runs the compiler's script; returns the last line that it prints."""
    command = [python, str(Path(__file__).with_name("tpu_compiler.py")), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        raise ValueError(
            f"--compiler_python {python!r} does not run: {error}"
        ) from None
    if done.returncode or not done.stdout:
        raise ValueError(
            f"The TPU compiler stopped with code {done.returncode} (its last words: "
            f"{done.stderr.strip()[-300:]!r}): a kill means too little memory here."
        )
    return done.stdout.splitlines()[-1]


@dataclasses.dataclass(frozen=True)
class Report:
    """The result of one compilation.

    Attributes:
      topology: generation and shape, as v3:2x2.
      rows: rows per core.
      cores: numbers of cores that train together, a slice each.
      figures: from `compile_step`, and `gradient_bytes` and `row_bytes`.
    """

    topology: str
    rows: int
    cores: Sequence[int]
    figures: dict[str, Any]

    @property
    def core(self) -> Core:
        """The core that the step was compiled for."""
        return CORES[generation(self.topology)]

    @property
    def fits(self) -> bool:
        """True if the step fits the core's memory."""
        return "flops" in self.figures

    def values(self) -> dict[str, Any]:
        """All figures as JSON values.

        `step_seconds` is a lower bound, the roofline's: the longer of computing and of
        moving bytes, each at the core's peak. `slices` are those of
        `tpu_slices.training_values`.
        """
        values = {
            "topology": self.topology,
            "rows_per_core": self.rows,
            "fits": self.fits,
            "hbm_limit_bytes": self.core.hbm_bytes,
            **self.figures,
        }
        if self.fits:
            computing = self.figures["flops"] / self.core.flops_per_second
            moving = self.figures["bytes_accessed"] / self.core.bytes_per_second
            seconds = max(computing, moving)
            values |= {
                "computing_seconds": computing,
                "moving_seconds": moving,
                "step_seconds": seconds,
                "bound_by": "matrices" if computing >= moving else "memory",
                "slices": [
                    tpu_slices.training_values(
                        tpu_slices.find_slice(generation(self.topology), cores),
                        self.rows,
                        seconds,
                        self.figures,
                    )
                    for cores in self.cores
                ],
            }
        return values

    def line(self) -> str:
        """A row of the table under `HEADER`."""
        values = self.values()
        cells = [
            self.topology,
            self.rows,
            f"{values['hbm_bytes'] / 2**30:.2f}",
            "yes" if self.fits else "no",
        ]
        if self.fits:
            cells += [
                f"{values['temporary_bytes'] / 1e9:.2f}",
                f"{values['flops'] / 1e12:.2f}",
                f"{values['bytes_accessed'] / 1e9:.1f}",
                *[
                    f"{values[f'{part}_seconds'] * 1e3:.0f}"
                    for part in ("computing", "moving", "step")
                ],
                values["bound_by"],
            ]
        return " ".join(
            f"{cell:>{width}}"
            for cell, (_, width) in zip(cells, _COLUMNS, strict=False)
        )

    def tables(self) -> str:
        """Slices, largest temporaries and operations as text; "" if nothing fits."""
        if not self.fits:
            return ""
        gigabytes = self.figures["gradient_bytes"] / 1e9
        lines = [
            f"Slices of {generation(self.topology)}; a sum of gradients has "
            f"{gigabytes:.3f} GB:",
            tpu_slices.table(self.values()["slices"]),
        ]
        if "largest_temporaries" not in self.figures:
            return "\n".join(lines)
        temporaries, traffic = (
            self.figures[f"largest_{name}"] for name in ("temporaries", "traffic")
        )
        kinds = self.figures["traffic_bytes"].items()
        shares = ", ".join(f"{kind} {size / 1e9:.2f}" for kind, size in kinds)
        return "\n".join(
            [
                *lines,
                "Largest temporaries when they need the most memory:",
                tpu_program.table(temporaries, ["tensor", "operation"]),
                f"Operations that move the most bytes (GB of all: {shares}):",
                tpu_program.table(traffic, ["kind", "operation"]),
            ]
        )


def find_largest(measure: Callable[[str, int], Report], first: Report) -> Report:
    """Searches for the largest number of rows that fits.

    It is a multiple of 8, or a power of 2 below 8. A compilation takes minutes. Memory
    grows linearly with rows, so the next guess is the number at which it would be full.

    Args:
      measure: (topology, rows) -> report.
      first: the report to start from.
    Returns:
      The report of that number of rows.
    Raises:
      ValueError: a single row does not fit.
    """
    largest, too_many = None, _MOST_ROWS + 1
    report, fixed, limit = first, 0, first.core.hbm_bytes
    for guesses in itertools.count():
        if report.fits:
            largest = report
            fixed = report.figures.get("argument_bytes", 0)
        else:
            too_many = report.rows
            # The compiler keeps some of the memory for itself.
            limit = report.figures.get("hbm_limit_bytes", limit)
        least = largest.rows if largest else 0
        if too_many <= 8:
            rows = 2 ** ((too_many - 1).bit_length() - 1) if too_many > 1 else 0
        else:
            guess = (least + too_many) // 2
            if guesses < _GUESSES_BY_MEMORY:
                room = limit - fixed
                used = max(report.figures["hbm_bytes"] - fixed, 1)
                guess = int(report.rows * room / used)
            highest = (too_many - 1) // 8 * 8
            rows = min(max(guess // 8 * 8, least // 8 * 8 + 8), highest)
        if rows <= least:
            break
        report = measure(first.topology, rows)
    if largest is None:
        raise ValueError(
            f"A single row does not fit a core of {first.topology}: use a shorter "
            "--max_seq_length or --rematerialize=block."
        )
    return largest
