"""The on-disk contract: record files and their sidecars.

What features each kind of row has stands in `record_features.py`, whose names are this
module's too.

A record file `NAME.tfrecord` never travels alone: `NAME.tfrecord.json` beside it, the
sidecar, says how many rows it holds, their feature spec, and the vocabulary, casing,
lengths and seed that made them. The sidecar is written last, so a file that has one is
whole. On disk the released names and types stay (int64, but for the mask's weights).
"""

import contextlib
import dataclasses
import glob
import hashlib
import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from albert_tf import record_bytes
from albert_tf.record_features import Feature as Feature
from albert_tf.record_features import Features as Features
from albert_tf.record_features import choice_features as choice_features
from albert_tf.record_features import classifier_features as classifier_features
from albert_tf.record_features import pretraining_features as pretraining_features
from albert_tf.record_features import squad_features as squad_features

FORMAT_VERSION = 1
_SIDECAR_SUFFIX = ".json"
_ROWS_PER_BLOCK = 256
_SHARDED_NAME = re.compile(r"(.+)@([0-9]+)")


def sidecar_path(path: str | os.PathLike) -> Path:
    """Where the sidecar of a record file lies."""
    return Path(f"{path}{_SIDECAR_SUFFIX}")


def write_records(
    path: str | os.PathLike,
    rows: Iterable[Mapping[str, Sequence]],
    features: Features,
    metadata: Mapping[str, Any],
) -> int:
    """Writes rows and then their sidecar; neither appears under its name before whole.

    Args:
      path: the record file; its folder is made if missing.
      rows: mappings from every feature's name to its values: arrays or lists, lists of
        lists, or bytes.
      features: the spec that every row must meet.
      metadata: JSON values kept in the sidecar: vocabulary, casing, seed, settings.
    Returns:
      The number of rows.
    Raises:
      ValueError: a row lacks a feature or has another number of values.
      OSError: the folder cannot be written, or its disk is full.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    count = 0
    rows = iter(rows)
    try:
        partial.write_bytes(b"")
        while block := list(itertools.islice(rows, _ROWS_PER_BLOCK)):
            if any(f.varies or f.dtype == "string" for f in features.values()):
                examples = record_bytes.encode_rows(block, features)
                frames = record_bytes.frame_examples(examples)
            else:
                frames, _ = frame_rows(_columns(block, features), features)
            with writing(path), open(partial, "ab") as file:
                file.write(frames)
            count += len(block)
        publish_records(partial, path, count, features, metadata)
    finally:
        partial.unlink(missing_ok=True)
    return count


def frame_rows(
    columns: Mapping[str, np.ndarray], features: Features
) -> tuple[np.ndarray, np.ndarray]:
    """Rows as the bytes of a record file; files are made of any number of these.

    Args:
      columns: each feature's values, [R, ...]; R may be 0.
      features: the spec.
    Returns:
      R framed rows, uint8, and where each starts and the last ends, int64 [R + 1].
    """
    return record_bytes.frame_rows(columns, {n: f.dtype for n, f in features.items()})


def split_frames(content: bytes) -> list[memoryview]:
    """The framed rows of a whole number of them, in order; nothing is checked."""
    return record_bytes.split_frames(content)


def publish_records(
    partial: str | os.PathLike,
    path: str | os.PathLike,
    rows: int,
    features: Features,
    metadata: Mapping[str, Any],
) -> None:
    """Gives `partial`, a finished file of so many rows on the same disk, its name, and
    then writes its sidecar; see `write_records`."""
    with writing(path):
        _sync(Path(partial))
        sidecar = {
            **metadata,
            "format_version": FORMAT_VERSION,
            "rows": rows,
            "bytes": os.path.getsize(partial),
            "features": {n: dataclasses.asdict(f) for n, f in features.items()},
        }
        # Not sooner: a failure leaves older rows and their sidecar as they were.
        sidecar_path(path).unlink(missing_ok=True)
        os.replace(partial, path)
        write_json(sidecar_path(path), sidecar)


def _columns(block: Sequence[Mapping], features: Features) -> dict[str, np.ndarray]:
    """Rows that meet the spec -> each feature's values, [R, size]."""
    columns = {}
    for name, feature in features.items():
        values = np.empty((len(block), feature.size), feature.dtype)
        for row, place in zip(block, values, strict=True):
            array = np.asarray(record_bytes.value_of(row, name), feature.dtype)
            record_bytes.check_size(name, feature, array.size)
            place[:] = array.ravel()
        columns[name] = values
    return columns


