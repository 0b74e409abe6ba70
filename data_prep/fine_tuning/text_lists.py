"""Texts without a task: the lines of a file, or a column of a table."""

from typing import NamedTuple

from albert_tf.storage import PathLike, as_path
from data_prep import packed_files
from data_prep.column_files import COLUMN_FILES, is_dataset_folder
from data_prep.corpus.files import open_bytes
from data_prep.fine_tuning.row_labels import label_name
from data_prep.fine_tuning.tables import Columns, read_table
from data_prep.packed_files import explained_damage, unpacked

TABLES = (".tsv", ".csv", ".jsonl", *COLUMN_FILES)


class TextList(NamedTuple):
    """Texts in the order of their file.

    Attributes:
      texts: the texts; those of lines without their line ends.
      labels: the label of each; None: the file is no table, or none were asked for.
    """

    texts: list[str]
    labels: list[str] | None


def read_texts(
    path: PathLike, text_column: str = "text", label_column: str = ""
) -> TextList:
    """Reads texts.

    Args:
      path: a table, whose name ends in one of `TABLES`, or a text a line, which may be
        packed, as .txt.gz.
      text_column: column of a table; a number is the place of one without a header.
      label_column: column of labels; empty: there are none to read.
    Raises:
      FileNotFoundError: there is no such file.
      ValueError: it is not UTF-8, or holds no texts; labels are asked of lines; or as
        `tables.read_table`.
    """
    path = as_path(path)
    if packed_files.kind(path) in TABLES or is_dataset_folder(path):
        return _read_table(path, text_column, label_column)
    if label_column:
        raise ValueError(
            f"Lines of text have no labels: {path} must be a table ({', '.join(TABLES)}"
            ") for --label_column."
        )
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}: check the path.")
    with open_bytes(path) as packed, explained_damage(path):
        file = unpacked(packed, path)
        try:
            lines = [line.decode("utf-8").rstrip("\r\n") for line in file]
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not UTF-8 ({error}): convert it.") from None
    if not lines:
        raise ValueError(f"{path} holds no texts: give a file that has some.")
    return TextList([lines[0].removeprefix("\ufeff"), *lines[1:]], None)


def _read_table(path: PathLike, text_column: str, label_column: str) -> TextList:
    names = [text_column, label_column]
    columns = Columns(text_column, label=label_column or None)
    if all(name.isdecimal() for name in names if name):
        label = int(label_column) if label_column else None
        columns = Columns(int(text_column), label=label, header=False)
    examples = read_table(path, columns).examples
    labels = list(map(label_name, examples)) if label_column else None
    return TextList([example.text for example in examples], labels)
