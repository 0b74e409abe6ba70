"""Flags of the columns of tables of texts, and of what their labels are."""

from collections.abc import Sequence

from absl import flags

from data_prep.fine_tuning import tables

FLAGS = flags.FLAGS


def define_task_name_flag(
    names: Sequence[str], content: str, default: str | None = None
) -> None:
    """Defines `--task_name`."""
    flags.DEFINE_enum("task_name", default, names, content, case_sensitive=False)


def define_text_column_flag(kind: str = "") -> None:
    """Defines `--text_column`; `kind` says of which tables, as "Custom task: "."""
    flags.DEFINE_string("text_column", "text", f"{kind}Column of the text.")


def define_label_column_flag(default: str, content: str) -> None:
    """Defines `--label_column`."""
    flags.DEFINE_string("label_column", default, content)


def define_multi_label_flag(content: str) -> None:
    """Defines `--multi_label`."""
    flags.DEFINE_bool("multi_label", False, content)


def define_batch_size_flag(default: int, things: str) -> None:
    """Defines `--batch_size` of commands that only answer."""
    flags.DEFINE_integer("batch_size", default, f"{things} at a time.", lower_bound=1)


def define_table_files(kind: str = "") -> None:
    """Defines `--train_file --dev_file --test_file`, tables; `kind` as above."""
    for name, purpose in {
        "train_file": "to train on",
        "dev_file": "to evaluate on",
        "test_file": "to predict, with --do_predict",
    }.items():
        flags.DEFINE_string(
            name, "", f"{kind}Table {purpose}: .tsv, .csv, .jsonl or .parquet."
        )


def define_text_pair_column_flag(content: str, default: str = "") -> None:
    """Defines `--text_pair_column`."""
    flags.DEFINE_string("text_pair_column", default, content)


def define_on_bad_row_flag() -> None:
    """Defines `--on_bad_row`."""
    flags.DEFINE_enum(
        "on_bad_row",
        "error",
        tables.ON_BAD_ROW,
        "A row that cannot be read: stop with its file and line, or skip and count it.",
    )


def table_files() -> dict[str, str]:
    """Split -> the user's own table, of the splits that the flags ask for."""
    if FLAGS.do_train and not FLAGS.train_file:
        raise flags.Error("Name the table to train on: --train_file.")
    if FLAGS.do_eval and not FLAGS.dev_file:
        raise flags.Error("--do_eval needs rows: pass --dev_file.")
    test_file = FLAGS.predict_file or FLAGS.test_file
    if FLAGS.do_predict and not test_file:
        raise flags.Error("--do_predict needs rows: pass --predict_file.")
    files = {
        "train": FLAGS.do_train and FLAGS.train_file,
        "dev": FLAGS.do_eval and FLAGS.dev_file,
        "test": FLAGS.do_predict and test_file,
    }
    return {name: file for name, file in files.items() if file}
