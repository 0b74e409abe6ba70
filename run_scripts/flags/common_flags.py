"""Flags that several scripts share, in the groups in which scripts need them.

A flag that fills a field of a configuration takes its default and help from there
(`flags.fields`). Scripts define flags under `__main__`, since defining a flag twice in
a process is an error.
"""

from collections.abc import Mapping
from typing import Any

from absl import flags

from albert_tf.config import AlbertConfig, TrainConfig
from albert_tf.records.file_names import expand_paths
from albert_tf.records.masking_config import MaskingConfig
from albert_tf.records.sidecar import RecordSet, read_record_set
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.text.vocabulary_content import vocabulary_digest
from data_prep.corpus.reader import ReadingConfig
from data_prep.pretraining.config import PretrainingDataConfig
from flags import device_flags, fields
from flags.command_line import run as run

FLAGS = flags.FLAGS


# Files and folders, which differ in content from script to script.


def define_input_file_flag(content: str, required: bool = True) -> None:
    """Defines `--input_file`."""
    flags.DEFINE_string("input_file", None, content, required=required)


def define_predict_file_flag(content: str, required: bool = False) -> None:
    """Defines `--predict_file`."""
    default = None if required else ""
    flags.DEFINE_string("predict_file", default, content, required=required)


def define_train_file_flag(content: str) -> None:
    """Defines `--train_file`."""
    flags.DEFINE_string("train_file", "", content)


def define_data_dir_flag(content: str) -> None:
    """Defines `--data_dir`."""
    flags.DEFINE_string("data_dir", "", content)


def define_input_format_flag(
    default: str, formats: Mapping[str, Any], meaning: str
) -> None:
    """Defines `--input_format`."""
    flags.DEFINE_enum("input_format", default, sorted(formats), meaning)


def define_output_dir_flag(content: str = "", required: bool = True) -> None:
    """Defines `--output_dir`; without a content the folder of a run."""
    help_text = content or fields.field_help(TrainConfig, "output_dir")
    flags.DEFINE_string("output_dir", None, help_text, required=required)


def define_output_file_flag(content: str, default: str | None = None) -> None:
    """Defines `--output_file`, which is required if it has no default."""
    flags.DEFINE_string("output_file", default, content, required=default is None)


def define_export_dir_flag(content: str, required: bool) -> None:
    """Defines `--export_dir`."""
    default = None if required else ""
    flags.DEFINE_string("export_dir", default, content, required=required)


def define_model_version_flag(meaning: str) -> None:
    """Defines `--model_version`."""
    flags.DEFINE_integer("model_version", 0, meaning, lower_bound=0)


def define_model_flag(content: str) -> None:
    """Defines `--model`, a trained or published model."""
    flags.DEFINE_string("model", None, content, required=True)


def define_models_flag(content: str) -> None:
    """Defines `--models`, folders of trained models."""
    flags.DEFINE_list("models", None, content, required=True)


def define_top_k_flag() -> None:
    """Defines `--top_k`."""
    flags.DEFINE_integer(
        "top_k", 5, "Tokens listed for each [MASK], the likeliest.", lower_bound=1
    )


# Text and vocabulary.


def define_corpus_flags(required: bool = True, input_format: str = "lines") -> None:
    """Defines `--input_file --input_format --on_bad_text --language` of a text."""
    define_input_file_flag(
        "Text to read: files and globs (quote them), separated by commas; - is "
        "standard input. Files whose names end in .gz or .zst are unpacked while they "
        "are read.",
        required,
    )
    fields.define(
        ReadingConfig,
        "input_format",
        "on_bad_text",
        "language",
        input_format=input_format,
    )


def define_vocabulary_flag(default: str) -> None:
    """Defines `--vocabulary`, of either kind, with the meaning of its default."""
    flags.DEFINE_string(
        "vocabulary",
        None,
        "SentencePiece model, or a WordPiece vocabulary whose name ends in .txt. "
        f"{default}",
    )


