"""Runs a script: parses its flags, prints its help, reports errors in one line."""

import contextlib
import logging as python_logging
import os
import re
import sys
from collections.abc import Callable

from absl import app, flags, logging

from albert_tf.progress import watched_output
from albert_tf.storage import is_storage_error
from flags.error_text import describe
from flags.help import script_help
from flags.paths import PATH_FLAGS, check_paths
from flags.standard_input import standard_input_as_file

FLAGS = flags.FLAGS

# The exit code of a command that a signal of a closed pipe ends.
_SIGPIPE = 141
# `--help` in the forms that absl knows.
_HELP = frozenset({"--help", "-help", "--helpshort", "-helpshort", "-h", "-?"})

# TensorFlow's start-up notes hide a script's own lines; its errors are exceptions.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Megabytes that TensorFlow reads ahead of each file of gs:// that is open, of which
# training has up to 256; its default is 64.
os.environ.setdefault("GCS_READ_CACHE_BLOCK_SIZE_MB", "4")


def run(main: Callable, words: str = "", texts: str = "", watched: bool = True) -> None:
    """Parses the command line, calls `main`, and reports errors in one line.

    Exit codes: 0 done, 1 a wrong value or file, 2 a wrong flag, 130 interrupted,
    141 the reader of the output has gone.
    `--verbosity=1` shows the traceback as well.

    Args:
      main: a function that reads `FLAGS`. It takes no argument, or the list of words.
      words: names of the arguments that are no flags, for the usage line; at least one
        is required. They are paths. Empty: there are none.
      texts: the same of arguments that are no paths, and may be missing.
      watched: True: a line is printed when nothing else was for long; False for a
        script whose output is that of scripts that it starts.
    """

    def parse(arguments):
        if _HELP & set(arguments[1:]):
            try:
                print(script_help(sys.modules["__main__"].__doc__ or "", FLAGS))
                sys.stdout.flush()
            except BrokenPipeError:  # of a reader such as `head`
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(0)
        try:
            _check_utf8(arguments)
            return FLAGS(arguments)
        except flags.Error as error:
            missing = re.findall(r"Flag (--\w+) must have a value", str(error))
            _print_error(f"Pass {' and '.join(missing)}." if missing else str(error))
            sys.exit(2)
        except ValueError as error:  # of absl, about --noNAME=VALUE
            _print_error(str(error))
            sys.exit(2)

    def guarded(arguments):
        try:
            if words and len(arguments) < 2:
                raise flags.Error(f"Usage: {os.path.basename(arguments[0])} {words}")
            if len(arguments) > 1 and not words and not texts:
                raise flags.Error(f"Unknown argument {arguments[1]!r}: flags start --.")
            _set_verbosity()
            _check_paths(arguments[1:] if words else [])
            with contextlib.ExitStack() as stack:
                if watched:
                    stack.enter_context(watched_output())
                stack.enter_context(standard_input_as_file(FLAGS))
                main(arguments[1:]) if words or texts else main()
                sys.stdout.flush()
        except flags.Error as error:
            _print_error(str(error))
            sys.exit(2)
        except KeyboardInterrupt:
            print("Interrupted.", file=sys.stderr)
            sys.exit(130)
        except BrokenPipeError:  # of a reader such as `head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(_SIGPIPE)
        except Exception as error:
            if not isinstance(error, _expected_errors()) and not is_storage_error(
                error
            ):
                raise
            _print_error(error)
            if logging.level_debug():
                raise
            sys.exit(1)

    app.run(guarded, flags_parser=parse)


def _set_verbosity() -> None:
    """Hides what libraries report, unless `--verbosity` is given."""
    if FLAGS["verbosity"].present:
        if logging.get_verbosity() > logging.WARNING:
            del os.environ["TF_CPP_MIN_LOG_LEVEL"]
        return
    # Libraries report each of their steps; a script's own lines are prints.
    logging.set_verbosity(logging.WARNING)
    # That a graph is made again for another length of rows, for one.
    python_logging.getLogger("tensorflow").setLevel(python_logging.ERROR)


def _check_paths(words: list[str]) -> None:
    names = (*PATH_FLAGS, "do_train", "shard_range")
    check_paths({n: FLAGS[n].value for n in names if n in FLAGS}, words)


def _check_utf8(arguments: list[str]) -> None:
    """Raises flags.Error unless arguments are UTF-8, as TensorFlow and JSON need it."""
    for argument in arguments[1:]:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise flags.Error(
                f"Arguments must be UTF-8. Received {argument!r}: rename the file or "
                "folder, or type it anew."
            ) from None


def _expected_errors() -> tuple[type[Exception], ...]:
    """Errors that are about values and files, not about the code."""
    tensorflow = sys.modules.get("tensorflow")
    # Sizes that no machine can hold raise the last three.
    return (
        ValueError,
        OSError,
        MemoryError,
        RecursionError,
        OverflowError,
        *([tensorflow.errors.OpError] if tensorflow else []),
    )


def _print_error(error: Exception | str) -> None:
    """Prints an error in one line; see `error_text.describe`."""
    line = describe(error).encode("utf-8", "backslashreplace").decode()
    print(f"ERROR: {line}", file=sys.stderr)
