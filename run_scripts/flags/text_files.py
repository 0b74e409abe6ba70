"""Texts that a flag names: a file, or standard input."""

import sys

from albert_tf.storage import as_path


def read_text(flag: str, name: str) -> str:
    """Reads a file of text.

    Args:
      flag: the flag that names it, for messages.
      name: the file; "-": standard input.
    Raises:
      ValueError: it cannot be read, or is not UTF-8.
    """
    if name == "-":
        return sys.stdin.read()
    try:
        return as_path(name).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{name} is not UTF-8 text.") from None
    except OSError as error:
        raise ValueError(
            f"--{flag}={name} cannot be read: {error.strerror or error}."
        ) from None
