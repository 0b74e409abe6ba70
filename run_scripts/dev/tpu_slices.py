"""Slices of TPUs: sums over their cores, the paper's training, and its input."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

# Pretraining in the paper (section 4.1): optimizer steps, and rows in a step.
PAPER_STEPS, PAPER_BATCH = 125_000, 4096

# A host (virtual machine) of a slice has so many chips, or all of a smaller slice.
_CHIPS_OF_HOST = 4


@dataclasses.dataclass(frozen=True)
class Interconnect:
    """Published figures of a generation's chips and of the links between them.

    Attributes:
      cores: cores of a chip, as the compiler counts them.
      link_bytes_per_second: what a link carries in one direction. A chip has two links
        for each axis.
      least, most: chips along the axes of the smallest and of the largest slice.
      ring: an axis whose length is a multiple of this closes to a ring.
      cube: True if no axis of a slice closes unless all do.
    """

    cores: int
    link_bytes_per_second: float
    least: tuple[int, ...]
    most: tuple[int, ...]
    ring: int
    cube: bool = False


# From Cloud TPU's pages of each generation: the all-reduce bandwidth of a pod (v3: 340
# TB/s, v4: 1.1 PB/s, v5e: 51.2 TB/s, v6e: 102.4 TB/s), divided by the number of its
# chips and by a chip's 4 or 6 links. v5p: half of a chip's bidirectional 1,200 GB/s by
# 6. v2: 496 Gbit/s ("A Domain Specific Supercomputer for Training Deep Neural
# Networks", table 1, which gives v3 656 Gbit/s: 82 GB/s). Rings: "How to Scale Your
# Model", chapter 2; v2 and v3 close at the size of the pod.
INTERCONNECTS = {
    "v2": Interconnect(2, 62e9, (2, 2), (16, 16), 16),
    "v3": Interconnect(2, 340e12 / 1024 / 4, (2, 2), (32, 32), 32),
    "v4": Interconnect(2, 1.1e15 / 4096 / 6, (1, 2, 2), (16, 16, 16), 4, True),
    "v5e": Interconnect(1, 51.2e12 / 256 / 4, (1, 1), (16, 16), 16),
    "v5p": Interconnect(1, 1200e9 / 2 / 6, (1, 2, 2), (16, 16, 16), 4, True),
    "v6e": Interconnect(1, 102.4e12 / 256 / 4, (1, 1), (16, 16), 16),
}

_COLUMNS = {
    "cores": "{cores}",
    "chips": "{shape}",
    "hosts": "{hosts}",
    "all-reduce ms": "{all_reduce_milliseconds:.2f}",
    "4,096 rows ms": "{batch_milliseconds:.1f}",
    "days": "{days:.2f}",
    "rows/s a host": "{rows_per_second_per_host:.0f}",
    "MB/s a host": "{megabytes_per_second_per_host:.1f}",
}


@dataclasses.dataclass(frozen=True)
class Slice:
    """Connected chips that train together; `find_slice` makes one.

    Attributes:
      generation: a key of `INTERCONNECTS`.
      shape: chips along each axis.
    """

    generation: str
    shape: tuple[int, ...]

    @property
    def interconnect(self) -> Interconnect:
        """The figures of its generation."""
        return INTERCONNECTS[self.generation]

    @property
    def chips(self) -> int:
        """Number of chips."""
        return math.prod(self.shape)

    @property
    def cores(self) -> int:
        """Number of cores."""
        return self.chips * self.interconnect.cores

    @property
    def hosts(self) -> int:
        """Number of hosts, each of which reads the rows of its chips."""
        return max(1, self.chips // _CHIPS_OF_HOST)

    @property
    def links(self) -> int:
        """Links of a chip that a sum uses at once: two of an axis that is a ring.

        An axis without the link that closes it has one: its last chip has no other.
        """
        closed = [length % self.interconnect.ring == 0 for length in self.shape]
        if self.interconnect.cube and not all(closed):
            closed = [False] * len(closed)
        return sum(
            2 if ring else 1
            for length, ring in zip(self.shape, closed, strict=True)
            if length > 1
        )

    def all_reduce_seconds(self, size: int) -> float:
        """The shortest time in which every chip gets the sum of all chips' tensors.

        A sum that moves as few bytes as possible sends 2 (n - 1) / n times the tensors'
        size from each of n chips (Patarasuk and Yuan 2009), here over all links at once
        (Jain and Sabharwal 2010). Left out: latency, about a microsecond for each chip
        that the bytes pass, and the sum of a chip's own cores in its memory.

        Args:
          size: bytes of the tensors of one chip.
        """
        if self.chips == 1:
            return 0.0
        sent = 2 * (self.chips - 1) / self.chips * size
        return sent / (self.links * self.interconnect.link_bytes_per_second)


def slices_of(generation: str) -> list[Slice]:
    """All slices of a generation whose number of chips is a power of two.

    A slice is as square, or as near to a cube, as its number of chips allows.

    Args:
      generation: a key of `INTERCONNECTS`.
    """
    interconnect = INTERCONNECTS[generation]
    dimensions = len(interconnect.most)
    least, most = (
        math.prod(shape).bit_length() - 1
        for shape in (interconnect.least, interconnect.most)
    )
    shapes = []
    for doublings in range(least, most + 1):
        each, rest = divmod(doublings, dimensions)
        powers = [each] * (dimensions - rest) + [each + 1] * rest
        shapes.append(tuple(2**power for power in powers))
    # Hosts are not divided, but for a single chip.
    return [
        Slice(generation, shape)
        for shape in shapes
        if math.prod(shape) == 1 or math.prod(shape) >= _CHIPS_OF_HOST
    ]


def find_slice(generation: str, cores: int) -> Slice:
    """The slice with this number of cores.

    Raises:
      ValueError: the generation has no such slice.
    """
    found = {each.cores: each for each in slices_of(generation)}
    if cores not in found:
        raise ValueError(
            f"{generation} has no slice of {cores} cores: --cores are of "
            f"{', '.join(map(str, found))}."
        )
    return found[cores]


def training_values(
    part: Slice, rows: int, step_seconds: float, step: Mapping[str, int]
) -> dict[str, Any]:
    """Time and input of the paper's training on a slice, as JSON values.

    A batch of 4,096 rows takes as many steps as its rows need on all cores, or a part
    of one, and a single sum of gradients. The sum is not hidden behind computing: the
    gradient of a shared weight is complete at the end of the backward pass only.

    Args:
      part: the slice.
      rows: rows of a core in a step.
      step_seconds: time of a step on one core.
      step: `gradient_bytes` and `row_bytes`, from `step_lowering`.
    """
    steps = PAPER_BATCH / (rows * part.cores)
    summing = part.all_reduce_seconds(step["gradient_bytes"])
    seconds = steps * step_seconds + summing
    rate = PAPER_BATCH / seconds / part.hosts
    return {
        "cores": part.cores,
        "chips": part.chips,
        "hosts": part.hosts,
        "shape": "x".join(map(str, part.shape)),
        "all_reduce_seconds": summing,
        "batch_seconds": seconds,
        "days": PAPER_STEPS * seconds / 86400,
        "rows_per_second_per_host": rate,
        "bytes_per_second_per_host": rate * step["row_bytes"],
    }


def table(slices: Sequence[Mapping[str, Any]]) -> str:
    """Values of `training_values` as text, a line a slice."""
    lines = [list(_COLUMNS)]
    for values in slices:
        shown = {
            **values,
            "all_reduce_milliseconds": values["all_reduce_seconds"] * 1e3,
            "batch_milliseconds": values["batch_seconds"] * 1e3,
            "megabytes_per_second_per_host": values["bytes_per_second_per_host"] / 1e6,
        }
        lines.append([cell.format(**shown) for cell in _COLUMNS.values()])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:>{width}}" for cell, width in zip(line, widths, strict=True))
        for line in lines
    )
