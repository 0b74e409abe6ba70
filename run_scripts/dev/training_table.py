"""The report of `benchmark.py training` as a Markdown table, and in the docs.

    python run_scripts/benchmark.py render

puts docs/figures/training.json as a table into docs/performance.md.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from albert_tf.files import read_json, write_whole
from dev.training_contestants import GRAPHS, OURS

_ROOT = Path(__file__).resolve().parents[2]
FIGURES = _ROOT / "docs" / "figures" / "training.json"
PAGE = _ROOT / "docs" / "performance.md"
BEGIN = "<!-- From figures/training.json, by benchmark.py render: -->"
END = "<!-- The end of what is from figures/training.json. -->"
_TITLES = ("work", "precision", "measured", "beside", "ratio")
_HEADER = "| " + " | ".join(_TITLES) + " |"
# What tells an earlier table from other texts.
SAMPLE = f"{_HEADER}\n".encode()
_TASK_NAMES = {"cola": "CoLA", "rte": "RTE"}

Report = Mapping[str, Any]
# The cells of a line, as `_TITLES`.
Row = tuple[str, str, str, str, str]


def main() -> None:
    """Renders the figures into the page."""
    page = PAGE.read_text(encoding="utf-8")
    text = replace_block(page, render(read_json(FIGURES)))
    write_whole(PAGE, text.encode())
    print(f"Wrote {PAGE}.")


def replace_block(page: str, block: str) -> str:
    """Replaces what stands between the two markers of a page.

    Raises:
      ValueError: the page has not both markers, once each and in order.
    """
    before, begin, rest = page.partition(f"{BEGIN}\n")
    _, end, after = rest.partition(END)
    if not (begin and end) or page.count(BEGIN) + page.count(END) != 2:
        raise ValueError(
            f"{PAGE} must have the lines {BEGIN!r} and {END!r} once each: add them "
            "where the table is to be."
        )
    return f"{before}{BEGIN}\n\n{block}\n{END}{after}"


def render(report: Report) -> str:
    """The table as Markdown, and a sentence on how it was measured."""
    machine, settings = report["machine"], report["settings"]
    versions = ", ".join(f"{name} {v}" for name, v in report["versions"].items())
    changes = [f"with {each}" for each in settings["config_override"]]
    kind = ", ".join([settings["model"], *changes, settings["optimizer"]])
    lines = [_HEADER, "|" + "---|" * len(_TITLES)]
    lines += ["| " + " | ".join(row) + " |" for row in _rows(report)]
    lines += [
        "",
        f"{kind}, {report['date']}; {machine['cores']} cores of "
        f"{machine['processor']}; {versions}. Times are the fastest of "
        f"{settings['benchmark_steps']} steps, those of epochs the mean.",
    ]
    for name, reason in report["missing"].items():
        lines += ["", f"Without {name}: {reason}."]
    return "\n".join(lines) + "\n"


def _rows(report: Report) -> Iterator[Row]:
    for case in report["steps"]:
        yield from _step_rows(case)
    for summary in report["fine_tuning"]:
        name = _TASK_NAMES[summary["task"]]
        seconds = summary["epoch_seconds"]
        yield (
            f"{name} epoch, batch {summary['batch']}",
            summary["precision"],
            f"{seconds['needed']:,.0f} s",
            f"padding to {summary['max_seq_length']}: {seconds['full']:,.0f} s",
            f"{summary['times_faster']:.1f} times as fast",
        )
    for case in report["evaluation"]:
        for kind, speeds in case["rows_per_second"].items():
            ours, other = (speeds[graph] for graph in GRAPHS)
            yield (
                f"evaluation, {kind}, {case['rows']} x {case['length']}",
                case["precision"],
                f"{ours:.2f} rows/s",
                f"graph of training: {other:.2f} rows/s",
                f"{ours / other:.2f} times as fast",
            )


def _step_rows(case: Report) -> Iterator[Row]:
    precision, size = case["precision"], f"{case['rows']} x {case['max_seq_length']}"
    ours = case["contestants"][OURS]
    speed = f"{ours['examples_per_second']:.2f} rows/s"
    memory = f"{ours['peak_memory_megabytes'] / 1e3:.2f} GB"
    product = f"{case['matmul_gflops_per_second']:,.0f} GFLOP/s of matrix products"
    others = {n: each for n, each in case["contestants"].items() if n != OURS}
    share = f"{ours['share_of_matmul']:.1%}"
    yield f"step, {size}", precision, speed, product, share
    for name, other in others.items():
        beside = (
            f"{name}: {other['examples_per_second']:.2f} rows/s, "
            f"{other['share_of_matmul']:.1%} of the products"
        )
        ratio = ours["examples_per_second"] / other["examples_per_second"]
        yield f"step, {size}", precision, speed, beside, f"{ratio:.2f} times as fast"
    if not others:
        yield f"peak memory, {size}", precision, memory, "", ""
    for name, other in others.items():
        their = other["peak_memory_megabytes"]
        yield (
            f"peak memory, {size}",
            precision,
            memory,
            f"{name}: {their / 1e3:.2f} GB",
            f"{ours['peak_memory_megabytes'] / their:.2f} times",
        )
    yield (
        "optimizer alone",
        precision,
        f"{case['optimizer_ms']:,.0f} ms",
        f"step: {case['step_ms']:,.0f} ms",
        f"{case['optimizer_ms'] / case['step_ms']:.1%}",
    )
