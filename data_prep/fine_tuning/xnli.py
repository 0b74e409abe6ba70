"""Reads XNLI: entailment in 15 languages (Conneau et al. 2018).

    DATA_DIR/xnli.dev.tsv, xnli.test.tsv        all languages, with labels
    DATA_DIR/multinli.train.LANGUAGE.tsv        MNLI, translated; English as it is

The published archives have them in folders, XNLI-1.0 and XNLI-MT-1.0/multinli, which
may lie in DATA_DIR.
"""

import dataclasses
from collections.abc import Sequence

from albert_tf.records.sidecar import RecordSet
from albert_tf.storage import AnyPath, PathLike, as_path
from albert_tf.task_config import Classification
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.fine_tuning import split_rows
from data_prep.fine_tuning.glue import GLUE
from data_prep.fine_tuning.tables import Columns, column_values
from data_prep.fine_tuning.task_data import (
    CACHE_DIR,
    MAX_SEQ_LENGTH,
    TaskData,
    task_data,
)

TASK_NAME = "xnli"
ALL = "all"
_FOLDERS = ("", "XNLI-1.0", "XNLI-MT-1.0/multinli", "multinli")
_TRAIN = Columns(
    "premise", "hypo", "label", spellings={"contradictory": "contradiction"}
)
_EVALUATED = Columns("sentence1", "sentence2", "gold_label")
_TEXTS = Columns("sentence1", "sentence2")


def xnli_config(max_seq_length: int = MAX_SEQ_LENGTH) -> Classification:
    """Returns the task configuration of XNLI; its labels are MNLI's, in their order."""
    labels = GLUE["mnli"].labels
    assert labels is not None
    columns = _TEXTS.to_dict()
    return Classification(
        TASK_NAME, labels, ("eval_accuracy",), max_seq_length, columns
    )


def xnli(
    data_dir: PathLike,
    tokenizer: AlbertTokenizer,
    languages: Sequence[str] = ("en",),
    splits: Sequence[str] = ("train", "dev"),
    *,
    train_language: str = "",
    max_seq_length: int = MAX_SEQ_LENGTH,
    cache_dir: PathLike = CACHE_DIR,
    on_bad_row: str = "error",
) -> TaskData:
    """Reads XNLI.

    Args:
      data_dir: folder of the published files.
      tokenizer: the model's.
      languages: to evaluate and predict, as "de"; the first one is the split "dev",
        others are "dev_de" and so on. "all": those that the file has.
      splits: of "train", "dev" and "test"; a test split, "XNLI-de", has labels too.
      train_language: language of the translation to train on; empty: the first of
        `languages`, or English for all.
      max_seq_length: longest row in tokens, special tokens included.
      cache_dir: folder for the converted rows.
      on_bad_row: as `tables.read_table`.
    Raises:
      FileNotFoundError: a file is missing.
      ValueError: a language that the files lack, or as `tables.read_table`.
    """
    folder, task_config = as_path(data_dir), xnli_config(max_seq_length)
    conversion = split_rows.Conversion(tokenizer, cache_dir, on_bad_row)

    def rows(name: str, file: AnyPath, columns: Columns):
        return split_rows.of_table(name, file, columns, task_config, conversion)

    train: dict[str, RecordSet] = {}
    dev: dict[str, RecordSet] = {}
    test: dict[str, RecordSet] = {}
    if "train" in splits:
        first = languages[0] if languages and languages[0] != ALL else "en"
        file = _find(folder, f"multinli.train.{train_language or first}.tsv")
        train["train"] = rows("train", file, _TRAIN)
    for split, found in (("dev", dev), ("test", test)):
        if split not in splits:
            continue
        file = _find(folder, f"xnli.{split}.tsv")
        for place, language in enumerate(_languages(file, languages)):
            columns = dataclasses.replace(_EVALUATED, only=("language", language))
            name = f"XNLI-{language}" if split == "test" else f"dev_{language}"
            if split == "dev" and place == 0:
                name = "dev"
            found[name] = rows(name, file, columns)
    data = task_data(task_config, train)
    warnings = [
        warning
        for name, found in {**dev, **test}.items()
        for warning in split_rows.warnings_of(name, found)
    ]
    return dataclasses.replace(
        data, dev=dev, test=test, warnings=(*data.warnings, *warnings)
    )


def _languages(file: AnyPath, asked: Sequence[str]) -> list[str]:
    """The languages to read, in the order in which they are asked for."""
    known = sorted(column_values(file, "language"))
    if list(asked) == [ALL]:
        return known
    for language in asked:
        if language not in known:
            raise ValueError(
                f"{file} has no rows of the language {language!r}; it has "
                f"{', '.join(known)}: name some of these, or all."
            )
    return list(dict.fromkeys(asked))


def _find(folder: AnyPath, name: str) -> AnyPath:
    for place in _FOLDERS:
        if (folder / place / name).is_file():
            return folder / place / name
    raise FileNotFoundError(
        f"{folder} has no {name}, nor a folder XNLI-1.0 or XNLI-MT-1.0 with it: pass "
        "the folder of the published files as --data_dir."
    )
