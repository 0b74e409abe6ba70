"""Names of record files: paths, globs and NAME@N, as the files that they stand for."""

import itertools
import re

from albert_tf.records.sidecar import SIDECAR_SUFFIX
from albert_tf.storage import as_path, find, resolve

_SHARDED_NAME = re.compile(r"(.+)@([0-9]+)")


def shard_paths(name: str) -> list[str]:
    """Returns the files that a name stands for.

    `a@2` stands for `a-00000-of-00002` and `a-00001-of-00002`.

    Raises:
      ValueError: the number is 0, or has more than five digits.
    """
    match = _SHARDED_NAME.fullmatch(name)
    if not match:
        return [name]
    count = int(match[2])
    if not 1 <= count <= 99_999:
        raise ValueError(f"NAME@N stands for 1 to 99999 files. Received {name!r}.")
    return [f"{match[1]}-{index:05d}-of-{count:05d}" for index in range(count)]


def expand_paths(pattern: str) -> list[str]:
    """Finds the record files of a comma-separated list of paths, globs and NAME@N.

    Returns:
      The paths, sorted; a file with two names is listed once.
    Raises:
      FileNotFoundError: an entry matches no file.
    """
    paths = []
    entries = filter(None, (part.strip() for part in pattern.split(",")))
    for entry in itertools.chain.from_iterable(map(shard_paths, entries)):
        named = [entry] if as_path(entry).is_file() else find(entry)
        # "data/*" stands for the records, not for the sidecars among them.
        records = [path for path in named if not path.endswith(SIDECAR_SUFFIX)]
        if not records:
            raise FileNotFoundError(
                f"No record file matches {entry!r}: check the path."
            )
        paths.extend(records)
    if not paths:
        raise FileNotFoundError("No record file is named: pass --input_file.")
    return sorted({str(resolve(path)): path for path in sorted(paths)}.values())
