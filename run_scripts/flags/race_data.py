"""Flags of the data of `run_race.py`: RACE, or questions of the user's own."""

from absl import flags

from albert_tf.task_config import MultipleChoice, TaskConfig
from albert_tf.text.tokenizer import AlbertTokenizer
from data_prep.fine_tuning import datasets, race
from data_prep.fine_tuning.datasets import TaskData
from flags import common_flags, fine_tuning_flags

FLAGS = flags.FLAGS

TASK_NAME = "race"


def define_flags() -> None:
    """Defines the flags of the questions and of the lengths of their inputs."""
    common_flags.define_data_dir_flag(
        "Folder of the published RACE, with train, dev and test; of format jsonl, one "
        "with train.jsonl, dev.jsonl and test.jsonl."
    )
    common_flags.define_input_format_flag(
        "race",
        race.INPUT_FORMATS,
        "race: as published, a JSON object a passage; or those of a folder in all.txt. "
        "jsonl: a JSON object a question, with article, question, options (2 to 26) "
        "and answer (a letter; not needed to predict). copa: SuperGLUE's COPA, as "
        "published.",
    )
    flags.DEFINE_bool("high_only", False, "RACE: only questions for high schools.")
    flags.DEFINE_bool("middle_only", False, "RACE: only those for middle schools.")
    common_flags.define_predict_file_flag(
        "File or folder to predict instead of the test files."
    )
    flags.DEFINE_integer(
        "max_qa_length",
        MultipleChoice.max_qa_length,
        "Most tokens of question and option together, the last of them; 0: limited by "
        "--max_seq_length only.",
    )


def read_data(
    tokenizer: AlbertTokenizer, task_config: TaskConfig | None = None
) -> TaskData:
    """Reads the splits that the flags name.

    Args:
      tokenizer: the model's.
      task_config: of a model that is trained already; None: training starts.
    """
    levels = _levels()
    lengths = {
        name: FLAGS[name].value
        for name in ("max_seq_length", "max_qa_length")
        if task_config is None or FLAGS[name].present
    }
    known = {}
    if task_config is not None:
        if not isinstance(task_config, MultipleChoice):
            raise ValueError(
                f"The model was trained for {task_config.task_name}, not for multiple "
                "choice: give one that was."
            )
        known = {
            "max_seq_length": task_config.max_seq_length,
            "max_qa_length": task_config.max_qa_length,
        }
    name, all_levels = TASK_NAME, race.LEVELS
    if FLAGS.input_format == race.COPA:
        name, all_levels = race.COPA, ()
    return datasets.race(
        _files(),
        tokenizer,
        MultipleChoice(name, all_levels, **(known | lengths)),
        input_format=FLAGS.input_format,
        levels=levels,
        cache_dir=fine_tuning_flags.cache_dir(),
    )


def _levels() -> tuple[str, ...]:
    if not (FLAGS.high_only or FLAGS.middle_only):
        return race.LEVELS
    if FLAGS.high_only and FLAGS.middle_only:
        raise flags.Error("--high_only and --middle_only leave nothing: pass one.")
    if FLAGS.input_format != "race":
        raise flags.Error(
            "--high_only and --middle_only are for RACE's folders: questions of "
            f"--input_format={FLAGS.input_format} have no level."
        )
    return ("high",) if FLAGS.high_only else ("middle",)


def _files() -> dict[str, str]:
    """Split -> its file or folder, of the splits that the flags ask for."""
    predict_file = FLAGS.predict_file if FLAGS.do_predict else ""
    wanted = {
        "train": FLAGS.do_train,
        "dev": FLAGS.do_eval,
        "test": FLAGS.do_predict and not predict_file,
    }
    splits = [split for split, asked in wanted.items() if asked]
    if splits and not FLAGS.data_dir:
        raise flags.Error("Name the folder of the questions: --data_dir.")
    files = datasets.race_files(FLAGS.data_dir, splits, FLAGS.input_format)
    named = {"test": predict_file} if predict_file else {}
    return {**{name: str(path) for name, path in files.items()}, **named}
