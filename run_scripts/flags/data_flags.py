"""Flags of making pretraining data."""

from absl import flags, logging

from albert_tf.records.masking_config import MaskingConfig
from data_prep.corpus.tokenize import TextConfig
from data_prep.parallel import default_count
from data_prep.pretraining.config import PretrainingDataConfig
from flags import common_flags, fields

FLAGS = flags.FLAGS

_OF_MASKS = (
    "max_predictions_per_seq",
    "masked_lm_prob",
    "ngram",
    "favor_shorter_ngram",
    "do_whole_word_mask",
)


def define_pretraining_data_flags(output_file: str | None = None) -> None:
    """Defines the configuration of pretraining rows, with the original's names.

    Args:
      output_file: default of `--output_file`, which is required without one.
    """
    common_flags.define_output_file_flag(
        "TFRecord files to write, separated by commas; NAME@64 stands for 64 files "
        "NAME-00000-of-00064 and so on. A sidecar FILE.json is written beside each.",
        output_file,
    )
    fields.define(
        PretrainingDataConfig,
        "max_seq_length",
        "short_seq_prob",
        "dupe_factor",
        "random_seed",
        "pair_objective",
        "pack_documents",
        "max_documents_per_row",
    )
    flags.DEFINE_enum(
        "masking",
        "static",
        ["static", "none"],
        "static: rows are stored with masks, the paper's way. none: compact rows "
        "without masks and padding, made once; training masks them anew in each epoch.",
    )
    fields.define(MaskingConfig, *_OF_MASKS)
    fields.define(TextConfig, "chinese_segmenter")
    flags.DEFINE_bool(
        "random_next_sentence", False, "The original's name of --pair_objective=nsp."
    )


def pretraining_data_config() -> PretrainingDataConfig:
    """Returns the configuration that `define_pretraining_data_flags` describes."""
    if FLAGS.masking == "static":
        masking = {"masking": fields.read(MaskingConfig)}
    else:
        masking = {"masking": None, "dupe_factor": _one_pass()}
    return fields.read(
        PretrainingDataConfig, pair_objective=pair_objective(), **masking
    )


def _one_pass() -> int:
    """Returns the `--dupe_factor` of rows without masks.

    Raises:
      flags.Error: a flag of masks is given.
    """
    for name in _OF_MASKS:
        if FLAGS[name].present:
            raise flags.Error(
                f"--{name} is about masks, which --masking=none leaves to training: "
                "pass it to run_pretraining.py, or leave out --masking=none."
            )
    return FLAGS.dupe_factor if FLAGS["dupe_factor"].present else 1


def pair_objective() -> str:
    """Returns the value of `--pair_objective` or of its old name."""
    if not FLAGS.random_next_sentence:
        return FLAGS.pair_objective
    if FLAGS["pair_objective"].present and FLAGS.pair_objective != "nsp":
        raise flags.Error(
            "--random_next_sentence means --pair_objective=nsp, not "
            f"{FLAGS.pair_objective}: give one of them."
        )
    return "nsp"


def define_num_workers_flag() -> None:
    """Defines `--num_workers`."""
    flags.DEFINE_integer(
        "num_workers",
        None,
        "Processes that share the work, at most as many as there are processors; "
        "default: all processors that may be used. The output is the same for any "
        "number.",
        lower_bound=1,
    )


def num_workers() -> int:
    """Returns `--num_workers`, by default and at most the number of processors.

    Each process keeps tokenized text in memory, and more of them than processors are
    slower, so a larger number is lowered with a warning.
    """
    if "scheduler" in FLAGS and FLAGS.scheduler and FLAGS["num_workers"].present:
        raise flags.Error(
            "--num_workers counts processes of this machine, --scheduler has workers "
            "of its own: give one of them."
        )
    processors = default_count()
    if FLAGS.num_workers is not None and FLAGS.num_workers > processors:
        logging.warning(
            "--num_workers=%d: this process may use %d processors, so %d processes "
            "are started.",
            FLAGS.num_workers,
            processors,
            processors,
        )
    return min(FLAGS.num_workers or processors, processors)


def define_data_run_flags() -> None:
    """Defines how and where pretraining data is made."""
    define_num_workers_flag()
    flags.DEFINE_string(
        "scheduler",
        "",
        "tcp://HOST:PORT of a Dask scheduler: its workers share the work, instead of "
        "processes of this machine. They must see the text, --output_file and "
        "--work_dir: in a bucket, or on a disk that all mount at the same place.",
    )
    flags.DEFINE_string(
        "shard_range",
        "",
        "FIRST:END: make only these of the output files, the end not included, so that "
        "several machines share the work.",
    )
    define_work_dir_flag(
        "Folder for tokenized text (half as large as the text) and unshuffled rows (of "
        "the files in work); default: beside the output. Removed when all files are "
        "made. Machines that share it share the tokenization.",
    )
    define_dry_run_flag(
        "Write nothing; predict rows and bytes from a sample of the text."
    )


def define_dry_run_flag(meaning: str) -> None:
    """Defines `--dry_run`."""
    flags.DEFINE_bool("dry_run", False, meaning)


def define_data_benchmark_flags() -> None:
    """Defines the measurements of `benchmark.py data`."""
    flags.DEFINE_integer(
        "max_workers", 2, "Processes to compare with one.", lower_bound=1
    )
    define_repeats_flag(3, "Runs of each kind; the best counts.")
    flags.DEFINE_integer(
        "text_copies",
        1,
        "Times the text is read: more for a short text, or starting takes the time.",
        lower_bound=1,
    )


def define_repeats_flag(default: int, meaning: str) -> None:
    """Defines `--repeats` of a benchmark."""
    flags.DEFINE_integer("repeats", default, meaning, lower_bound=1)


def define_work_dir_flag(content: str) -> None:
    """Defines `--work_dir`."""
    flags.DEFINE_string("work_dir", "", content)
