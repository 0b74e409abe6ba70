"""Progress is drawn in a terminal, and told in lines elsewhere."""

import io
import re
import subprocess
import sys
import time

import pytest

from albert_tf import progress
from helpers.paths import ROOT


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_a_log_gets_lines_and_a_terminal_one_bar(stream, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_PER_LINE", 0.0)
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


def test_silence_is_broken(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    written = sys.stderr
    with progress.watched_output(0.2):
        time.sleep(0.9)
    assert re.fullmatch(r"(Working, 00:0\d so far\.\n)+", written.getvalue())


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_work_that_prints_is_not_interrupted(stream, monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    streams = sys.stdout, sys.stderr
    with progress.watched_output(0.5):
        for _ in range(12):
            time.sleep(0.1)
            print("line", file=getattr(sys, stream))
    assert "".join(each.getvalue() for each in streams) == 12 * "line\n"
    assert (sys.stdout, sys.stderr) == streams


def test_streams_are_given_back_after_an_error(monkeypatch):
    before = sys.stdout, sys.stderr
    with pytest.raises(KeyError), progress.watched_output():
        raise KeyError("x")
    assert (sys.stdout, sys.stderr) == before


FORKED = """
import os, sys, threading, time
from albert_tf import progress

assert progress.can_fork()
with progress.watched_output(0.01):
    assert threading.active_count() == 2 and progress.can_fork()
    for _ in range(50):
        time.sleep(0.01)
        child = os.fork()
        if not child:
            print("a child writes", file=sys.stderr, flush=True)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    other = threading.Thread(target=time.sleep, args=(1,))
    other.start()
    assert not progress.can_fork()
    other.join()
print("done")
"""


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork")
def test_a_fork_finds_no_lock_held():
    done = subprocess.run(
        [sys.executable, "-c", FORKED],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "done\n", done.stderr
    assert done.stderr.count("a child writes") == 50 and "Working" in done.stderr
