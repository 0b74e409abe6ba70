"""Flags of the data of `run_tagging.py`: sentences with a tag for each word."""

import dataclasses

from absl import flags

from albert_tf.storage import PathLike
from albert_tf.task_config import Tagging, TaskConfig
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.fine_tuning import tagging_data
from data_prep.fine_tuning.datasets import TaskData
from data_prep.fine_tuning.tagged_files import TaggedFile
from data_prep.fine_tuning.tagged_sentences import TagColumns
from flags import common_flags, fine_tuning_flags

FLAGS = flags.FLAGS

_FORMATS = "columns of CoNLL, or .jsonl of tokens and tags or of text and entities"


def define_flags() -> None:
    """Defines the flags of the files, of their columns and of windows."""
    common_flags.define_data_dir_flag(
        "Folder with train, dev (or valid) and test, each a file that ends in one of "
        f"{', '.join(tagging_data.SUFFIXES)}. Files that flags name go before."
    )
    common_flags.define_train_file_flag(f"Sentences to train on: {_FORMATS}.")
    for name, purpose in {
        "dev_file": "to evaluate on",
        "test_file": "to predict, with --do_predict; scored if they have tags",
    }.items():
        flags.DEFINE_string(name, "", f"Sentences {purpose}.")
    common_flags.define_predict_file_flag("Sentences to predict instead of those.")
    defaults = TagColumns()
    flags.DEFINE_integer(
        "token_column",
        defaults.token,
        "CoNLL: column of the word, from 0; negative: from the last.",
    )
    flags.DEFINE_integer("tag_column", defaults.tag, "CoNLL: column of the tag.")
    flags.DEFINE_integer(
        "doc_stride",
        Tagging.doc_stride,
        "Of a sentence longer than --max_seq_length, tokens from the start of a window "
        "to the start of the next.",
    )


def read_data(
    tokenizer: AlbertTokenizer, task_config: TaskConfig | None = None
) -> tuple[TaskData, dict[str, TaggedFile]]:
    """Reads the splits that the flags name.

    Args:
      tokenizer: the model's.
      task_config: of a model that is trained already; None: training starts.
    Returns:
      The splits, and the file of each.
    """
    lengths = {name: FLAGS[name].value for name in ("max_seq_length", "doc_stride")}
    if task_config is not None:
        if not isinstance(task_config, Tagging):
            raise ValueError(
                f"The model was trained for {task_config.task_name}, not to tag words: "
                "give one that was."
            )
        given = {name: value for name, value in lengths.items() if FLAGS[name].present}
        task_config = dataclasses.replace(task_config, **given)
    columns = TagColumns(FLAGS.token_column, FLAGS.tag_column)
    files = tagging_data.read_files(_files(), columns)
    data = tagging_data.tagging(
        files,
        tokenizer,
        task_config,
        **lengths,
        cache_dir=fine_tuning_flags.cache_dir(),
    )
    return data, files


def _files() -> dict[str, PathLike]:
    """Split -> its file, of the splits that the flags ask for."""
    wanted = {
        "train": (FLAGS.do_train, FLAGS.train_file),
        "dev": (FLAGS.do_eval, FLAGS.dev_file),
        "test": (FLAGS.do_predict, FLAGS.predict_file or FLAGS.test_file),
    }
    files: dict[str, PathLike] = {}
    for split, (is_wanted, file) in wanted.items():
        if is_wanted and file:
            files[split] = file
        elif is_wanted and FLAGS.data_dir:
            files |= tagging_data.tagging_files(FLAGS.data_dir, [split])
        elif is_wanted:
            raise flags.Error(
                f"Name the sentences of {split}: --{split}_file, or --data_dir."
            )
    return files
