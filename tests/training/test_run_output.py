"""A run prints lines for people; orbit's reports go to the log."""

import io
import re
import sys
import time

import pytest

from albert_tf.training import run_output
from albert_tf.training.run import run
from helpers.training_jobs import make_job

REPORT = {
    "masked_lm_loss": 2.34567,
    "sentence_order_loss": 0.6911,
    "gradient_norm": 17.0,
    "skipped_steps": 0,
    "learning_rate": 0.00176,
    "examples_per_second": 1234.5,
    "waiting_for_input": 0.01,
    "minutes_left": 61.5,
}


def show(step, report, total):
    with run_output.shown_progress(0, total, int) as progress:
        progress.show(step, report)


def test_a_line_has_what_a_person_asks_for(capsys):
    show(300, REPORT, total=300)
    assert capsys.readouterr().out == (
        "Step 300 of 300 (100%), 1:01:30 left, 1,234 rows/s, masked lm loss 2.346, "
        "sentence order loss 0.691, learning rate 1.76e-03\n"
    )


@pytest.mark.parametrize(
    ("changed", "text"),
    [({"skipped_steps": 3}, "3 steps skipped"), ({"layers": 6}, "6 layers")],
)
def test_a_line_tells_what_is_unusual(changed, text, capsys):
    show(7, {**REPORT, **changed}, total=7)
    assert text in capsys.readouterr().out


def test_lines_are_ten_seconds_apart(capsys, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(run_output.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(run_output, "SECONDS_PER_LOOP_LINE", 1e9)
    with run_output.shown_progress(0, 1_000, int) as progress:
        for step in range(1, 60):
            now[0] += 1.5
            progress.show(step, REPORT)
    lines = capsys.readouterr().out.splitlines()
    steps = [int(line.split()[1]) for line in lines]
    assert steps == [7, 14, 21, 28, 35, 42, 49, 56]


def test_a_terminal_gets_a_bar(monkeypatch, capsys):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    with run_output.shown_progress(4, 12, int) as progress:
        progress.show(7, REPORT)
    drawn = sys.stderr.getvalue()
    assert "7/12" in drawn and "\r" in drawn
    assert capsys.readouterr().out == ""


def test_a_long_loop_is_followed(capsys, monkeypatch):
    monkeypatch.setattr(run_output, "SECONDS_PER_LOOP_LINE", 0.5)
    monkeypatch.setattr(run_output, "SECONDS_PER_LINE", 0.5)
    steps = iter([3, 3, 9, *[9] * 99])
    with run_output.shown_progress(0, 12, lambda: next(steps)):
        time.sleep(4.5)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" left, ")[0].rsplit(", ", 1)[0] for line in lines] == [
        "Step 3 of 12 (25%)",
        "Step 9 of 12 (75%)",
    ]
    assert all(re.search(r" left, \d\.\d\d steps/s$", line) for line in lines)


def test_orbits_reports_go_to_the_log(rows, tmp_path, capsys):
    job = make_job(rows, tmp_path / "out", steps=4, iterations_per_loop=2)
    run(job)
    log = (tmp_path / "out" / "train.log").read_text()
    assert log.count("training until step") == 2
    printed = capsys.readouterr().out
    assert "training until step" not in printed and "{" not in printed
    assert "Step 4 of 4 (100%)" in printed


def test_a_log_of_others_is_kept(rows, tmp_path):
    log = tmp_path / "train.log"
    log.write_text("12:03 a diary, of another tool\n")
    with pytest.raises(FileExistsError, match=r"train\.log is no log of a training"):
        run(make_job(rows, tmp_path, steps=2))
    assert log.read_text() == "12:03 a diary, of another tool\n"
    log.unlink()
    log.mkdir()
    with pytest.raises(FileExistsError, match=r"train\.log is no log of a training"):
        run(make_job(rows, tmp_path, steps=2))


def test_a_resumed_run_goes_on_with_its_log(rows, tmp_path):
    for steps in (2, 4):
        run(make_job(rows, tmp_path / str(steps), steps=steps))
    folder = tmp_path / "2"
    before = (folder / "train.log").read_text()
    run(make_job(rows, folder, steps=2))
    assert (folder / "train.log").read_text().startswith(before)


def test_an_evaluation_is_a_line():
    report = {"eval_rows": 40, "eval_rows_of": 408, "loss": 0.51239}
    report |= {"eval_examples_per_second": 77.0, "confusion_matrix": [[1]]}
    assert run_output.evaluation_line(1_200, report) == (
        "Evaluation at step 1,200, 40 of 408 rows: loss 0.512"
    )
