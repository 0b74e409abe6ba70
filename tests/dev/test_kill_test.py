"""The command that kills a run many times."""

import os
import re
import subprocess
import sys

import pytest

from helpers.paths import ROOT
from helpers.scripts import run_script

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.mark.slow
def test_a_run_that_is_killed_ends_as_one_that_is_not():
    script = ROOT / "run_scripts" / "kill_test.py"
    command = [sys.executable, str(script), "--kills=3", "--max_minutes=5"]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert sum("all whole; resumes from" in line for line in lines) == 3
    assert re.fullmatch(r"3 kills: [\d,]+ numbers .* to the last bit\.", lines[-1])


def test_the_kill_test_gives_up_in_time(tmp_path):
    done = run_script("kill_test.py", "--max_minutes=0.001", cwd=tmp_path)
    assert done.returncode == 1 and "--max_minutes=0.001" in done.stderr
