"""Runs scripts as a user does: in this process, or in one of their own."""

import contextlib
import io
import os
import re
import runpy
import subprocess
import sys
import traceback

from absl import app, flags, logging

from helpers.paths import SCRIPTS

_SIGNS_OF_LIFE = re.compile(r"^Working, [\d:]+ so far\.\n", re.MULTILINE)
# Defined once in a process, when a script first runs or a library is imported.
_KEPT_MODULES = ("absl.app", "absl.logging")


def run_script(name, *arguments, cwd) -> subprocess.CompletedProcess:
    """Runs a script in this process, which spares it the start of TensorFlow.

    Args:
      name: file below run_scripts.
      *arguments: of the command line.
      cwd: working directory.
    Returns:
      Exit code, standard output and standard error.
    """
    command = [str(SCRIPTS / name), *map(str, arguments)]
    output, errors = io.StringIO(), io.StringIO()
    code = 0
    with (
        contextlib.chdir(cwd),
        _fresh_command_line(command),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(errors),
    ):
        try:
            runpy.run_path(command[0], run_name="__main__")
        except SystemExit as stopped:
            code = stopped.code or 0
        except BaseException:
            traceback.print_exc()
            code = 1
    # A machine with much to do breaks the silence of any command.
    told = _SIGNS_OF_LIFE.sub("", errors.getvalue())
    return subprocess.CompletedProcess(command, code, output.getvalue(), told)


def start_script(name, *arguments, cwd) -> subprocess.CompletedProcess:
    """Runs a script in a process of its own; arguments as `run_script`."""
    command = [sys.executable, str(SCRIPTS / name), *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True)


def plain_environment() -> dict[str, str]:
    """The environment without a variable that other libraries set in this process.

    With it TensorFlow loads `tf_keras`.
    """
    return {k: v for k, v in os.environ.items() if k != "TF_USE_LEGACY_KERAS"}


def succeed(name, *arguments, cwd) -> str:
    """The standard output of `run_script`, which must end well."""
    done = run_script(name, *arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def assert_one_line(result, code, *parts):
    lines = result.stderr.strip().splitlines()
    assert result.returncode == code, result.stderr
    assert len(lines) == 1 and lines[0].startswith("ERROR: "), result.stderr
    for part in parts:
        assert part in lines[0]


@contextlib.contextmanager
def _fresh_command_line(command):
    """Gives a script its arguments and no flags of scripts before it."""
    # absl reads flags such as --only_check_args in the first run of a process alone.
    app._run_init.done = app._register_and_parse_flags_with_usage.done = False
    arguments, verbosity = sys.argv, logging.get_verbosity()
    known = set(flags.FLAGS)
    sys.argv = command
    try:
        yield
    finally:
        sys.argv = arguments
        logging.set_verbosity(verbosity)
        by_module = flags.FLAGS.flags_by_module_dict()
        kept = {flag.name for name in _KEPT_MODULES for flag in by_module.get(name, ())}
        for name in set(flags.FLAGS) - known - kept:
            with contextlib.suppress(AttributeError):
                delattr(flags.FLAGS, name)
        flags.FLAGS.unparse_flags()
        for name in flags.FLAGS:
            flags.FLAGS[name].unparse()
