"""Slices of TPUs: their shapes, the time of a sum, and the paper's training."""

import math
import re

import pytest

from albert_tf.analysis import costs
from albert_tf.config import AlbertConfig
from dev import tpu_report, tpu_slices
from helpers.paths import ROOT

CONFIGS, DOCS = ROOT / "configs", ROOT / "docs" / "accelerators.md"

STEP = {"gradient_bytes": 47_000_000, "row_bytes": 6_600}


def test_every_generation_has_an_interconnect():
    assert tpu_slices.INTERCONNECTS.keys() == tpu_report.CORES.keys()


@pytest.mark.parametrize(
    ("generation", "cores", "shape", "hosts", "links"),
    [
        # Half of a ring of four chips goes each way.
        ("v3", 8, (2, 2), 1, 2),
        ("v3", 32, (4, 4), 4, 2),
        ("v3", 256, (8, 16), 32, 2),
        # One axis is as long as the pod's, and closed.
        ("v3", 1024, (16, 32), 128, 3),
        ("v3", 2048, (32, 32), 256, 4),
        ("v4", 8, (1, 2, 2), 1, 2),
        ("v4", 64, (2, 4, 4), 8, 3),
        ("v4", 128, (4, 4, 4), 16, 6),
        ("v4", 1024, (8, 8, 8), 128, 6),
        ("v5e", 1, (1, 1), 1, 0),
        ("v5e", 8, (2, 4), 2, 2),
        ("v5e", 128, (8, 16), 32, 3),
        ("v5e", 256, (16, 16), 64, 4),
    ],
)
def test_slices_have_published_shapes(generation, cores, shape, hosts, links):
    found = tpu_slices.find_slice(generation, cores)
    assert (found.shape, found.hosts, found.links) == (shape, hosts, links)
    assert found.cores == cores


@pytest.mark.parametrize(
    ("generation", "gigabytes_per_second"),
    [("v2", 248), ("v3", 332), ("v4", 269), ("v5e", 200), ("v5p", 600), ("v6e", 400)],
)
def test_a_pod_sums_at_its_published_bandwidth(generation, gigabytes_per_second):
    pod = tpu_slices.slices_of(generation)[-1]
    # The size divided by the time, at twice the size sent by each of many chips.
    rate = 2 * 10**12 / pod.all_reduce_seconds(10**12)
    assert rate == pytest.approx(gigabytes_per_second * 1e9, rel=0.005)


@pytest.mark.parametrize("generation", tpu_slices.INTERCONNECTS)
def test_a_sum_takes_as_long_as_its_bytes_by_every_link(generation):
    for part in tpu_slices.slices_of(generation):
        link = part.interconnect.link_bytes_per_second
        if part.chips == 1:
            assert part.all_reduce_seconds(7_000_000) == 0
            continue
        ring = 2 * (part.chips - 1) / part.chips
        expected = ring * 7_000_000 / (part.links * link)
        assert part.all_reduce_seconds(7_000_000) == pytest.approx(expected)
        assert part.all_reduce_seconds(21_000_000) == pytest.approx(3 * expected)


def test_by_hand_base_sums_in_a_third_of_a_millisecond():
    # 2 * 3/4 * 47 MB by two links of 83 GB/s; 2 * 511/512 * 47 MB by three.
    small, large = (tpu_slices.find_slice("v3", cores) for cores in (8, 1024))
    assert small.all_reduce_seconds(47_000_000) == pytest.approx(0.425e-3, rel=0.002)
    assert large.all_reduce_seconds(47_000_000) == pytest.approx(0.377e-3, rel=0.002)


@pytest.mark.parametrize(
    ("generation", "cores", "sizes"),
    [
        ("v3", 2, "8, 16, 32, 64, 128, 256, 512, 1024, 2048"),
        ("v3", 12, "8, 16, 32, 64, 128, 256, 512, 1024, 2048"),
        ("v5e", 1024, "1, 4, 8, 16, 32, 64, 128, 256"),
        ("v5p", 2, "4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096"),
    ],
)
def test_a_slice_that_does_not_exist_is_named_with_those_that_do(
    generation, cores, sizes
):
    with pytest.raises(ValueError) as raised:
        tpu_slices.find_slice(generation, cores)
    assert str(raised.value) == (
        f"{generation} has no slice of {cores} cores: --cores are of {sizes}."
    )


@pytest.mark.parametrize("cores", [8, 64, 1024])
def test_a_batch_takes_its_steps_and_one_sum(cores):
    part = tpu_slices.find_slice("v3", cores)
    values = tpu_slices.training_values(part, 24, 3.0, STEP)
    summing = part.all_reduce_seconds(STEP["gradient_bytes"])
    seconds = 3.0 * 4096 / 24 / cores + summing
    assert values["all_reduce_seconds"] == summing
    assert values["batch_seconds"] == pytest.approx(seconds)
    assert values["days"] == pytest.approx(125_000 * seconds / 86_400)
    # All hosts together read each row once.
    rows = values["rows_per_second_per_host"] * part.hosts * values["batch_seconds"]
    assert rows == pytest.approx(4096)
    rate = values["bytes_per_second_per_host"] / values["rows_per_second_per_host"]
    assert rate == pytest.approx(STEP["row_bytes"])


def test_a_table_has_a_line_a_slice():
    slices = [tpu_slices.find_slice("v3", cores) for cores in (8, 1024)]
    text = tpu_slices.table(
        [tpu_slices.training_values(part, 160, 1.0, STEP) for part in slices]
    )
    head, small, large = text.splitlines()
    assert head.split("  ")[-1].strip() == "MB/s a host"
    assert small.split()[:4] == ["8", "2x2", "1", "0.42"]
    assert large.split()[:4] == ["1024", "16x32", "128", "0.38"]
    assert len({len(line) for line in (head, small, large)}) == 1
    assert float(small.split()[6]) == math.floor(8 * 160 / (1 + 0.000425 / 3.2) + 0.5)


def test_the_documented_sums_are_those_of_the_models():
    names = ("base", "large", "xlarge", "xxlarge")
    configs = [
        AlbertConfig.from_json(CONFIGS / f"albert_{name}.json") for name in names
    ]
    sizes = [4 * sum(costs.parameter_counts(config).values()) for config in configs]
    rows = re.findall(r"^\| (v\w+)-(\d+) \| (.*) \|$", DOCS.read_text("utf-8"), re.M)
    assert len(rows) == 12
    for generation, cores, cells in rows:
        part = tpu_slices.find_slice(generation, int(cores))
        shape = "x".join(map(str, part.shape))
        times = [f"{part.all_reduce_seconds(size) * 1e3:.2f}" for size in sizes]
        assert cells.split(" | ") == [shape, str(part.hosts), *times]
