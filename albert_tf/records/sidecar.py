"""The on-disk contract: record files and their sidecars.

What features each kind of row has stands in `record_features.py`, whose names are this
module's too.

A record file `NAME.tfrecord` never travels alone: `NAME.tfrecord.json` beside it, the
sidecar, says how many rows it holds, their feature spec, and the vocabulary, casing,
lengths and seed that made them. The sidecar is written last, so a file that has one is
whole. On disk the released names and types stay (int64, but for the mask's weights).
"""

import dataclasses
import glob
import itertools
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from albert_tf.files import read_json
from albert_tf.records.features import Feature, Features

FORMAT_VERSION = 1
_SIDECAR_SUFFIX = ".json"
_ROWS_PER_BLOCK = 256
_SHARDED_NAME = re.compile(r"(.+)@([0-9]+)")


def sidecar_path(path: str | os.PathLike) -> Path:
    """Where the sidecar of a record file lies."""
    return Path(f"{path}{_SIDECAR_SUFFIX}")


def read_metadata(path: str | os.PathLike) -> dict[str, Any]:
    """The sidecar of a record file.

    Raises:
      FileNotFoundError: the file or its sidecar is missing.
      ValueError: the sidecar is not ours, of another format or of another file.
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
            name: _feature_of_json(name, spec)
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
    if type(value) is not int or value < 0:
        raise ValueError(f"{name} must be a whole number from 0. Received {value!r}")


def _feature_of_json(name: str, spec: Mapping[str, Any]) -> Feature:
    for size in spec["shape"]:
        if size is not None:
            _check_count(f"each size of {name}", size)
    if spec["dtype"] not in ("int64", "float32", "string"):
        raise ValueError(f"no rows have the dtype {spec['dtype']!r} of {name}")
    return Feature(tuple(spec["shape"]), spec["dtype"])


@dataclasses.dataclass(frozen=True)
class RecordSet:
    """Record files that are read together.

    Attributes:
      paths: the files.
      rows: rows in each file.
      features: the spec that all of them meet.
      metadata: the first file's sidecar; see `SHARED_KEYS` for what all agree in.
    """

    paths: tuple[str, ...]
    rows: tuple[int, ...]
    features: Features
    metadata: Mapping[str, Any]

    @property
    def total_rows(self) -> int:
        """Rows in all files."""
        return sum(self.rows)

    @property
    def varies(self) -> bool:
        """Whether rows differ in length."""
        return any(feature.varies for feature in self.features.values())

    @property
    def tokenizer_settings(self) -> dict[str, Any]:
        """The vocabulary and cleaning that made the rows."""
        return {key: self.metadata.get(key) for key in SHARED_KEYS}


# What files must agree in to be read together.
SHARED_KEYS = ("vocabulary_sha256", "vocab_size", "lower_case", "strip_accents")


def shard_paths(name: str) -> list[str]:
    """The files that a name stands for: `a@2` is `a-00000-of-00002` and its sibling.

    Raises:
      ValueError: no shard, or more than five digits can number.
    """
    match = _SHARDED_NAME.fullmatch(name)
    if not match:
        return [name]
    count = int(match[2])
    if not 1 <= count <= 99_999:
        raise ValueError(f"NAME@N stands for 1 to 99999 files. Received {name!r}.")
    return [f"{match[1]}-{index:05d}-of-{count:05d}" for index in range(count)]


def expand_paths(pattern: str) -> list[str]:
    """The record files that a comma list of paths, globs and NAME@N names, sorted.

    Raises:
      FileNotFoundError: an entry matches no file.
    """
    paths = []
    entries = filter(None, (part.strip() for part in pattern.split(",")))
    for entry in itertools.chain.from_iterable(map(shard_paths, entries)):
        named = [entry] if os.path.isfile(entry) else glob.glob(entry)
        # "data/*" means the records, not the sidecars among them.
        found = [path for path in named if not path.endswith(_SIDECAR_SUFFIX)]
        if not found:
            raise FileNotFoundError(
                f"No record file matches {entry!r}: check the path."
            )
        paths.extend(found)
    if not paths:
        raise FileNotFoundError("No record file is named: pass --input_file.")
    # One file under two names counts once.
    return sorted({os.path.realpath(path): path for path in sorted(paths)}.values())


def read_record_set(paths: Sequence[str], expected: Mapping[str, Any]) -> RecordSet:
    """Several record files as one set, checked against what is asked.

    Args:
      paths: record files; at least one.
      expected: sidecar key -> the value that the caller's settings ask for; a value of
        None is not compared.
    Raises:
      FileNotFoundError: a file or its sidecar is missing.
      ValueError: a file differs from `expected` or from the first file (both values
        are named), or the set has no rows.
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
    """A digest's beginning, which is enough to tell two; other values as they are."""
    return f"{value[:12]}…" if isinstance(value, str) and len(value) == 64 else value
