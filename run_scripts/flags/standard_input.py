"""Standard input in place of a file: a flag whose value is "-"."""

import contextlib
import csv
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from absl import flags

# Flags of tables, and those of texts or tables.
_TABLES = ("train_file", "dev_file", "test_file", "predict_file")
_TEXTS = ("input_file", "texts")
_COLUMNS = ("text_column", "text_pair_column", "label_column")
_PARQUET = b"PAR1"
# How files of gzip and of Zstandard begin.
_PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")


@contextlib.contextmanager
def standard_input_as_file(values: flags.FlagValues) -> Iterator[None]:
    """Stores standard input in a temporary file, whose path the flag "-" becomes.

    Rows are made of files, which are read more than once and known by their content.

    Args:
      values: the flags of the command.
    Raises:
      flags.Error: several flags ask for standard input, or it is packed.
    """
    asking = [
        name
        for name in (*_TABLES, *_TEXTS)
        if name in values and values[name].value == "-"
    ]
    if not asking:
        yield
        return
    if len(asking) > 1:
        raise flags.Error(
            f"Standard input can be one file: --{' and --'.join(asking)} ask for it."
        )
    with tempfile.TemporaryDirectory() as folder:
        stored = Path(folder) / "stdin"
        with stored.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        suffix = _suffix(stored, asking[0], values)
        values[asking[0]].value = str(stored.rename(stored.with_suffix(suffix)))
        yield


def _suffix(file: Path, name: str, values: flags.FlagValues) -> str:
    """The suffix of what a file holds, as the readers of tables know it."""
    with file.open("rb") as opened:
        line = opened.readline(1 << 16)
    if line.startswith(_PARQUET):
        return ".parquet"
    if line.startswith(_PACKED):
        raise flags.Error(
            "Standard input is packed: unpack it before, as with zcat or zstdcat."
        )
    text = line.decode("utf-8-sig", "replace").strip()
    if text.startswith("{"):
        return ".jsonl"
    if name in _TABLES:
        return ".tsv" if "\t" in text else ".csv"
    columns: set[Any] = {values[each].value for each in _COLUMNS if each in values}
    if columns & set(text.split("\t")):
        return ".tsv"
    return ".csv" if columns & set(next(csv.reader([text]), ())) else ".txt"
