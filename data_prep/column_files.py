"""Reads files of columns: Parquet, and the folders of Hugging Face's `datasets`.

`Dataset.save_to_disk` writes such a folder: Arrow files, `state.json` with their names,
and `dataset_info.json` with what the columns hold. That of a `DatasetDict` has a folder
for each split.
"""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from albert_tf.files import read_json
from albert_tf.storage import AnyPath, PathLike, as_path, local_copy

PARQUET, ARROW = ".parquet", ".arrow"
COLUMN_FILES = (PARQUET, ARROW)
_STATE, _INFO, _SPLITS = "state.json", "dataset_info.json", "dataset_dict.json"


def is_dataset_folder(path: PathLike) -> bool:
    """True for a folder that `Dataset.save_to_disk` wrote.

    Raises:
      ValueError: it is that of a `DatasetDict`, of several splits.
    """
    folder = as_path(path)
    if (folder / _SPLITS).is_file():
        names = read_json(folder / _SPLITS).get("splits", [])
        raise ValueError(
            f"{path} holds the splits {', '.join(map(str, names))}: name one of them, "
            f"as {folder / str(next(iter(names), 'train'))}."
        )
    return (folder / _STATE).is_file()


def dataset_files(path: PathLike) -> list[AnyPath]:
    """The Arrow files of a data set's folder, in order.

    Raises:
      ValueError: its `state.json` names none.
      FileNotFoundError: one is missing.
    """
    folder = as_path(path)
    listed = read_json(folder / _STATE).get("_data_files") or []
    files = [folder / each["filename"] for each in listed]
    if not files:
        raise ValueError(f"{folder / _STATE} names no data files: save it again.")
    for file in files:
        if not file.is_file():
            raise FileNotFoundError(
                f"{file}, which {_STATE} names, is missing: copy the folder again."
            )
    return files


def files_of(path: PathLike) -> list[AnyPath]:
    """All files that decide what `path`, a file or a data set's folder, holds."""
    file = as_path(path)
    if not file.is_dir():
        return [file]
    info = [file / _INFO] if (file / _INFO).is_file() else []
    return [*dataset_files(file), *info]


def label_names(path: PathLike) -> dict[str, list[str]]:
    """The columns of a data set's folder that hold numbers of classes.

    Returns:
      Name of the column -> names of the classes, by number.
    """
    file = as_path(path) / _INFO
    features = read_json(file).get("features", {}) if file.is_file() else {}
    found = {}
    for name, feature in features.items():
        # A list of classes, as the tags of a sentence have, holds the class inside.
        inner = feature.get("feature", feature) if isinstance(feature, Mapping) else {}
        if isinstance(inner, Mapping) and inner.get("_type") == "ClassLabel":
            found[name] = list(inner.get("names", []))
    return found


def column_names(path: PathLike) -> list[str]:
    """The columns of a file, or of a data set's folder."""
    file = as_path(path)
    if file.is_dir():
        file = dataset_files(file)[0]
    return next(_tables(file, names_only=True)).schema.names


def rows(path: PathLike) -> Iterator[dict[str, Any]]:
    """Yields the rows of a file, or of a data set's folder: column -> value.

    Numbers of classes become their names. One group of rows is in memory at a time.

    Raises:
      ValueError: a file is not what its suffix says.
    """
    file = as_path(path)
    if not file.is_dir():
        yield from _rows(file)
        return
    names = label_names(file)
    for row in itertools.chain.from_iterable(map(_rows, dataset_files(file))):
        for column, classes in names.items():
            row[column] = _named(row.get(column), classes)
        yield row


def _named(value: Any, classes: list[str]) -> Any:
    if isinstance(value, list):
        return [_named(each, classes) for each in value]
    # -1 stands for a label that is kept secret.
    is_class = isinstance(value, int) and 0 <= value < len(classes)
    return classes[value] if is_class else value


def _rows(file: AnyPath) -> Iterator[dict[str, Any]]:
    for table in _tables(file):
        yield from table.to_pylist()


def _tables(file: AnyPath, names_only: bool = False) -> Iterator[Any]:
    """Yields batches of rows of a file; `names_only`: one, with its columns alone."""
    # Few commands read such files, and all would wait for it.
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with local_copy(file) as local:
            if file.suffix.lower() == PARQUET:
                with pq.ParquetFile(local) as parquet:
                    if names_only:
                        yield parquet.schema_arrow.empty_table()
                    else:
                        yield from parquet.iter_batches()
            else:
                with pa.memory_map(str(local)) as mapped, _arrow(mapped) as reader:
                    if names_only:
                        yield reader.schema.empty_table()
                    else:
                        yield from reader
    except pa.ArrowException as error:
        kind = "Parquet" if file.suffix.lower() == PARQUET else "Arrow"
        raise ValueError(f"{file} is not {kind} ({error}): write it again.") from None


def _arrow(file: Any) -> Any:
    """Opens Arrow's stream format, as `datasets` writes it, or its file format."""
    import pyarrow as pa

    magic = file.read(6)
    file.seek(0)
    if magic == b"ARROW1":
        reader = pa.ipc.open_file(file)
        return pa.RecordBatchReader.from_batches(
            reader.schema,
            (reader.get_batch(n) for n in range(reader.num_record_batches)),
        )
    return pa.ipc.open_stream(file)