def define_tokenizer_flags(
    cleaning: bool | None = True, checked_only: bool = False
) -> None:
    """Defines the vocabulary and the cleaning of text.

    Args:
      cleaning: default of lower-casing; None: as the model's folder says.
      checked_only: True if nothing is tokenized, and records are only checked to have
        been made with these.
    """
    check = " The records must have been made with it." if checked_only else ""
    flags.DEFINE_string(
        "spm_model_file",
        None,
        f"SentencePiece model (.model); replaces --vocab_file.{check}",
    )
    flags.DEFINE_string(
        "vocab_file",
        None,
        "WordPiece vocabulary, a token a line (the Chinese models have one). Not used "
        f"with --spm_model_file.{check}",
    )
    rule = " Default: as the model's folder says." if cleaning is None else ""
    if checked_only:
        rule = " The records must have been made so. Default: not checked."
    accents = rule or (
        " Default: for a SentencePiece model yes, for a WordPiece vocabulary as "
        "--do_lower_case."
    )
    define_text_cleaning_flags(cleaning, None, rule, accents)


def define_text_cleaning_flags(
    lower_case: bool | None = True,
    strip_accents: bool | None = True,
    of_case: str = "",
    of_accents: str = "",
) -> None:
    """Defines how text is cleaned before it is tokenized.

    Args:
      lower_case: default of `--do_lower_case`.
      strip_accents: default of `--strip_accents`.
      of_case: meaning of no `--do_lower_case`, a sentence with a space before it.
      of_accents: meaning of no `--strip_accents`, the same.
    """
    flags.DEFINE_bool("do_lower_case", lower_case, f"Lower-case the text.{of_case}")
    flags.DEFINE_bool(
        "strip_accents",
        strip_accents,
        f"Drop combining marks, so that u and ü are one letter.{of_accents}",
    )


def make_tokenizer() -> AlbertTokenizer:
    """Returns the tokenizer that `define_tokenizer_flags` describes."""
    if not FLAGS.spm_model_file and not FLAGS.vocab_file:
        raise flags.Error("Name the vocabulary: --spm_model_file or --vocab_file.")
    return AlbertTokenizer(
        spm_model_file=FLAGS.spm_model_file,
        vocab_file=None if FLAGS.spm_model_file else FLAGS.vocab_file,
        lower_case=FLAGS.do_lower_case,
        strip_accents=FLAGS.strip_accents,
    )


def vocabulary_sha256() -> str | None:
    """Returns the digest of the flags' vocabulary; None: they name none."""
    path = FLAGS.spm_model_file or FLAGS.vocab_file
    return vocabulary_digest(path) if path else None


# Rows and records.


def define_max_seq_length_flag(
    default: int = PretrainingDataConfig.max_seq_length,
) -> None:
    """Defines `--max_seq_length` of rows that are made or read."""
    fields.define(PretrainingDataConfig, "max_seq_length", max_seq_length=default)


def define_max_predictions_flag() -> None:
    """Defines `--max_predictions_per_seq` of rows that are made or read."""
    fields.define(MaskingConfig, "max_predictions_per_seq")


def define_record_flags() -> None:
    """Defines `--input_file` and `--eval_input_file` of pretraining records."""
    define_input_file_flag(
        "TFRecord files of create_pretraining_data.py, or globs, separated by commas.",
        required=False,
    )
    flags.DEFINE_string(
        "eval_input_file",
        "",
        "Records to evaluate on. Default: --input_file (only without --do_train).",
    )


def read_records(pattern: str, expected: Mapping[str, Any]) -> RecordSet:
    """Returns the record set of a comma list of files and globs, checked."""
    return read_record_set(expand_paths(pattern), expected)


# Models.


def define_config_file_flag(required: bool = True) -> None:
    """Defines `--albert_config_file`."""
    flags.DEFINE_string(
        "albert_config_file",
        None,
        "The model's configuration, JSON; see configs/. Default: the file next to the "
        "weights, which it must not contradict, except in rates of dropout.",
        required=required,
    )


def define_init_checkpoint_flag(use: str = "") -> None:
    """Defines `--init_checkpoint`.

    Args:
      use: what it means where nothing is trained, a sentence.
    """
    flags.DEFINE_string(
        "init_checkpoint",
        "",
        "Weights to start from: a checkpoint, by its path up to .index or by its "
        "folder, own or TensorFlow 1; the folder of a hub module, a SavedModel or a "
        "Hugging Face model; an output folder, of one run or several, for its best "
        "weights. To resume a run pass its --output_dir again. " + use,
    )


