"""Flags of the data of `run_squad.py`, and of its answers."""

import dataclasses

from absl import flags

from albert_tf.task_config import Squad, TaskConfig
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.fine_tuning import datasets, squad
from data_prep.fine_tuning.datasets import TaskData
from flags import common_flags, fine_tuning_flags

FLAGS = flags.FLAGS


def define_flags() -> None:
    """Defines the flags of the files, of windows, and of what may be an answer."""
    common_flags.define_train_file_flag("SQuAD JSON to train on, v1.1 or v2.0.")
    common_flags.define_predict_file_flag(
        "SQuAD JSON to evaluate on (--do_eval) or to answer (--do_predict)."
    )
    flags.DEFINE_bool(
        "version_2_with_negative",
        None,
        "True if questions may have no answer (v2.0). Default: as --train_file says.",
    )
    for name, help_text in {
        "doc_stride": "Tokens from the start of a window to the start of the next.",
        "max_query_length": "Most tokens of a question; it is truncated at its end.",
        "max_answer_length": "Most tokens of an answer.",
        "start_n_top": "v2.0: number of start positions kept in the beam.",
        "end_n_top": "v2.0: number of end positions kept for each start.",
    }.items():
        flags.DEFINE_integer(name, getattr(Squad, name), help_text)
    define_answer_flags()


def define_answer_flags() -> None:
    """Defines the flags of lists of answers and of the threshold."""
    flags.DEFINE_integer(
        "n_best_size", Squad.n_best_size, "Answers in a question's list."
    )
    flags.DEFINE_float(
        "null_threshold",
        None,
        "v2.0: answer a question if its null score, a logit, is lower; inf: always, "
        "-inf: never. Default: the model's, which is 0 unless it was tuned.",
    )
    flags.DEFINE_bool(
        "tune_threshold",
        False,
        "v2.0: find the threshold of the best F1 on --predict_file, the development "
        "data, and keep it with the model.",
    )


def read_data(
    tokenizer: AlbertTokenizer, task_config: TaskConfig | None = None
) -> TaskData:
    """Reads the files that the flags name.

    Args:
      tokenizer: the model's.
      task_config: of a model that is trained already; None: training starts.
    """
    if FLAGS.do_train and not FLAGS.train_file:
        raise flags.Error("--do_train needs questions: pass --train_file.")
    answering = FLAGS.do_eval or FLAGS.do_predict
    if answering and not FLAGS.predict_file:
        raise flags.Error("--do_eval and --do_predict need --predict_file.")
    files = {}
    if FLAGS.do_train:
        files["train"] = squad.read_squad(FLAGS.train_file)
    if answering:
        split = "dev" if FLAGS.do_eval else "test"
        files[split] = squad.read_squad(FLAGS.predict_file)
    task_config = _task_config(task_config, files.get("train"))
    check_threshold(task_config.version_2)
    if FLAGS.tune_threshold and not FLAGS.do_eval:
        raise flags.Error("--tune_threshold needs --do_eval on a development set.")
    cache_dir = fine_tuning_flags.cache_dir()
    return datasets.squad(files, tokenizer, task_config, cache_dir=cache_dir)


def check_threshold(version_2: bool) -> None:
    """Raises flags.Error if a threshold is given for a model that has none."""
    if not version_2 and (FLAGS.tune_threshold or FLAGS.null_threshold is not None):
        raise flags.Error(
            "--null_threshold and --tune_threshold are for v2.0: a v1.1 model always "
            "answers."
        )


def _task_config(known: TaskConfig | None, train: squad.SquadFile | None) -> Squad:
    """The model's task configuration changed by the flags given; else the flags'."""
    given = {
        field.name: FLAGS[field.name].value
        for field in dataclasses.fields(Squad)
        if field.name in FLAGS and (FLAGS[field.name].present or known is None)
    }
    if FLAGS.null_threshold is not None:
        given["threshold"] = FLAGS.null_threshold
    asked = FLAGS.version_2_with_negative
    if known is None:
        version_2 = train.has_impossible if asked is None else asked
        return Squad(version_2, **given)
    task_config = dataclasses.replace(Squad.require(known), **given)
    if asked is not None and asked != task_config.version_2:
        raise ValueError(
            f"The model was trained for {task_config.task_name}, so that "
            f"version_2_with_negative is {task_config.version_2}: leave it out."
        )
    return task_config
