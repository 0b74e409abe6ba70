"""Random damage to files, JSON values and flags.

Each function takes a generator of random numbers, changes one thing, and returns what
it did, for the report.
"""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

_LINES = (
    b"",
    b" \t ",
    b"\xef\xbb\xbf",
    b"\x00\x00",
    b"\xff\xfe",
    b"\xe9t\xe9",
    "\u202eright to left \u200b\u00ad".encode(),
    "\ud55c\uae00 \u0915\u094d\u0937 \U0001f469\u200d\U0001f469".encode(),
    b'"an open quote',
    b"\t\t\t\t\t\t\t",
    b"x" * 300_000,
    b"e\xcc\x81" * 5_000,
    b"\r",
    b"\x1b[31m",
    b"-1e999",
    b"[[[[[[",
)
_VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1,
    0.5,
    7,
    2**31,
    2**53 + 1,
    2**63,
    2**64,
    10**30,
    1e308,
    float("nan"),
    float("inf"),
    "",
    " ",
    "x" * 100_000,
    "\u0000",
    "../../x",
    "NaN",
    [],
    [[]],
    {},
    [None],
    {"": None},
)
_FLAG_VALUES = (
    "",
    " ",
    "0",
    "-1",
    "1",
    "3",
    "0.5",
    "1.5",
    "nan",
    "inf",
    "1e999",
    "-0.0",
    "2147483648",
    "9223372036854775808",
    "true",
    "none",
    "None",
    "[]",
    "a,b",
    ",",
    "x'y",
    "$(id)",
    "../..",
    "/dev/null",
    "/proc/self/mem",
    "inputs",
    "inputs/text.txt",
    "inputs/spiece.model",
    "inputs/vocab.txt",
    "models/cola",
    "models",
    "memory://x",
    "*",
    "[",
    "\u00fc" * 300,
)


def flip_bytes(rng: np.random.Generator, path: Path) -> str:
    """Changes some bytes."""
    content = bytearray(path.read_bytes())
    if not content:
        return _write(path, b"\x7f", "one byte")
    places = rng.integers(0, len(content), rng.integers(1, 6))
    for place in places:
        content[place] ^= int(rng.integers(1, 256))
    return _write(path, bytes(content), f"bytes changed at {places.tolist()}")


def cut(rng: np.random.Generator, path: Path) -> str:
    """Drops the end."""
    size = path.stat().st_size
    kept = int(rng.integers(0, max(size, 1)))
    return _write(path, path.read_bytes()[:kept], f"cut to {kept} of {size} bytes")


def append(rng: np.random.Generator, path: Path) -> str:
    """Appends random bytes."""
    more = rng.integers(0, 256, rng.integers(1, 40), np.uint8).tobytes()
    return _write(path, path.read_bytes() + more, f"{len(more)} bytes appended")


def repeat_block(rng: np.random.Generator, path: Path) -> str:
    """Doubles a stretch of bytes."""
    content = path.read_bytes()
    start = int(rng.integers(0, len(content) + 1))
    end = int(rng.integers(start, len(content) + 1))
    content = content[:end] + content[start:end] + content[end:]
    return _write(path, content, f"bytes {start} to {end} doubled")


def zero_block(rng: np.random.Generator, path: Path) -> str:
    """Sets a stretch of bytes to 0."""
    content = bytearray(path.read_bytes())
    start = int(rng.integers(0, len(content) + 1))
    end = min(len(content), start + int(rng.integers(1, 200)))
    content[start:end] = bytes(end - start)
    return _write(path, bytes(content), f"bytes {start} to {end} are 0")


def change_lines(rng: np.random.Generator, path: Path) -> str:
    """Drops, doubles, swaps or inserts a line, or changes the line ends."""
    lines = path.read_bytes().split(b"\n")
    place = int(rng.integers(len(lines)))
    other = int(rng.integers(len(lines)))
    action = int(rng.integers(6))
    if action == 0:
        del lines[place]
        return _write(path, b"\n".join(lines), f"line {place} dropped")
    if action == 1:
        lines.insert(place, lines[place])
        return _write(path, b"\n".join(lines), f"line {place} doubled")
    if action == 2:
        lines[place], lines[other] = lines[other], lines[place]
        return _write(path, b"\n".join(lines), f"lines {place} and {other} swapped")
    if action == 3:
        return _write(path, b"\r\n".join(lines), "line ends are CRLF")
    odd = _LINES[rng.integers(len(_LINES))]
    if action == 4:
        lines.insert(place, odd)
        return _write(path, b"\n".join(lines), f"line {odd[:20]!r} at {place}")
    middle = int(rng.integers(len(lines[place]) + 1))
    lines[place] = lines[place][:middle] + odd + lines[place][middle:]
    return _write(path, b"\n".join(lines), f"{odd[:20]!r} inside line {place}")


