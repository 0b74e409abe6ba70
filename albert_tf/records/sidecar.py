"""Sidecars: the JSON file next to each record file that says what it holds.

`NAME.tfrecord.json` has the number of rows of `NAME.tfrecord`, their features, and the
vocabulary, casing, lengths and seed that made them. It is written last, so a record
file that has a sidecar is complete. From version 2 it also has the places of every 64th
row, so that reading can begin anywhere; readers of version 1 look for them in the file.
"""

import contextlib
import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.files import digest, read_json, require_utf8, short_digest
from albert_tf.records.compact import FORMAT_KEYS, CompactFormat
from albert_tf.records.encoding import INDEX_EVERY
from albert_tf.records.features import MAX_DOCUMENTS, Feature, Features, is_compact
from albert_tf.records.masking_config import ReadTimeMasks
from albert_tf.storage import AnyPath, PathLike, as_path

FORMAT_VERSION = 2
_KNOWN_VERSIONS = (1, 2)
# Places of rows: {"every": 64, "offsets": [0, 20480, ...]}, in bytes.
INDEX = "index"
# Keys that files must agree in to be read together: the vocabulary and text cleaning,
TOKENIZER_KEYS = ("vocabulary_sha256", "vocab_size", "lower_case", "strip_accents")
# and the two segments of a pretraining row: "sop", "nsp" or "none".
PAIR_OBJECTIVE = "pair_objective"
_ALIKE = (*FORMAT_KEYS, "features", *TOKENIZER_KEYS, PAIR_OBJECTIVE, MAX_DOCUMENTS)
SIDECAR_SUFFIX = ".json"
# Types of the values that code relies on; counts are whole numbers.
_COUNTS = (
    *("rows", "bytes", "vocab_size", "max_seq_length", "max_predictions_per_seq"),
    MAX_DOCUMENTS,
)
_TYPES = {
    "vocabulary_sha256": str,
    "content_sha256": str,
    PAIR_OBJECTIVE: str,
    "lower_case": bool,
    "strip_accents": bool,
    "labelled": bool,
}
# Bytes of a row beside its values, and the fewest that a value may take.
_BYTES_OF_FRAME = 16
_BYTES_OF_VALUE = {"int64": 1, "float32": 4, "string": 0}
# Counts that follow from the text and the rows, which other keys identify.
_STATISTICS = ("statistics", "text")


def sidecar_path(path: PathLike) -> AnyPath:
    """Returns the path of a record file's sidecar."""
    return as_path(f"{path}{SIDECAR_SUFFIX}")


def index_json(offsets: np.ndarray) -> dict[str, Any]:
    """Returns the entry of a sidecar for the places of every 64th row."""
    return {"every": INDEX_EVERY, "offsets": offsets.tolist()}


def read_metadata(path: PathLike) -> dict[str, Any]:
    """Reads the sidecar of a record file, its features as `Feature` values.

    The index is left out.

    Raises:
      FileNotFoundError: the file or its sidecar is missing.
      IsADirectoryError: it is a folder.
      ValueError: the sidecar is damaged, of another format or of another file, or
        claims more or larger rows than the file has room for.
    """
    return _read_sidecar(path)[0]


def _read_sidecar(
    path: PathLike,
) -> tuple[dict[str, Any], np.ndarray | None]:
    """Returns what `read_metadata` does, and the index, int64; None: it has none."""
    sidecar = sidecar_path(path)
    for needed in (as_path(path), sidecar):
        if not needed.is_file():
            if needed.is_dir():
                raise IsADirectoryError(
                    f"{needed} is a folder: name the record files in it, with a glob."
                )
            raise FileNotFoundError(
                f"{needed} is missing: make the records again with "
                "run_scripts/create_pretraining_data.py, or copy the file and its "
                "sidecar together."
            )
    with _reading(sidecar):
        metadata = read_json(sidecar)
        version, stored = metadata["format_version"], metadata.pop(INDEX, None)
        _check_types(metadata)
        metadata["features"] = {
            name: _feature_from_json(name, spec)
            for name, spec in metadata["features"].items()
        }
    if version not in _KNOWN_VERSIONS:
        raise ValueError(
            f"{sidecar} has format_version {version!r:.40}, this release reads "
            f"{_KNOWN_VERSIONS[0]} to {_KNOWN_VERSIONS[-1]}: make the records again."
        )
    _check_size(path, metadata)
    if version < FORMAT_VERSION:
        return metadata, None
    with _reading(sidecar):
        offsets = _index_from_json(stored, metadata["rows"])
    if len(offsets) and offsets[-1] > as_path(path).stat().st_size - _BYTES_OF_FRAME:
        raise wrong_index(path)
    return metadata, offsets


