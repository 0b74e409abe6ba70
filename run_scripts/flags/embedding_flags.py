"""Flags of how vectors are made of texts, and of the data that trains them."""

import dataclasses

from absl import flags

from albert_tf.storage import PathLike
from albert_tf.task_config import POOLINGS, Embedding, TaskConfig
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.fine_tuning import embedding_data
from data_prep.fine_tuning.datasets import CUSTOM, TaskData
from flags import common_flags, fields, fine_tuning_flags, table_flags

FLAGS = flags.FLAGS


def define_vector_flags() -> None:
    """Defines `--pooling --normalize`, whose defaults are the model's."""
    flags.DEFINE_enum(
        "pooling",
        None,
        POOLINGS,
        "What of a text its vector is: the mean of its tokens, the first token, or the "
        "pooled output. Default: what the model was trained for, or else mean.",
    )
    flags.DEFINE_bool(
        "normalize",
        None,
        "Give vectors the length 1. Default: as the model was trained, or else yes.",
    )


def define_training_flags() -> None:
    """Defines the data and the loss of `run_embedding.py`."""
    table_flags.define_task_name_flag(
        [embedding_data.STS_B, CUSTOM],
        "sts-b: that of GLUE. custom: your own tables.",
        CUSTOM,
    )
    common_flags.define_data_dir_flag("sts-b: folder of GLUE, or of the task.")
    table_flags.define_table_files("Custom task: ")
    common_flags.define_predict_file_flag("Table of pairs to predict instead of those.")
    table_flags.define_text_column_flag("Custom task: ")
    table_flags.define_text_pair_column_flag(
        "Custom task: column of a text that is near to the first.", "text_pair"
    )
    flags.DEFINE_string(
        "negative_column",
        "",
        "Custom task: column of a text that is not near to the first; empty: none.",
    )
    table_flags.define_label_column_flag(
        "", "Custom task: column of how near both texts are; empty: there is none."
    )
    flags.DEFINE_list(
        "score_bounds",
        ["0", "1"],
        "Custom task: lowest and highest score of --label_column.",
    )
    fields.define(Embedding, "loss", "scale", loss="in_batch_negatives")
    define_vector_flags()
    table_flags.define_on_bad_row_flag()


def task_of(model: PathLike, task_config: TaskConfig | None) -> Embedding:
    """Returns how vectors of a model are made: by its task, its folder or the flags.

    Args:
      model: its folder or weights.
      task_config: what it was trained for; None: no task.
    """
    from albert_tf.checkpoints import sentence_transformers

    known = task_config
    if not isinstance(known, Embedding):
        known = sentence_transformers.read_pooling(model) or Embedding(CUSTOM)
    given = {
        name: FLAGS[name].value
        for name in ("pooling", "normalize")
        if FLAGS[name].value is not None
    }
    return dataclasses.replace(known, **given)


def read_data(
    tokenizer: AlbertTokenizer, model: PathLike, task_config: TaskConfig | None
) -> TaskData:
    """Reads the splits that the flags name.

    Args:
      tokenizer: the model's.
      model: the model to start from, or to use.
      task_config: of a model that is trained already; None: training starts, or the
        model was trained for no task.
    """
    if task_config is not None and not isinstance(task_config, Embedding):
        raise ValueError(
            f"The model was trained for {task_config.task_name} ({task_config.kind}), "
            "not for vectors: give one that was, or an encoder."
        )
    task = _task(model, task_config)
    reading = {
        "cache_dir": fine_tuning_flags.cache_dir(),
        "on_bad_row": FLAGS.on_bad_row,
    }
    if task.task_name != embedding_data.STS_B:
        files = table_flags.table_files()
        return embedding_data.pairs(files, tokenizer, task, **reading)
    if FLAGS.predict_file:
        raise flags.Error("--predict_file is for --task_name=custom.")
    if not FLAGS.data_dir:
        raise flags.Error("Name the folder of the task's files: --data_dir.")
    asked = {"train": FLAGS.do_train, "dev": FLAGS.do_eval, "test": FLAGS.do_predict}
    splits = [split for split, is_asked in asked.items() if is_asked]
    return embedding_data.sts_b(FLAGS.data_dir, tokenizer, task, splits, **reading)


def _task(model: PathLike, task_config: Embedding | None) -> Embedding:
    task = task_of(model, task_config)
    length = FLAGS.max_seq_length
    if task_config is not None and task_config.columns:
        # A trained model reads tables as it did.
        if FLAGS["max_seq_length"].present or task.max_seq_length is None:
            task = dataclasses.replace(task, max_seq_length=length)
        return task
    try:
        low, high = (float(bound) for bound in FLAGS.score_bounds)
    except ValueError:
        raise flags.Error(
            "--score_bounds are two numbers. Received "
            f"{','.join(FLAGS.score_bounds)!r:.80}."
        ) from None
    columns = {
        "text": FLAGS.text_column,
        "text_pair": FLAGS.text_pair_column,
        "label": FLAGS.label_column or None,
    }
    if FLAGS.negative_column:
        columns["negative"] = FLAGS.negative_column
    try:
        return dataclasses.replace(
            task,
            task_name=FLAGS.task_name,
            loss=FLAGS.loss,
            scale=FLAGS.scale,
            has_scores=bool(FLAGS.label_column)
            or FLAGS.task_name == embedding_data.STS_B,
            max_seq_length=length,
            columns=columns,
            bounds=(low, high),
        )
    except ValueError as error:
        raise flags.Error(str(error)) from None