def change_json(rng: np.random.Generator, path: Path) -> str:
    """Replaces, drops, renames or doubles a value of a JSON file."""
    try:
        root = json.loads(path.read_text("utf-8"))
    except ValueError:
        return flip_bytes(rng, path)
    if not isinstance(root, dict | list) or not root:
        return flip_bytes(rng, path)
    holder: Any = root
    where = ""
    while True:
        keys = [*holder] if isinstance(holder, dict) else [*range(len(holder))]
        key = keys[rng.integers(len(keys))]
        where += f"/{key}"
        below = holder[key]
        if not isinstance(below, dict | list) or not below or rng.random() < 0.15:
            break
        holder = below
    action = int(rng.integers(4))
    if action == 0:
        del holder[key]
        what = f"{where} dropped"
    elif action == 1 and isinstance(holder, dict):
        holder[f"{key}s"] = holder.pop(key)
        what = f"{where} renamed"
    elif action == 2 and isinstance(holder, list):
        holder.append(holder[key])
        what = f"{where} doubled"
    else:
        holder[key] = _VALUES[rng.integers(len(_VALUES))]
        what = f"{where} = {str(holder[key])[:30]!r}"
    return _write(path, json.dumps(root).encode("utf-8", "surrogatepass"), what)


def nest_json(rng: np.random.Generator, path: Path) -> str:
    """Wraps a JSON value in very many lists."""
    depth = int(rng.choice([50, 2_000, 200_000]))
    content = b"[" * depth + path.read_bytes() + b"]" * depth
    return _write(path, content, f"inside {depth} lists")


def empty(rng: np.random.Generator, path: Path) -> str:
    """Empties the file."""
    return _write(path, b"", "empty")


def remove(rng: np.random.Generator, path: Path) -> str:
    """Removes the file."""
    path.unlink()
    return "removed"


def make_folder(rng: np.random.Generator, path: Path) -> str:
    """Puts an empty folder in the file's place."""
    path.unlink()
    path.mkdir()
    return "a folder in its place"


def link_to_itself(rng: np.random.Generator, path: Path) -> str:
    """Puts a link to itself in the file's place."""
    path.unlink()
    path.symlink_to(path.name)
    return "a link to itself in its place"


def replace_by_other(rng: np.random.Generator, path: Path) -> str:
    """Puts another input in the file's place."""
    root = next(folder for folder in path.parents if folder.name in _ROOTS).parent
    others = sorted(
        file
        for name in _ROOTS
        for file in (root / name).rglob("*")
        if file.is_file() and file != path
    )
    other = others[rng.integers(len(others))]
    shutil.copyfile(other, path)
    return f"replaced by {other.relative_to(root)}"


_ROOTS = ("inputs", "models", "out")
_ANY_FILE: tuple[Callable[[np.random.Generator, Path], str], ...] = (
    flip_bytes,
    cut,
    append,
    repeat_block,
    zero_block,
    empty,
    remove,
    make_folder,
    link_to_itself,
    replace_by_other,
)


def damage_file(rng: np.random.Generator, path: Path) -> str:
    """Damages a file in a way that fits its kind."""
    kinds = list(_ANY_FILE)
    if path.suffix == ".json":
        kinds += [change_json] * 12 + [nest_json]
    if path.suffix in (".txt", ".tsv", ".csv", ".json", ".jsonl", ".vocab", ""):
        kinds += [change_lines] * 10
    return kinds[rng.integers(len(kinds))](rng, path)


def change_flags(
    rng: np.random.Generator, command: list[str], others: list[str]
) -> tuple[list[str], str]:
    """Changes, drops, doubles or adds a flag of a command.

    Args:
      command: the script and its flags.
      others: flags of other commands.
    Returns:
      The new command, and what was done.
    """
    command = list(command)
    place = int(rng.integers(1, len(command)))
    name = command[place].split("=")[0]
    action = int(rng.integers(8))
    if action == 0:
        del command[place]
        return command, f"without {name}"
    if action == 1:
        other = others[rng.integers(len(others))]
        return [*command, other], f"with {other}"
    value = _FLAG_VALUES[rng.integers(len(_FLAG_VALUES))]
    command[place] = f"{name}={value}"
    return command, f"{name}={value[:40]!r}"


def odd_name(rng: np.random.Generator, path: Path) -> Path:
    """Gives a file an odd name; returns its new path."""
    odd = [
        b"a b",
        b"it's",
        b"\xff\xfe",
        "\u00fc\u4e2d".encode(),
        b"-x",
        b"%d{}",
        b"a,b",
    ]
    odd += [b"[x]", b"x*", b"new\nline", b"#", b"$HOME"]
    name = os.fsdecode(odd[rng.integers(len(odd))]) + path.suffix
    return path.rename(path.with_name(name))


def _write(path: Path, content: bytes, what: str) -> str:
    path.write_bytes(content)
    return what
