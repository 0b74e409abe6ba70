"""Commands of `run_scripts/` that `make.py` and the test run, and how they run.

Each command gets a process of its own, forked from one that has imported TensorFlow:
flags are global in a process, and TensorFlow takes seconds to import.
"""

import contextlib
import importlib
import json
import os
import runpy
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = (
    "tensorflow",
    "tf_keras",
    "tensorflow_text",
    "orbit",
    "official.common.distribute_utils",
    "official.nlp.modeling.networks",
    "tensorflow_serving.apis.prediction_log_pb2",
    "sklearn.metrics",
    "scipy.stats",
)
_AT_ONCE = 2


class Done(NamedTuple):
    """The exit code and output of a command."""

    code: int
    out: str
    err: str


class Runner:
    """Runs commands, two at a time; to be used in a `with` statement."""

    def __enter__(self):
        environment = os.environ | {
            "PYTHONPATH": str(ROOT),
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *_):
        self._process.communicate()

    def run(self, folder: Path, commands: list[list[str]]) -> list[Done]:
        """Runs commands in a folder.

        Args:
          folder: what their relative paths start from.
          commands: a script's name and its flags, each.
        Returns:
          What each of them left, in their order.
        """
        line = json.dumps([str(folder), commands])
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return [Done(*values) for values in json.loads(self._process.stdout.readline())]


def _serve() -> None:
    """Answers lists of commands, a line each."""
    for name in LIBRARIES:
        importlib.import_module(name)
    for line in sys.stdin:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(_run_all(*json.loads(line), Path(folder))), flush=True)


def _run_all(cwd: str, commands: list, folder: Path) -> list[tuple]:
    codes, running = {}, {}
    for number, each in enumerate(commands):
        if len(running) == _AT_ONCE:
            _wait(running, codes)
        process = os.fork()
        if not process:
            os.chdir(cwd)
            become(each, folder / f"{number}.out", folder / f"{number}.err")
        running[process] = number
    while running:
        _wait(running, codes)
    return [
        (
            codes[number],
            (folder / f"{number}.out").read_text(),
            (folder / f"{number}.err").read_text(),
        )
        for number in range(len(commands))
    ]


def _wait(running: dict, codes: dict) -> None:
    process, status = os.wait()
    codes[running.pop(process)] = os.waitstatus_to_exitcode(status)


def become(each: list[str], out: Path, err: Path) -> None:
    """Runs a command as `python SCRIPT FLAGS` would, and ends the process."""
    script, *flags = each
    path = str(ROOT / "run_scripts" / script)
    for number, name in enumerate((os.devnull, out, err)):
        mode = os.O_RDWR | os.O_CREAT
        os.dup2(os.open(name, mode, 0o644), number)
    sys.argv = [path, *flags]
    sys.path[0] = os.path.dirname(path)
    code = 0
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
        code = 1
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _serve()
