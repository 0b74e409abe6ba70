"""Flags of the data of `run_classifier.py`: GLUE, or tables of the user's own."""

import dataclasses
from typing import Any

from absl import flags

from albert_tf.task_config import Classification, MultiLabel, TaskConfig, TextTask
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.training.fine_tuning_config import LOSS_SETTINGS, FineTuningConfig
from data_prep.fine_tuning import datasets, tables, xnli
from data_prep.fine_tuning.datasets import CUSTOM, TaskData
from flags import common_flags, fields, fine_tuning_flags, table_flags

FLAGS = flags.FLAGS

# Fields of tasks of texts that say how long texts are cut into windows.
_WINDOWS = ("window_pooling", "doc_stride", "max_windows")


def define_flags() -> None:
    """Defines the flags of the task and its files."""
    table_flags.define_task_name_flag(
        [*datasets.PUBLISHED, xnli.TASK_NAME, CUSTOM],
        "Task of GLUE or SuperGLUE, xnli, or custom: your own table. Default without "
        "--do_train: the model's.",
    )
    common_flags.define_data_dir_flag(
        "Folder of GLUE, SuperGLUE or XNLI, or of one task, with the published files."
    )
    flags.DEFINE_list(
        "languages",
        ["en"],
        "xnli: languages to evaluate and predict, separated by commas, or all.",
    )
    flags.DEFINE_string(
        "train_language",
        "",
        "xnli: language of the translation to train on. Default: the first of "
        "--languages, or en for all.",
    )
    table_flags.define_table_files("Custom task: ")
    common_flags.define_predict_file_flag(
        "Table to predict, of any task, instead of its test files."
    )
    table_flags.define_text_column_flag("Custom task: ")
    table_flags.define_text_pair_column_flag(
        "Custom task: column of the second text; empty: there is none."
    )
    table_flags.define_label_column_flag(
        "label",
        "Custom task: column of the label. Default without --do_train: the one that "
        "was trained on.",
    )
    flags.DEFINE_bool("regression", False, "Custom task: predict numbers.")
    table_flags.define_multi_label_flag("Custom task: a row has any number of labels.")
    flags.DEFINE_string(
        "label_separator",
        MultiLabel.label_separator,
        "Text between the labels of a row, with --multi_label.",
    )
    flags.DEFINE_string(
        "label_names",
        "",
        "File with the name of a label a line, with --multi_label; tables have their "
        "places, from 0. Default: tables have the names.",
    )
    fields.define(FineTuningConfig, *LOSS_SETTINGS, "tune_threshold")
    fields.define(Classification, *_WINDOWS)
    table_flags.define_on_bad_row_flag()


def read_data(
    tokenizer: AlbertTokenizer, task_config: TaskConfig | None = None
) -> TaskData:
    """Reads the splits that the flags name.

    Args:
      tokenizer: the model's.
      task_config: of a model that is trained already; None: training starts.
    """
    name = FLAGS.task_name or (task_config and task_config.task_name)
    if name is None:
        raise flags.Error(
            "Name the task: --task_name, as rte, or custom for a table of your own."
        )
    if task_config is None:
        if name == CUSTOM:
            return _train_on_tables(tokenizer)
        if name == xnli.TASK_NAME:
            return _read_xnli(tokenizer, FLAGS.max_seq_length)
        return _read_glue(name, tokenizer, FLAGS.max_seq_length, _windows())
    if task_config.task_name != name:
        raise ValueError(
            f"The model was trained for {task_config.task_name}, not for {name}: "
            "leave --task_name out."
        )
    if not isinstance(task_config, TextTask):
        raise ValueError(
            f"The model was trained for {name}, not to classify texts: give one that "
            "was."
        )
    if FLAGS["max_seq_length"].present:
        length = FLAGS.max_seq_length
        task_config = dataclasses.replace(task_config, max_seq_length=length)
    if name == CUSTOM:
        return _read_tables(tokenizer, task_config)
    length = task_config.max_seq_length or FLAGS.max_seq_length
    if name == xnli.TASK_NAME:
        return _read_xnli(tokenizer, length)
    windows = {field: getattr(task_config, field) for field in _WINDOWS}
    return _read_glue(name, tokenizer, length, windows)


