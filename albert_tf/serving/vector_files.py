"""Files of the vectors of texts: arrays of NumPy, and tables of Parquet.

An array `NAME.npy`, float32 [N, H], has a sidecar `NAME.npy.json` that says how its
vectors were made; a Parquet file has the same values in its metadata, and the columns
`index`, `vector` and perhaps `text`.
"""

import contextlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from albert_tf import files
from albert_tf.file_kinds import check_replaceable
from albert_tf.partial_files import writing
from albert_tf.storage import AnyPath, PathLike, as_path, local_copy, move_up

SUFFIXES = (".npy", ".parquet")
_METADATA = b"albert_tf"
# Values that both kinds store and readers check.
_KEYS = ("count", "dimension")


class StoredVectors(NamedTuple):
    """Vectors of a file.

    Attributes:
      vectors: float32 [N, H].
      settings: how they were made, as `write` got them.
    """

    vectors: np.ndarray
    settings: Mapping[str, Any]


def sidecar_path(path: PathLike) -> AnyPath:
    """The sidecar of an array."""
    place = as_path(path)
    return place.with_name(f"{place.name}.json")


def check_output(path: PathLike) -> None:
    """Checks that a file of vectors may be written.

    Raises:
      ValueError: its name ends in neither of `SUFFIXES`.
      FileExistsError: a file of another kind is there.
    """
    suffix = as_path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(
            f"Files of vectors end in {' or '.join(SUFFIXES)}. Received {path}: give "
            "another name."
        )
    head = b"PAR1" if suffix == ".parquet" else b"\x93NUMPY"
    check_replaceable(path, head)
    if suffix == ".npy":
        check_replaceable(sidecar_path(path), files.json_bytes({"dimension": 0}))


def write(
    path: PathLike,
    blocks: Iterable[np.ndarray],
    count: int,
    settings: Mapping[str, Any],
    texts: Sequence[str] | None = None,
) -> None:
    """Writes vectors, whole or not at all, some at a time.

    Args:
      path: file whose name ends in one of `SUFFIXES`.
      blocks: float32 [b, H] each, in their order.
      count: N, the vectors of all blocks together.
      settings: JSON values that say how they were made, `dimension`, H, among them.
      texts: of Parquet: the N texts, to be kept; None: they are not.
    Raises:
      ValueError, FileExistsError: as `check_output`.
      OSError: the disk is full, for instance.
    """
    check_output(path)
    target, settings = as_path(path), {**settings, "count": count}
    if target.suffix.lower() == ".parquet":
        _write_parquet(target, blocks, settings, texts)
        return
    with files.partial_file(path) as file, writing(path):
        header = {
            "descr": np.lib.format.dtype_to_descr(np.dtype(np.float32)),
            "fortran_order": False,
            "shape": (count, settings["dimension"]),
        }
        np.lib.format.write_array_header_1_0(file, header)
        for block in blocks:
            file.write(np.ascontiguousarray(block, np.float32).tobytes())
        file.flush()
        os.fsync(file.fileno())
        digest = files.sha256(file.name)
        # Never an old sidecar beside new vectors.
        sidecar_path(path).unlink(missing_ok=True)
        move_up(file.name, target)
    files.write_json(sidecar_path(path), {**settings, "sha256": digest})


def _write_parquet(
    target: AnyPath,
    blocks: Iterable[np.ndarray],
    settings: Mapping[str, Any],
    texts: Sequence[str] | None,
) -> None:
    vector = pa.list_(pa.float32(), settings["dimension"])
    fields = [pa.field("index", pa.int64()), pa.field("vector", vector)]
    if texts is not None:
        fields.append(pa.field("text", pa.string()))
    metadata = {_METADATA: json.dumps(settings).encode()}
    schema = pa.schema(fields, metadata=metadata)
    with files.partial_file(target) as file, writing(target):
        first = 0
        with pq.ParquetWriter(file, schema) as writer:
            for block in blocks:
                places = range(first, first + len(block))
                flat = pa.array(block.astype(np.float32).ravel())
                columns = [
                    pa.array(places, pa.int64()),
                    pa.FixedSizeListArray.from_arrays(flat, type=vector),
                ]
                if texts is not None:
                    columns.append(pa.array([texts[place] for place in places]))
                writer.write_table(pa.Table.from_arrays(columns, schema=schema))
                first += len(block)
        # The writer has closed the file.
        move_up(file.name, target)


def read(path: PathLike) -> StoredVectors:
    """Reads vectors that `write` wrote.

    Raises:
      FileNotFoundError: there is no such file, or no sidecar.
      ValueError: it is damaged, or not what its sidecar says.
    """
    place = as_path(path)
    if not place.is_file():
        raise FileNotFoundError(f"There is no file {path}: check the path.")
    try:
        if place.suffix.lower() == ".parquet":
            vectors, settings = _read_parquet(place)
        else:
            vectors, settings = _read_array(place)
    except (OSError, EOFError, KeyError, pa.ArrowInvalid) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise ValueError(f"{path} is damaged ({error!r}): make it again.") from None
    if [settings.get(key) for key in _KEYS] != list(vectors.shape):
        raise ValueError(
            f"{path} holds {vectors.shape[0]} vectors of {vectors.shape[1]} numbers, "
            f"not {settings.get('count')} of {settings.get('dimension')}: make them "
            "again."
        )
    return StoredVectors(vectors, settings)


def _read_array(place: AnyPath) -> tuple[np.ndarray, dict[str, Any]]:
    if not sidecar_path(place).is_file():
        raise FileNotFoundError(
            f"{place} has no {sidecar_path(place).name}, which says how its vectors "
            "were made: bring it back, or make them again."
        )
    settings = files.read_json(sidecar_path(place))
    if files.sha256(place) != settings.pop("sha256", None):
        raise ValueError(
            f"{place} is not the file that {sidecar_path(place).name} was written for: "
            "make it again."
        )
    with contextlib.closing(place.open("rb")) as file:
        return np.load(file, allow_pickle=False), settings


def _read_parquet(place: AnyPath) -> tuple[np.ndarray, dict[str, Any]]:
    with local_copy(place) as local:
        table = pq.read_table(local, columns=["vector"])
    settings = json.loads((table.schema.metadata or {})[_METADATA])
    column = table["vector"].combine_chunks()
    flat = column.flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(len(column), -1), settings
