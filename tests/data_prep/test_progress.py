"""Progress is drawn in a terminal, and told in lines elsewhere."""

import io
import sys

import pytest

from data_prep import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_a_log_gets_lines_and_a_terminal_one_bar(stream, monkeypatch):
    monkeypatch.setattr(progress, "_SECONDS_PER_LINE", 0.0)
    monkeypatch.setattr(sys, "stderr", stream())
    with progress.progress_bar(4_000, "B", "text") as bar:
        for _ in range(4):
            bar.update(1_000)
    written = sys.stderr.getvalue()
    assert "text: " in written and "100" in written
    if stream is Terminal:
        assert "\r" in written
    else:
        assert "\r" not in written
        lines = written.splitlines()
        assert lines[-1].startswith("text: 100 %, 4.00k of 4.00k B, 00:00 so far")


def test_work_of_a_moment_leaves_no_line(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress.progress_bar(3, "row", "rows") as bar:
        bar.update(3)
    assert sys.stderr.getvalue() == ""