def _windows() -> dict[str, Any]:
    """Fields of tasks that say how long texts are cut, by the flags."""
    return {name: FLAGS[name].value for name in _WINDOWS}


def _reading() -> dict[str, Any]:
    cache_dir = fine_tuning_flags.cache_dir()
    return {"cache_dir": cache_dir, "on_bad_row": FLAGS.on_bad_row}


def _read_glue(
    name: str, tokenizer: AlbertTokenizer, max_seq_length: int, windows: dict[str, Any]
) -> TaskData:
    splits = _published_splits()
    task_config = datasets.glue_config(name, max_seq_length, **windows)
    data = TaskData(task_config)
    if splits:
        data = datasets.glue(
            name,
            FLAGS.data_dir,
            tokenizer,
            splits,
            max_seq_length=max_seq_length,
            **windows,
            **_reading(),
        )
    return _with_predict_file(data, tokenizer)


def _read_xnli(tokenizer: AlbertTokenizer, max_seq_length: int) -> TaskData:
    if FLAGS.window_pooling:
        raise flags.Error("xnli has no long texts: leave --window_pooling out.")
    data = TaskData(xnli.xnli_config(max_seq_length))
    if splits := _published_splits():
        data = xnli.xnli(
            FLAGS.data_dir,
            tokenizer,
            [language.strip() for language in FLAGS.languages],
            splits,
            train_language=FLAGS.train_language,
            max_seq_length=max_seq_length,
            **_reading(),
        )
    return _with_predict_file(data, tokenizer)


def _published_splits() -> list[str]:
    """The splits that the flags ask for, of a task with published files."""
    wanted = {
        "train": FLAGS.do_train,
        "dev": FLAGS.do_eval,
        "test": FLAGS.do_predict and not FLAGS.predict_file,
    }
    splits = [split for split, is_wanted in wanted.items() if is_wanted]
    if splits and not FLAGS.data_dir:
        raise flags.Error("Name the folder of the task's files: --data_dir.")
    return splits


def _with_predict_file(data: TaskData, tokenizer: AlbertTokenizer) -> TaskData:
    """Adds the table of --predict_file, if it is asked for."""
    if not (FLAGS.do_predict and FLAGS.predict_file):
        return data
    # Not under the name of a submission: it may be any table.
    files = {"predict": FLAGS.predict_file}
    return data.with_test(
        datasets.table_of_task(files, tokenizer, data.task_config, **_reading())
    )


def _train_on_tables(tokenizer: AlbertTokenizer) -> TaskData:
    names = FLAGS.text_column, FLAGS.text_pair_column, FLAGS.label_column
    columns = tables.Columns(*names[:1], names[1] or None, names[2])
    if all(name.isdecimal() for name in names if name):
        # Places of columns, in tables without a header.
        places = [int(name) if name else None for name in names]
        columns = tables.Columns(*places, header=False)
    return datasets.table(
        table_flags.table_files(),
        tokenizer,
        columns,
        regression=FLAGS.regression,
        multi_label=FLAGS.multi_label,
        label_separator=FLAGS.label_separator,
        label_names=FLAGS.label_names or None,
        **_windows(),
        max_seq_length=FLAGS.max_seq_length,
        **_reading(),
    )


def _read_tables(tokenizer: AlbertTokenizer, task_config: TextTask) -> TaskData:
    # The files of some models do not say which texts a row has: the flags do.
    unknown = {"text": FLAGS.text_column, "text_pair": FLAGS.text_pair_column or None}
    columns = {"text": None, "text_pair": None, **(task_config.columns or unknown)}
    for name in ("text", "text_pair"):
        # A table may name its columns differently than the one trained on.
        is_needed = name == "text" or columns[name] is not None
        if is_needed and FLAGS[f"{name}_column"].present:
            columns[name] = FLAGS[f"{name}_column"].value
    return datasets.table_of_task(
        table_flags.table_files(),
        tokenizer,
        dataclasses.replace(task_config, columns=columns),
        label_column=FLAGS.label_column if FLAGS["label_column"].present else None,
        **_reading(),
    )
