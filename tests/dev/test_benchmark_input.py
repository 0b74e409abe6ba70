"""`benchmark.py input` makes a set once and measures workers on it."""

import json

import pytest

from dev import benchmark_input
from helpers.scripts import assert_one_line, run_script, succeed


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(benchmark_input, "WORKERS", (1, 4))
    monkeypatch.setattr(benchmark_input, "_STARTS", 1)
    monkeypatch.setattr(benchmark_input, "_DISTINCT_ROWS", 6)


def test_workers_of_all_kinds_of_rows_are_measured(small, tmp_path):
    out = succeed(
        "benchmark.py",
        "input",
        "--benchmark_rows=75",
        "--benchmark_seconds=0",
        "--train_batch_size=8",
        f"--work_dir={tmp_path / 'set'}",
        cwd=tmp_path,
    )
    *lines, values = out.splitlines()
    summary = json.loads(values)
    streams = summary.pop("streams")
    assert summary == {"rows": 75, "files": 8, "batch_size": 8, "late_step": 7}
    assert [(stream["kind"], stream["workers"]) for stream in streams] == [
        ("lanes", 1),
        ("lanes", 4),
        ("window", 1),
        ("window", 4),
        ("masks", 1),
        ("masks", 4),
    ]
    sizes = {stream["kind"]: stream["bytes_per_row"] for stream in streams}
    assert sizes["masks"] < 0.6 * sizes["lanes"] == 0.6 * sizes["window"]
    for stream in streams:
        own, of_all = stream["own_rows_per_second"], stream["global_rows_per_second"]
        assert of_all == pytest.approx(own * stream["workers"])
        assert own > 0 < stream["seconds_to_first_batch_late"]
    assert len(lines) >= 3 + len(streams) and "step 7" in out


def test_a_set_is_made_once(small, tmp_path):
    rows = benchmark_input.make_set(tmp_path, 75)
    assert rows.total_rows == 75 and len(set(rows.rows)) > 1
    files = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert benchmark_input.make_set(tmp_path, 75) == rows
    assert files == {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}


def test_batches_that_the_workers_cannot_share_are_refused(tmp_path):
    done = run_script("benchmark.py", "input", "--train_batch_size=96", cwd=tmp_path)
    assert_one_line(done, 2, "--train_batch_size must be a multiple of 64", "96")
