"""The measurement of attention in a window."""

from dev import benchmark_attention
from helpers.tiny import tiny_config


def test_both_kinds_are_measured():
    lengths = (8, 12)
    rows = benchmark_attention.measure(tiny_config(), 3, lengths, turns=2)
    assert [row["tokens"] for row in rows] == [8, 12]
    for row in rows:
        assert row["window"] == 3
        for part in ("attention", "layer"):
            assert row[f"full_{part}_ms"] > 0 and row[f"window_{part}_ms"] > 0
    lines = benchmark_attention.table(rows).splitlines()
    assert len(lines) == 4 and len({len(line) for line in lines}) == 1
