"""The table of `benchmark.py training`, and the one in the docs."""

import pytest

from albert_tf.files import read_json
from dev import training_table
from dev.training_table import BEGIN, END, FIGURES, PAGE, render, replace_block


def contestant(speed, memory, share):
    return {
        "examples_per_second": speed,
        "peak_memory_megabytes": memory,
        "share_of_matmul": share,
    }


STEP = {
    "precision": "bfloat16",
    "rows": 8,
    "max_seq_length": 128,
    "matmul_gflops_per_second": 1234.5,
    "step_ms": 800.0,
    "optimizer_ms": 100.0,
    "contestants": {
        "albert-tf": contestant(6.0, 2100.0, 0.75),
        "tf-models": contestant(4.0, 2800.0, 0.5),
    },
}
REPORT = {
    "date": "2026-01-02",
    "machine": {"processor": "Abacus", "cores": 2},
    "versions": {"Python": "3.11.7", "numpy": "2.4"},
    "settings": {
        "model": "toy",
        "config_override": ["hidden_size=12"],
        "optimizer": "lamb",
        "benchmark_steps": 12,
    },
    "missing": {"PyTorch, eager": "torch is not installed (extra `peers`)"},
    "steps": [STEP],
    "fine_tuning": [
        {
            "task": "cola",
            "batch": 16,
            "precision": "float32",
            "max_seq_length": 512,
            "epoch_seconds": {"needed": 320.4, "full": 6408.0},
            "times_faster": 20.0,
        }
    ],
    "evaluation": [
        {
            "precision": "float32",
            "rows": 16,
            "length": 512,
            "rows_per_second": {"full length": {"inference": 5.0, "training": 4.0}},
        }
    ],
}
TABLE = """\
| work | precision | measured | beside | ratio |
|---|---|---|---|---|
| step, 8 x 128 | bfloat16 | 6.00 rows/s | 1,234 GFLOP/s of matrix products | 75.0% |
| step, 8 x 128 | bfloat16 | 6.00 rows/s | tf-models: 4.00 rows/s, 50.0% of the \
products | 1.50 times as fast |
| peak memory, 8 x 128 | bfloat16 | 2.10 GB | tf-models: 2.80 GB | 0.75 times |
| optimizer alone | bfloat16 | 100 ms | step: 800 ms | 12.5% |
| CoLA epoch, batch 16 | float32 | 320 s | padding to 512: 6,408 s | 20.0 times as \
fast |
| evaluation, full length, 16 x 512 | float32 | 5.00 rows/s | graph of training: 4.00 \
rows/s | 1.25 times as fast |

toy, with hidden_size=12, lamb, 2026-01-02; 2 cores of Abacus; Python 3.11.7, numpy \
2.4. Times are the fastest of 12 steps, those of epochs the mean.

Without PyTorch, eager: torch is not installed (extra `peers`).
"""


def test_the_table_has_a_row_for_each_figure_and_what_it_is_beside():
    assert render(REPORT) == TABLE


def test_without_peers_memory_is_reported_alone():
    alone = {**STEP, "contestants": {"albert-tf": contestant(6.0, 2100.0, 0.75)}}
    lines = render({**REPORT, "steps": [alone], "missing": {}}).splitlines()
    assert "| peak memory, 8 x 128 | bfloat16 | 2.10 GB |  |  |" in lines
    assert not [line for line in lines if "tf-models" in line or "Without" in line]


def test_the_docs_have_the_committed_figures():
    page = PAGE.read_text(encoding="utf-8")
    assert replace_block(page, render(read_json(FIGURES))) == page


def test_a_block_is_replaced_and_nothing_else():
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    once = replace_block(page, "new\n")
    assert once == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
    assert replace_block(once, "new\n") == once


@pytest.mark.parametrize("page", ["", f"{END}\n{BEGIN}\n", f"{BEGIN}\n{END}{END}"])
def test_a_page_without_its_markers_is_refused(page):
    with pytest.raises(ValueError, match=r"must have the lines .* once each"):
        replace_block(page, "new\n")


def test_the_command_renders_into_the_page(tmp_path, monkeypatch, capsys):
    page = tmp_path / "page.md"
    page.write_text(f"a\n{BEGIN}\n{END}\n")
    monkeypatch.setattr(training_table, "PAGE", page)
    training_table.main()
    assert page.read_text() == f"a\n{BEGIN}\n\n{render(read_json(FIGURES))}\n{END}\n"
    assert capsys.readouterr().out == f"Wrote {page}.\n"