@contextlib.contextmanager
def writing(path: str | os.PathLike) -> Iterator[None]:
    """Has errors of the disk name the file that was being made."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise OSError(f"{path} cannot be written: {reason}.") from error


def write_json(path: str | os.PathLike, value: Any) -> None:
    """Writes JSON; as `write_whole`."""
    write_whole(path, json_bytes(value))


def json_bytes(value: Any) -> bytes:
    """JSON for people to read."""
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode("utf-8")


def write_whole(path: str | os.PathLike, content: bytes) -> None:
    """Writes a file so that it stands under its name whole or not at all."""
    path = Path(path)
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_bytes(content)
        _sync(partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


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
        metadata = json.loads(sidecar.read_text(encoding="utf-8"))
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


# What a run's output folder keeps of the sidecars: the vocabulary and its cleaning.
TOKENIZER_FILE = "tokenizer.json"
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


def read_set(paths: Sequence[str], expected: Mapping[str, Any]) -> RecordSet:
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


def parsing_spec(features: Features) -> dict[str, Any]:
    """What `tf.io.parse_example` needs to read rows; those that vary become ragged."""
    import tensorflow as tf

    spec = {}
    for name, feature in features.items():
        if not feature.varies:
            spec[name] = tf.io.FixedLenFeature(feature.shape, feature.dtype)
            continue
        lists = len(feature.shape) == 2
        partitions = [
            tf.io.RaggedFeature.RowLengths(record_bytes.lengths_name(name))
        ] * lists
        spec[name] = tf.io.RaggedFeature(
            feature.dtype, name, partitions, row_splits_dtype=tf.int64
        )
    return spec


def read_rows(path: str | os.PathLike) -> Iterator[dict[str, np.ndarray]]:
    """Rows of one file as numpy arrays, in file order; for looking and for tests."""
    for batch in read_batches(path, _ROWS_PER_BLOCK):
        for row in range(len(next(iter(batch.values())))):
            yield {name: values[row] for name, values in batch.items()}


def read_batches(path: str | os.PathLike, size: int) -> Iterator[dict[str, np.ndarray]]:
    """Rows of one file, so many at a time, checksums and shapes checked.

    Raises:
      ValueError: a row is damaged or of other features.
    """
    import tensorflow as tf

    spec = parsing_spec(read_metadata(path)["features"])
    with open(path, "rb") as file:
        examples = record_bytes.read_examples(file)
        try:
            while block := list(itertools.islice(examples, size)):
                parsed = tf.io.parse_example(block, spec)
                yield {name: value.numpy() for name, value in parsed.items()}
        except (ValueError, tf.errors.InvalidArgumentError) as error:
            raise ValueError(f"{path}: {getattr(error, 'message', error)}") from error


def read_strings(record_set: RecordSet) -> dict[str, np.ndarray]:
    """The string features of all rows of a set, in its order, as text [R]."""
    names = [n for n, f in record_set.features.items() if f.dtype == "string"]
    blocks: dict[str, list[str]] = {name: [] for name in names}
    for path in record_set.paths if names else ():
        for batch in read_batches(path, _ROWS_PER_BLOCK):
            for name in names:
                blocks[name] += [value.decode("utf-8") for value in batch[name]]
    return {name: np.array(values) for name, values in blocks.items()}


def _short(value: Any) -> Any:
    """A digest's beginning, which is enough to tell two; other values as they are."""
    return f"{value[:12]}…" if isinstance(value, str) and len(value) == 64 else value


def find_corruption(paths: Sequence[str]) -> tuple[str, int] | None:
    """The first file that is damaged, and the byte at which its bad record starts."""
    for path in paths:
        offset = record_bytes.find_damage(path)
        if offset is not None:
            return str(path), offset
    return None


def find_miscount(
    paths: Sequence[str], rows: Sequence[int]
) -> tuple[str, int, int] | None:
    """The first file with other than so many rows; how many it should have, and has.

    Raises:
      ValueError: a file is damaged.
    """
    for path, expected in zip(paths, rows, strict=True):
        with open(path, "rb") as file:
            found = sum(1 for _ in record_bytes.read_examples(file))
        if found != expected:
            return str(path), expected, found
    return None


def sha256(path: str | os.PathLike) -> str:
    """Hexadecimal digest of a file's bytes."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def _sync(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())