@contextlib.contextmanager
def _reading(sidecar: AnyPath) -> Iterator[None]:
    """Names the sidecar in errors about its content."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{sidecar} is not a record sidecar ({error!r}): copy it again, or make "
            "the records again."
        ) from error


def _check_types(metadata: Mapping[str, Any]) -> None:
    """Raises ValueError or KeyError unless values that code relies on are right."""
    for name in ("rows", *(name for name in _COUNTS if name in metadata)):
        _check_count(name, metadata[name])
    for name, kind in _TYPES.items():
        if not isinstance(metadata.get(name), kind | None):
            raise ValueError(
                f"{name} must be of type {kind.__name__}. Received "
                f"{metadata[name]!r:.80}"
            )
    if not metadata["features"]:
        raise ValueError("features must name one feature at least")


def _check_count(name: str, value: Any) -> None:
    """Raises ValueError unless a value is a whole number that is not negative."""
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(
            f"{name} must be a whole number from 0. Received {value!r:.80}"
        )


def _feature_from_json(name: str, spec: Mapping[str, Any]) -> Feature:
    """Reads one entry of a sidecar's `features`."""
    for size in spec["shape"]:
        if size is not None:
            _check_count(f"each size of {name}", size)
    if spec["dtype"] not in _BYTES_OF_VALUE:
        raise ValueError(f"no rows have the dtype {spec['dtype']!r:.80} of {name}")
    return Feature(tuple(spec["shape"]), spec["dtype"])


