"""Rows that were made once: files whose names say what they were made of.

A file is found again by the content of its input, the vocabulary, the settings and the
version of what makes it, and by nothing else: it is never stale.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from albert_tf import files
from albert_tf.records.features import Features
from albert_tf.records.sidecar import (
    RecordSet,
    read_metadata,
    read_record_set,
    sidecar_path,
)
from albert_tf.records.writer import write_records
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.parallel import progress_bar

# Of how rows are made: a new one makes all of them anew.
VERSION = 1
_NAME_DIGITS = 16


def cached_rows(
    folder: str | os.PathLike,
    name: str,
    inputs: Iterable[str | os.PathLike],
    tokenizer: AlbertTokenizer,
    settings: Mapping[str, Any],
    make: Callable[[dict[str, Any]], tuple[Features, int, Iterable[Mapping]]],
) -> RecordSet:
    """The rows of some input files, made now or before.

    Args:
      folder: of the files.
      name: what they begin with, as `rte-dev`.
      inputs: files whose content decides.
      tokenizer: its vocabulary and cleaning decide.
      settings: JSON values that decide, `max_seq_length` among them; the sidecar has
        them too.
      make: (statistics, to be filled while rows are made; the sidecar keeps them) ->
        features, about how many rows, and the rows.
    Raises:
      FileNotFoundError: an input is missing.
    """
    known = {**tokenizer.metadata(), **settings}
    inputs = [Path(path) for path in inputs]
    for path in inputs:
        if not path.is_file():
            raise FileNotFoundError(f"There is no file {path}: check the path.")
    content = [files.sha256(path) for path in inputs]
    key = json.dumps([VERSION, known, content], sort_keys=True)
    digest = files.digest(key.encode())
    path = Path(folder) / f"{name}-{digest[:_NAME_DIGITS]}.tfrecord"
    if not _is_whole(path, digest):
        statistics: dict[str, Any] = {}
        features, count, rows = make(statistics)
        metadata = {
            **known,
            "kind": name,
            "content_sha256": digest,
            # Filled by the time that it is written.
            "statistics": statistics,
        }
        rows = _with_progress(rows, count, name)
        write_records(path, rows, features, metadata)
    return read_record_set([str(path)], {"content_sha256": digest})


def _is_whole(path: Path, digest: str) -> bool:
    if not (path.is_file() and sidecar_path(path).is_file()):
        return False
    try:
        return read_metadata(path).get("content_sha256") == digest
    except ValueError:  # damaged: it is made again
        return False


def _with_progress(rows: Iterable[Mapping], count: int, name: str) -> Iterator[Mapping]:
    with progress_bar(count, "rows", name) as bar:
        for row in rows:
            yield row
            bar.update()
