"""Sidecars: the JSON file next to each record file that says what it holds.

`NAME.tfrecord.json` has the number of rows of `NAME.tfrecord`, their features, and the
vocabulary, casing, lengths and seed that made them. It is written last, so a record
file that has a sidecar is complete.
"""

import dataclasses
import glob
import itertools
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from albert_tf.files import check_local, read_json
from albert_tf.records.features import Feature, Features

FORMAT_VERSION = 1
_SIDECAR_SUFFIX = ".json"
_SHARDED_NAME = re.compile(r"(.+)@([0-9]+)")


def sidecar_path(path: str | os.PathLike[str]) -> Path:
    """Returns the path of a record file's sidecar."""
    return Path(f"{path}{_SIDECAR_SUFFIX}")


def read_metadata(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads the sidecar of a record file, its features as `Feature` values.

    Raises:
      FileNotFoundError: the file or its sidecar is missing.
      ValueError: the sidecar is damaged, of another format or of another file.
    """
    sidecar = sidecar_path(path)
    for needed in (Path(path), sidecar):
        if not needed.is_file():
            raise FileNotFoundError(
                f"{needed} is missing: make the records again with "
                "run_scripts/create_pretraining_data.py, or copy the file and its "
                "sidecar together."
            )
    try:
        metadata = read_json(sidecar)
        version = metadata["format_version"]
        _check_count("rows", metadata["rows"])
        _check_count("bytes", metadata.get("bytes", 0))
        metadata["features"] = {
            name: _feature_from_json(name, spec)
            for name, spec in metadata["features"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{sidecar} is not a record sidecar ({error!r}): copy it again, or make "
            "the records again."
        ) from error
    if version != FORMAT_VERSION:
        raise ValueError(
            f"{sidecar} has format_version {version}, this release reads "
            f"{FORMAT_VERSION}: make the records again."
        )
    size = os.path.getsize(path)
    if size != metadata.get("bytes", size):
        raise ValueError(
            f"{path} has {size:,} bytes, but its sidecar says {metadata['bytes']:,}: "
            "copy both again, or remove both and make the records again."
        )
    return metadata


def _check_count(name: str, value: Any) -> None:
    """Raises ValueError unless a value is a whole number that is not negative."""
    if type(value) is not int or value < 0:
        raise ValueError(f"{name} must be a whole number from 0. Received {value!r}")


def _feature_from_json(name: str, spec: Mapping[str, Any]) -> Feature:
    """Reads one entry of a sidecar's `features`."""
    for size in spec["shape"]:
        if size is not None:
            _check_count(f"each size of {name}", size)
    if spec["dtype"] not in ("int64", "float32", "string"):
        raise ValueError(f"no rows have the dtype {spec['dtype']!r} of {name}")
    return Feature(tuple(spec["shape"]), spec["dtype"])


@dataclasses.dataclass(frozen=True)
class RecordSet:
    """Record files that are read together, as one data set or split.

    Attributes:
      paths: the files.
      rows: number of rows in each file.
      features: the spec that the rows of all files meet.
      metadata: the first file's sidecar; all files agree in `SHARED_KEYS`.
    """

    paths: tuple[str, ...]
    rows: tuple[int, ...]
    features: Features
    metadata: Mapping[str, Any]

    @property
    def total_rows(self) -> int:
        """Number of rows in all files."""
        return sum(self.rows)

    @property
    def varies(self) -> bool:
        """True if rows differ in length."""
        return any(feature.varies for feature in self.features.values())

    @property
    def tokenizer_settings(self) -> dict[str, Any]:
        """The vocabulary and the text cleaning that made the rows."""
        return {key: self.metadata.get(key) for key in SHARED_KEYS}


# Keys that files must agree in to be read together.
SHARED_KEYS = ("vocabulary_sha256", "vocab_size", "lower_case", "strip_accents")


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
        check_local(entry)
        named = [entry] if os.path.isfile(entry) else glob.glob(entry)
        # "data/*" stands for the records, not for the sidecars among them.
        records = [path for path in named if not path.endswith(_SIDECAR_SUFFIX)]
        if not records:
            raise FileNotFoundError(
                f"No record file matches {entry!r}: check the path."
            )
        paths.extend(records)
    if not paths:
        raise FileNotFoundError("No record file is named: pass --input_file.")
    return sorted({os.path.realpath(path): path for path in sorted(paths)}.values())


def read_record_set(paths: Sequence[str], expected: Mapping[str, Any]) -> RecordSet:
    """Joins record files into one set, after checking them.

    Args:
      paths: record files; at least one.
      expected: sidecar key -> the value that the caller's configuration asks for; a
        value of None is not compared.
    Raises:
      FileNotFoundError: a file or its sidecar is missing.
      ValueError: a file differs from `expected` or from the first file (the message has
        both values), or the files have no rows.
    """
    sidecars = [read_metadata(path) for path in paths]
    first = sidecars[0]
    for path, sidecar in zip(paths, sidecars, strict=True):
        for key, wanted in expected.items():
            if wanted is not None and sidecar.get(key) != wanted:
                raise ValueError(
                    f"{path} was made with {key}={_short(sidecar.get(key))}, but "
                    f"{key}={_short(wanted)} is asked for: change the setting or make "
                    "the records again."
                )
        for key in ("features", *SHARED_KEYS):
            if sidecar.get(key) != first.get(key):
                raise ValueError(
                    f"{path} and {paths[0]} differ in {key} ({sidecar.get(key)} and "
                    f"{first.get(key)}): read only files that were made together."
                )
    rows = tuple(sidecar["rows"] for sidecar in sidecars)
    if not sum(rows):
        raise ValueError(f"{paths[0]} and its set hold no rows: make them again.")
    return RecordSet(tuple(map(str, paths)), rows, first["features"], first)


def _short(value: Any) -> Any:
    """Shortens a digest for a message; returns other values unchanged."""
    return f"{value[:12]}…" if isinstance(value, str) and len(value) == 64 else value
