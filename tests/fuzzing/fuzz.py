"""Runs commands on damaged inputs and reports those that end badly.

    PYTHONPATH=tests python -m fuzzing.fuzz [--cases=2000] [--seed=1] [--only=CASE]

Commands and inputs are those of `tests/previous_version`. A case damages a file that a
command reads, gives it an odd name, or changes a flag. A command must end with exit
code 0, or with 1 or 2 and one line that starts with ERROR and names a file or a flag.
It is reported as

    bad      a traceback, another exit code, a signal, no end within the time limit, too
             much memory, more than one line or a long one, an input that changed, a
             partial file left behind, or a JSON file that is not strict JSON
    vague    an error that names neither a file nor a flag
    silent   exit code 0 although a binary file was damaged

The last two are for people to look at. The exit code is 1 if a case is bad.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import importlib
import json
import multiprocessing
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fuzzing import mutations
from previous_version import commands, runner

_FOLDER = Path(runner.__file__).parent
_SECONDS, _BYTES = 120, 4 << 30
_LONGEST_LINE = 1_100
_BINARY = (".model", ".tfrecord", ".index", ".data-00000-of-00001", ".pb")
# Fewest steps that train; later flags replace earlier ones.
_FAST = ["--num_train_steps=2", "--save_checkpoints_steps=2", "--iterations_per_loop=2"]
_ERROR = re.compile(r"ERROR: .+")


class Case(NamedTuple):
    """A command on damaged inputs, and how it ended."""

    number: int
    damage: str
    command: list[str]
    verdict: str
    reason: str
    seconds: float


def all_commands() -> dict[str, list[str]]:
    """Returns the commands that are tried, by name."""
    trained = {
        name: [*command, *_FAST]
        for name, command in (commands.TRAIN | commands.RESUMED).items()
    }
    vocabulary = [
        "train_sentencepiece.py",
        "--input_file=inputs/text.txt",
        "--model_prefix=out/vocabulary/spiece",
        "--vocab_size=200",
    ]
    inspected = [
        "inspect_records.py",
        "inputs/records/rows.tfrecord",
        "--vocabulary=inputs/spiece.model",
    ]
    return {
        **commands.RECORDS,
        **trained,
        **commands.PREDICTED,
        **commands.ASKED,
        **commands.EXPORTED,
        **commands.CONVERTED,
        "vocabulary": vocabulary,
        "inspected": inspected,
    }


def run_case(number: int, seed: int, keep: Path | None = None) -> Case:
    """Damages a copy of the inputs and runs one command on it.

    Args:
      number: of the case; with the seed it determines everything.
      seed: of the whole run.
      keep: new folder to run in; default: a temporary one.
    """
    rng = np.random.default_rng([seed, number])
    known = all_commands()
    names = list(known)
    command = list(known[names[rng.integers(len(names))]])
    others = [flag for other in known.values() for flag in other[1:]]
    with contextlib.ExitStack() as stack:
        work = keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for name in ("inputs", "models"):
            shutil.copytree(_FOLDER / name, work / name)
        shutil.copytree(_FOLDER / "stopped", work / "out")
        command, damage = _damage(rng, command, others, work)
        before = _fingerprint(work)
        began = time.monotonic()
        code, errors, peak = _run(command, work)
        seconds = time.monotonic() - began
        verdict, reason = _judge(code, errors, peak, damage, work, before)
    return Case(number, damage, command, verdict, reason, seconds)


def _damage(rng, command, others, work) -> tuple[list[str], str]:
    files = sorted(path for path in _read_by(command, work) if path.is_file())
    choice = rng.random()
    if choice < 0.25 or not files:
        return mutations.change_flags(rng, command, others)
    path = files[rng.integers(len(files))]
    shown = str(path.relative_to(work))
    if choice < 0.3:
        new = mutations.odd_name(rng, path).relative_to(work)
        command = [each.replace(shown, str(new)) for each in command]
        return command, f"{shown} is named {str(new)!a}"
    return command, f"{shown}: {mutations.damage_file(rng, path)}"


def _read_by(command, work) -> list[Path]:
    """The files that the flags of a command name, and those in folders they name."""
    found = []
    for flag in command[1:]:
        path = work / (flag.partition("=")[2] if flag.startswith("--") else flag)
        if path == work:
            continue
        if path.suffix == ".tfrecord":
            found.append(path.with_name(f"{path.name}.json"))
        found += [path, *(path.rglob("*") if path.is_dir() else ())]
    return found


def _fingerprint(work: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for name in ("inputs", "models")
        for path in sorted((work / name).rglob("*"))
        if path.is_file()
    }


def _run(command: list[str], work: Path) -> tuple[int | None, str, int]:
    """Runs a command; returns exit code (None: no end), error output, peak bytes."""
    errors = work / "errors"
    process = os.fork()
    if not process:
        os.setsid()
        # Whatever a script tries to take must fail in its own process.
        resource.setrlimit(resource.RLIMIT_AS, (6 * _BYTES, 6 * _BYTES))
        resource.setrlimit(resource.RLIMIT_FSIZE, (_BYTES, _BYTES))
        os.chdir(work)
        runner.become(command, work / "output", errors)
    deadline = time.monotonic() + _SECONDS
    while True:
        ended, status, usage = os.wait4(process, os.WNOHANG)
        if ended:
            break
        if time.monotonic() > deadline:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process, signal.SIGKILL)
            os.wait4(process, 0)
            return None, "", 0
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    text = errors.read_bytes().decode("utf-8", "replace")
    return os.waitstatus_to_exitcode(status), text, usage.ru_maxrss << 10


def _judge(code, errors, peak, damage, work, before) -> tuple[str, str]:
    if code is None:
        return "bad", f"no end within {_SECONDS} s"
    last = errors.strip().splitlines()[-1:] or [""]
    if code not in (0, 1, 2):
        return "bad", f"exit code {code}: {last[0][:300]}"
    if "Traceback" in errors:
        return "bad", f"traceback: {last[0][:300]}"
    if peak > _BYTES:
        return "bad", f"{peak >> 20} MiB of memory"
    after = _fingerprint(work)
    if any(after.get(path) != content for path, content in before.items()):
        return "bad", "an input has changed"
    left = [path for path in (work / "out").rglob(".*.partial")]
    if left:
        return "bad", f"left behind: {left[0].relative_to(work)}"
    for path in (work / "out").rglob("*.json"):
        if damage.startswith(f"{path.relative_to(work)}:"):
            continue
        reason = _strict_json(path)
        if reason:
            return "bad", f"{path.relative_to(work)}: {reason}"
    if code == 0:
        silent = damage.split(":")[0].endswith(_BINARY) and "is named" not in damage
        return ("silent" if silent else "good"), "exit code 0"
    lines = [line for line in errors.splitlines() if line.startswith("ERROR")]
    if len(lines) != 1 or not _ERROR.fullmatch(lines[0]) or lines[0] != last[0]:
        return "bad", f"{len(lines)} ERROR lines: {errors[-300:]!r}"
    if len(lines[0]) > _LONGEST_LINE:
        return "bad", f"a line of {len(lines[0])} characters"
    names = re.search(r"--\w|inputs|models|out/|\.json|\.txt|\.model", lines[0])
    return ("good" if names else "vague"), lines[0]


def _strict_json(path: Path) -> str:
    """The reason why a file is not strict JSON; empty: it is."""

    def refuse(name):
        raise ValueError(f"holds {name}")

    if not path.is_file():
        return ""
    try:
        json.loads(path.read_text("utf-8"), parse_constant=refuse)
    except RecursionError:
        return ""
    except ValueError as error:
        return str(error)
    return ""


def main() -> int:
    """Runs the cases; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=int, default=2000, help="number of cases")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=1, help="of all cases")
    parser.add_argument("--only", type=int, help="run one case and keep its folder")
    parser.add_argument("--report", help="file for all cases, a JSON object a line")
    options = parser.parse_args()
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    os.environ["PYTHONPATH"] = str(runner.ROOT)
    sys.path.insert(0, str(runner.ROOT))
    for name in runner.LIBRARIES:
        importlib.import_module(name)
    if options.only is not None:
        work = Path(tempfile.mkdtemp())
        case = run_case(options.only, options.seed, work)
        print(f"{case}\n{(work / 'errors').read_text()}\n{work}")
        return int(case.verdict == "bad")
    numbers = range(options.first, options.first + options.cases)
    counts: collections.Counter = collections.Counter()
    # Processes that may have children, as data creation has.
    pool = concurrent.futures.ProcessPoolExecutor(
        2, multiprocessing.get_context("fork")
    )
    with contextlib.ExitStack() as stack:
        stack.enter_context(pool)
        report = stack.enter_context(open(options.report or os.devnull, "w"))
        waiting = [pool.submit(run_case, number, options.seed) for number in numbers]
        for future in concurrent.futures.as_completed(waiting):
            case = future.result()
            counts[case.verdict] += 1
            report.write(json.dumps(case._asdict()) + "\n")
            report.flush()
            if case.verdict != "good":
                command = " ".join(case.command)
                print(f"{case.verdict} {case.number}: {case.damage}", flush=True)
                print(f"    {case.reason}\n    {command}", flush=True)
    print(f"seed {options.seed}: {dict(counts)}")
    return int(counts["bad"] > 0)


if __name__ == "__main__":
    sys.exit(main())