def define_config_override_flag() -> None:
    """Defines `--config_override`."""
    flags.DEFINE_multi_string(
        "config_override",
        [],
        "A value of the model's configuration that replaces the file's, as "
        "embedding_size=64 or ffn_groups=12. May be repeated.",
    )


def define_sharing_flags() -> None:
    """Defines how a model that is trained shares parameters with its start."""
    define_config_override_flag()
    flags.DEFINE_bool(
        "unshare",
        False,
        "Let layers that share weights in --init_checkpoint start as copies of them. "
        "If the configuration shares everything, every layer gets its own.",
    )
    flags.DEFINE_alias("init_from_group0", "unshare")


def model_config(weights: str = "") -> AlbertConfig:
    """Returns the configuration that the flags of a model describe.

    `--albert_config_file` must not contradict the configuration next to the weights;
    `--config_override` may, and `--unshare` if it is defined.

    Args:
      weights: the weights that the flags name, as `output_folders.locate_best` gives
        them; empty: there are none yet.
    """
    from albert_tf.checkpoints import agreement, model_dir

    if weights:
        file, overrides = FLAGS.albert_config_file, FLAGS.config_override
        config = agreement.choose_config(weights, file, overrides)
    elif FLAGS.albert_config_file:
        config = model_dir.read_config_file(FLAGS.albert_config_file)
        config = config.override(FLAGS.config_override)
    else:
        raise flags.Error("Name the model's configuration: --albert_config_file.")
    if "unshare" not in FLAGS or not FLAGS.unshare:
        return config
    if not weights:
        raise flags.Error("--unshare needs the weights to copy: --init_checkpoint.")
    return config.unshared()


def initial_weights() -> str:
    """Returns the weights that `--init_checkpoint` names; empty: it names none."""
    if not FLAGS.init_checkpoint:
        return ""
    from albert_tf.checkpoints import output_folders

    return output_folders.locate_best(FLAGS.init_checkpoint)


# Training.


def define_run_flags(**defaults: Any) -> None:
    """Defines a run's actions, folder, sizes and intervals.

    Args:
      **defaults: by flag name, in place of those of `TrainConfig`.
    """
    define_output_dir_flag()
    flags.DEFINE_bool("do_train", True, "Train.")
    flags.DEFINE_bool("do_eval", False, "Evaluate; after training, if there is any.")
    fields.define(
        TrainConfig,
        "train_batch_size",
        "eval_batch_size",
        "save_checkpoints_steps",
        "eval_steps",
        "keep_checkpoint_max",
        "iterations_per_loop",
        "max_eval_steps",
        "max_train_hours",
        "use_ema",
        "random_seed",
        **defaults,
    )
    define_device_flags()


def define_device_flags() -> None:
    """Defines a run's devices, and how it trades memory, speed and precision."""
    device_flags.define_tpu_flags()
    define_step_flags()
    define_jit_compile_flag()
    device_flags.refuse_precisions_of_gpus()


def define_step_flags(precision: str = TrainConfig.precision) -> None:
    """Defines how a step trades memory, speed and precision."""
    fields.define(TrainConfig, "gradient_accumulation_steps")
    define_precision_flag(precision)
    define_rematerialize_flag()


def define_precision_flag(default: str = TrainConfig.precision) -> None:
    """Defines `--precision`."""
    fields.define(TrainConfig, "precision", precision=default)


def define_rematerialize_flag() -> None:
    """Defines `--rematerialize`."""
    fields.define(TrainConfig, "rematerialize")


def define_jit_compile_flag() -> None:
    """Defines `--jit_compile`."""
    fields.define(TrainConfig, "jit_compile")


def define_random_seed_flag(use: str) -> None:
    """Defines `--random_seed` where it is not that of training."""
    flags.DEFINE_integer("random_seed", TrainConfig.random_seed, use)


def define_use_ema_flag() -> None:
    """Defines `--use_ema` alone."""
    fields.define(TrainConfig, "use_ema")


def train_config() -> TrainConfig:
    """Returns what `define_run_flags` describes."""
    return fields.read(TrainConfig)
