"""Keeps converted rows in files, so that they are made once.

A file's name is a digest of the content of the input, the vocabulary, the settings and
the version of the conversion, so a file is never out of date. Several runs may share
the folder.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from upath import UPath

from albert_tf import files
from albert_tf.locks import waiting
from albert_tf.progress import progress_bar
from albert_tf.records.encoding import count_frames
from albert_tf.records.features import Features
from albert_tf.records.sidecar import (
    RecordSet,
    read_metadata,
    read_record_set,
    sidecar_path,
)
from albert_tf.records.writer import write_records
from albert_tf.storage import AnyPath, PathLike, as_path
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.column_files import files_of, is_dataset_folder

# Version of the conversion, in the sidecar; raise it to make all rows again.
VERSION = 2
# Part of the key, which a stopped run compares when it resumes: it stays as it is.
_KEY_VERSION = 1
_NAME_DIGITS = 16


def cached_rows(
    folder: PathLike,
    name: str,
    inputs: Iterable[PathLike],
    tokenizer: AlbertTokenizer,
    settings: Mapping[str, Any],
    make: Callable[[dict[str, Any]], tuple[Features, int, Iterable[Mapping]]],
) -> RecordSet:
    """Returns the rows of some input files, made now or in an earlier call.

    Input content, tokenizer and settings are the key: if one of them differs, the rows
    are made again.

    Args:
      folder: folder of the row files.
      name: beginning of the file's name, as `rte-dev`.
      inputs: input files.
      tokenizer: its vocabulary and cleaning of text are part of the key.
      settings: JSON values, `max_seq_length` among them; the sidecar has them too.
      make: function of a dict for statistics, to be filled while rows are made, which
        the sidecar keeps; returns features, the approximate number of rows, and the
        rows.
    Raises:
      FileNotFoundError: an input is missing.
    """
    known = {**tokenizer.metadata(), **settings}
    paths = [as_path(path) for path in inputs]
    for path in paths:
        if not (path.is_file() or is_dataset_folder(path)):
            raise FileNotFoundError(f"There is no file {path}: check the path.")
    content = [files.sha256(file) for path in paths for file in files_of(path)]
    key = json.dumps([_KEY_VERSION, known, content], sort_keys=True)
    digest = files.digest(key.encode())
    path = as_path(folder) / f"{name}-{digest[:_NAME_DIGITS]}.tfrecord"
    if not _is_whole(path, digest):
        files.make_folder(folder)
        # Of several runs that need the same rows one makes them, and the others wait.
        with waiting(path.with_name(f".{path.name}.lock")):
            if not _is_whole(path, digest):
                # Its name with the digest is no other file's.
                for damaged in (path, sidecar_path(path)):
                    damaged.unlink(missing_ok=True)
                metadata = {
                    **known,
                    "kind": name,
                    "content_sha256": digest,
                    "conversion": VERSION,
                }
                _write(path, metadata, make)
    return read_record_set([str(path)], {"content_sha256": digest})


def _is_whole(path: AnyPath, digest: str) -> bool:
    if not (path.is_file() and sidecar_path(path).is_file()):
        return False
    try:
        metadata = read_metadata(path)
    except ValueError:  # damaged: make it again
        return False
    made = metadata.get("content_sha256"), metadata.get("conversion")
    if made != (digest, VERSION):
        return False
    # Files of buckets are whole, and their size is that of the sidecar.
    return isinstance(path, UPath) or count_frames(path) == metadata["rows"]


def _write(
    path: AnyPath,
    metadata: Mapping[str, Any],
    make: Callable[[dict[str, Any]], tuple[Features, int, Iterable[Mapping]]],
) -> None:
    statistics: dict[str, Any] = {}
    features, count, rows = make(statistics)
    rows = _with_progress(rows, count, metadata["kind"])
    # The statistics are filled when the sidecar is written.
    write_records(path, rows, features, {**metadata, "statistics": statistics})


def _with_progress(rows: Iterable[Mapping], count: int, name: str) -> Iterator[Mapping]:
    with progress_bar(count, "rows", name) as bar:
        for row in rows:
            yield row
            bar.update()
