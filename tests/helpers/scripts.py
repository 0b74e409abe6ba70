"""Runs scripts as a user does."""

import subprocess
import sys

from helpers.paths import ROOT


def run_script(name, *arguments, cwd):
    """Runs a script from another folder, as a person may."""
    command = [sys.executable, str(ROOT / "run_scripts" / name), *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True)


def assert_one_line(result, code, *parts):
    lines = result.stderr.strip().splitlines()
    assert result.returncode == code, result.stderr
    assert len(lines) == 1 and lines[0].startswith("ERROR: "), result.stderr
    for part in parts:
        assert part in lines[0]