def _index_from_json(stored: Any, rows: int) -> np.ndarray:
    """Returns the places of a sidecar's index, int64, after checking them.

    Args:
      stored: as `index_json`.
      rows: number of rows in the file.
    """
    if not isinstance(stored, dict) or stored["every"] != INDEX_EVERY:
        raise ValueError(
            f"index must have the places of every {INDEX_EVERY}th row. Received "
            f"{stored!r:.80}"
        )
    offsets = stored["offsets"]
    if not isinstance(offsets, list) or len(offsets) != -(-rows // INDEX_EVERY):
        raise ValueError(
            f"index must have a place for every {INDEX_EVERY} of {rows:,} rows. "
            f"Received {offsets!r:.80}"
        )
    for offset in offsets:
        _check_count("each place of index", offset)
    places = np.array(offsets, np.int64)
    if rows and (places[0] != 0 or np.any(np.diff(places) <= 0)):
        raise ValueError(f"places of index must rise from 0. Received {offsets!r:.80}")
    return places


def wrong_index(path: PathLike) -> ValueError:
    """Returns the error of a sidecar whose index does not fit its file."""
    return ValueError(
        f"{sidecar_path(path)} has an index that does not fit the rows of {path}: copy "
        "both again, or remove both and make the records again."
    )


def _check_size(path: PathLike, metadata: Mapping[str, Any]) -> None:
    """Raises ValueError if a file is not as large as its sidecar says, or too small
    for its rows."""
    size = as_path(path).stat().st_size
    if size != metadata.get("bytes", size):
        raise ValueError(
            f"{path} has {size:,} bytes, but its sidecar says {metadata['bytes']:,}: "
            "copy both again, or remove both and make the records again."
        )
    row = _BYTES_OF_FRAME + sum(
        0 if feature.varies else feature.size * _BYTES_OF_VALUE[feature.dtype]
        for feature in metadata["features"].values()
    )
    if metadata["rows"] * row > size:
        raise ValueError(
            f"{path} has {size:,} bytes, too few for what its sidecar says, "
            f"{metadata['rows']:,} rows of at least {row:,} bytes: copy both again, or "
            "remove both and make the records again."
        )


@dataclasses.dataclass(frozen=True)
class RecordSet:
    """Record files that are read together, as one data set or split.

    Attributes:
      paths: the files.
      rows: number of rows in each file.
      features: the spec that the rows of all files meet.
      metadata: the first file's sidecar; all files agree in the vocabulary, the text
        cleaning, the pair objective and the packing of documents.
      sha256: digest of the sidecars, without statistics and index. It is the same for
        the same rows wherever the files are, and in all versions of sidecars.
      offsets: for each file the places of every 64th row, int64; None: its sidecar
        does not say them.
      masks: how rows that are stored without masks are masked when they are read; None:
        they cannot be read, or have masks.
    """

    paths: tuple[str, ...]
    rows: tuple[int, ...]
    features: Features
    metadata: Mapping[str, Any]
    sha256: str
    offsets: tuple[np.ndarray | None, ...] = dataclasses.field(
        compare=False, repr=False
    )
    masks: ReadTimeMasks | None = None

    @property
    def total_rows(self) -> int:
        """Number of rows in all files."""
        return sum(self.rows)

    @property
    def varies(self) -> bool:
        """True if rows differ in length."""
        return any(feature.varies for feature in self.features.values())

    @property
    def compact_format(self) -> CompactFormat | None:
        """The format of rows that are stored without masks; None: of others."""
        if not is_compact(self.metadata):
            return None
        return CompactFormat.from_metadata(self.metadata, self.paths[0])

    @property
    def tokenizer_settings(self) -> dict[str, Any]:
        """The vocabulary and the text cleaning that made the rows."""
        return {key: self.metadata.get(key) for key in TOKENIZER_KEYS}

    @property
    def pair_objective(self) -> str | None:
        """The relation of a pretraining row's two segments: "sop", "nsp" or "none".

        None: the sidecar does not say it, as those of fine-tuning.
        """
        return self.metadata.get(PAIR_OBJECTIVE)

    @property
    def max_documents_per_row(self) -> int:
        """Upper bound on the pairs in a packed row; 0: rows are not packed."""
        return self.metadata.get(MAX_DOCUMENTS, 0)


def check_features(path: PathLike, features: Features, expected: Features) -> None:
    """Checks that the rows of a file have some features.

    Args:
      path: the file, for the message.
      features: those that its sidecar lists.
      expected: those that it must list, among others.
    Raises:
      ValueError: one is missing, or of another shape or type.
    """
    for name, feature in expected.items():
        if features.get(name) != feature:
            raise ValueError(
                f"{sidecar_path(path)} must list the feature {name}, of type "
                f"{feature.dtype} and shape {list(feature.shape)}. Received "
                f"{features.get(name)}: make the records again."
            )


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
    for path in paths:
        require_utf8(path)
    sidecars, offsets = zip(*map(_read_sidecar, paths), strict=True)
    first = sidecars[0]
    for path, sidecar in zip(paths, sidecars, strict=True):
        check_expected(path, sidecar, expected)
        for key in (*_ALIKE, "max_seq_length") if is_compact(sidecar) else _ALIKE:
            if sidecar.get(key) != first.get(key):
                raise ValueError(
                    f"{path} and {paths[0]} differ in {key} "
                    f"({short_digest(sidecar.get(key))} and "
                    f"{short_digest(first.get(key))}): read only files that were made "
                    "together."
                )
    rows = tuple(sidecar["rows"] for sidecar in sidecars)
    if not sum(rows):
        raise ValueError(f"{paths[0]} and its set hold no rows: make them again.")
    return RecordSet(
        tuple(map(str, paths)),
        rows,
        first["features"],
        first,
        _digest(sidecars),
        offsets,
    )


def check_expected(
    path: str, metadata: Mapping[str, Any], expected: Mapping[str, Any]
) -> None:
    """Raises ValueError if a sidecar differs from what is expected."""
    for key, wanted in expected.items():
        if wanted is not None and metadata.get(key) != wanted:
            raise ValueError(
                f"{path} was made with {key}={short_digest(metadata.get(key))}, but "
                f"{key}={short_digest(wanted)} is asked for: change the setting, "
                "or make the records again."
            )


def _digest(sidecars: Sequence[Mapping[str, Any]]) -> str:
    """Returns the digest of sidecars, in their order, without statistics and index."""
    # Version 1 in all of them: rows that are made again stay the same rows.
    values = [
        {key: value for key, value in sidecar.items() if key not in _STATISTICS}
        | {"format_version": _KNOWN_VERSIONS[0]}
        for sidecar in sidecars
    ]
    text = json.dumps(values, sort_keys=True, default=dataclasses.asdict)
    return digest(text.encode())
