"""Every flag of the scripts, defined once, in groups, and how a script runs.

The flags of making and looking at pretraining data are in `data_flags.py`.

A script calls the groups that it needs under `__main__` (a flag defined twice in
one process is an error), passes its own defaults, and hands its `main` to `run`.
"""

import dataclasses
import os
import sys

from absl import app, flags, logging

from data_prep.corpus.reader import INPUT_FORMATS, ON_BAD_TEXT
from flags.help import script_help

FLAGS = flags.FLAGS

# `--help` in the forms that absl knows.
_HELP = frozenset({"--help", "-help", "--helpshort", "-helpshort", "-h", "-?"})

# TensorFlow's start-up notes hide a script's own lines; its errors are exceptions.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def run(main, words: str = "") -> None:
    """Parses the command line and calls `main()`; says errors in one line.

    Exit codes: 0 done, 1 a wrong value or file, 2 a wrong flag. `--verbosity=1` shows
    the traceback as well.

    Args:
      main: a function that reads `FLAGS`; without arguments, or with one if there are
        words.
      words: what the command line has besides flags, for its usage line: then `main`
        gets a list of them, at least one. Empty: nothing.
    """

    def parse(arguments):
        if _HELP & set(arguments[1:]):
            print(script_help(sys.modules["__main__"].__doc__ or "", FLAGS))
            sys.exit(0)
        try:
            return FLAGS(arguments)
        except flags.Error as error:
            _print_error(error)
            sys.exit(2)

    def guarded(arguments):
        try:
            if words and len(arguments) < 2:
                raise flags.Error(f"Usage: {os.path.basename(arguments[0])} {words}")
            if len(arguments) > 1 and not words:
                raise flags.Error(f"Unknown argument {arguments[1]!r}: flags start --.")
            if not FLAGS["verbosity"].present:
                # Libraries report each of their steps; a script's own lines are prints.
                logging.set_verbosity(logging.WARNING)
            main(arguments[1:]) if words else main()
        except flags.Error as error:
            _print_error(error)
            sys.exit(2)
        except KeyboardInterrupt:
            print("Interrupted.", file=sys.stderr)
            sys.exit(130)
        except Exception as error:
            if not isinstance(error, _expected_errors()):
                raise
            _print_error(error)
            if logging.level_debug():
                raise
            sys.exit(1)

    app.run(guarded, flags_parser=parse)


def _expected_errors() -> tuple:
    """Kinds of error that are about values and files, not about the code."""
    tensorflow = sys.modules.get("tensorflow")
    # Sizes that no machine has end as the last two.
    return (
        ValueError,
        OSError,
        MemoryError,
        RecursionError,
        *([tensorflow.errors.OpError] if tensorflow else []),
    )


def _print_error(error: Exception) -> None:
    print("ERROR: " + " ".join(str(error).split()), file=sys.stderr)


def define_corpus_flags(required: bool = True, input_format: str = "lines") -> None:
    """Input text: `--input_file --input_format --on_bad_text --language`."""
    flags.DEFINE_string(
        "input_file",
        None,
        "Text to read: files and globs (quote them), separated by commas. A name that "
        "ends in .gz is unpacked while it is read.",
        required=required,
    )
    flags.DEFINE_enum(
        "input_format",
        input_format,
        sorted(INPUT_FORMATS),
        "lines: one sentence a line, a blank line between documents. raw: a file is a "
        "document, a blank line between paragraphs, sentences are found. jsonl: a JSON "
        "object a line, its document under the key `text`, sentences are found. squad, "
        "race: each passage of such JSON files is a document.",
    )
    flags.DEFINE_enum(
        "on_bad_text",
        "error",
        ON_BAD_TEXT,
        "A line that is not UTF-8 (jsonl: or not an object with a `text`): stop with "
        "its file and line, or skip and count it.",
    )
    flags.DEFINE_string(
        "language",
        "en",
        "Language of the text, as en or zh: its rules find sentences (not of lines).",
    )


def define_tokenizer_flags(cleaning: bool | None = True) -> None:
    """The vocabulary and its cleaning of text, whose default is `cleaning`."""
    flags.DEFINE_string(
        "spm_model_file", None, "SentencePiece model (.model). Needs no --vocab_file."
    )
    flags.DEFINE_string(
        "vocab_file",
        None,
        "WordPiece vocabulary, a piece a line (the Chinese models have one). Not used "
        "where --spm_model_file is given.",
    )
    define_text_cleaning_flags(cleaning)


def define_text_cleaning_flags(default: bool | None = True) -> None:
    """How text is cleaned before it is cut: must be the same wherever a model goes."""
    flags.DEFINE_bool("do_lower_case", default, "Lower-case the text.")
    flags.DEFINE_bool(
        "strip_accents",
        default,
        "Drop combining marks, so that u and ü are one letter.",
    )


def make_tokenizer():
    """The tokenizer that `define_tokenizer_flags` describes."""
    from albert_tf.text.tokenizer import AlbertTokenizer

    if not FLAGS.spm_model_file and not FLAGS.vocab_file:
        raise flags.Error("Name the vocabulary: --spm_model_file or --vocab_file.")
    return AlbertTokenizer(
        spm_model_file=FLAGS.spm_model_file,
        vocab_file=None if FLAGS.spm_model_file else FLAGS.vocab_file,
        lower_case=FLAGS.do_lower_case,
        strip_accents=FLAGS.strip_accents,
    )


def define_max_seq_length_flag(default: int) -> None:
    """`--max_seq_length`, of rows that are made or read."""
    flags.DEFINE_integer(
        "max_seq_length",
        default,
        "Length of a row in pieces, [CLS], [SEP] and padding included.",
    )


def define_max_predictions_flag() -> None:
    """`--max_predictions_per_seq`, of rows that are made or read."""
    flags.DEFINE_integer(
        "max_predictions_per_seq", 20, "At most so many pieces of a row are masked."
    )


def define_record_flags() -> None:
    """Pretraining records to read."""
    flags.DEFINE_string(
        "input_file",
        "",
        "TFRecord files of create_pretraining_data.py, separated by commas; globs.",
    )
    flags.DEFINE_string(
        "eval_input_file",
        "",
        "Records to evaluate on. Empty: --input_file, unless that is trained on.",
    )


def read_records(pattern: str, expected):
    """The record set that a comma list of files and globs names, checked."""
    from albert_tf.records.sidecar import expand_paths, read_record_set

    return read_record_set(expand_paths(pattern), expected)


def vocabulary_sha256() -> str | None:
    """Digest of the vocabulary that the flags name, if they name one."""
    from albert_tf.files import sha256

    path = FLAGS.spm_model_file or FLAGS.vocab_file
    return sha256(path) if path else None


def define_config_file_flag(required: bool = True) -> None:
    """`--albert_config_file`."""
    flags.DEFINE_string(
        "albert_config_file",
        None,
        "The model's shape, JSON; see configs/. Weights have it beside them.",
        required=required,
    )


def define_model_flags() -> None:
    """The model and its weights, beside which its shape may lie."""
    define_config_file_flag(required=False)
    flags.DEFINE_string(
        "init_checkpoint",
        "",
        "Weights to start from: an own or TensorFlow 1 checkpoint, by its path up to "
        ".index or by its folder; a folder of a hub module, a SavedModel or a Hugging "
        "Face model. Without training state; to resume a run give its --output_dir "
        "again.",
    )


def define_config_override_flag() -> None:
    """`--config_override`."""
    flags.DEFINE_multi_string(
        "config_override",
        [],
        "A value of the model's shape in the place of the file's, as "
        "embedding_size=64 or ffn_groups=12. May be repeated.",
    )


def define_sharing_flags() -> None:
    """How a model that is trained shares parameters, and what its weights come from."""
    define_config_override_flag()
    flags.DEFINE_bool(
        "unshare",
        False,
        "Layers that share weights in --init_checkpoint may start as copies of them. "
        "Where the configuration shares everything, every layer gets its own.",
    )
    flags.DEFINE_alias("init_from_group0", "unshare")


def model_config(known=None):
    """The shape that the flags of a model and of its sharing describe.

    Args:
      known: the shape that these change; None: that of `--albert_config_file`, or else
        the one beside `--init_checkpoint`.
    """
    from albert_tf.checkpoints import model_dir
    from albert_tf.config import AlbertConfig

    if known:
        config = known
    elif FLAGS.albert_config_file:
        config = AlbertConfig.from_json(FLAGS.albert_config_file)
    elif FLAGS.init_checkpoint:
        config = model_dir.require_config(FLAGS.init_checkpoint)
    else:
        raise flags.Error("Name the model's shape: --albert_config_file.")
    config = config.override(FLAGS.config_override)
    if FLAGS.unshare and not FLAGS.init_checkpoint:
        raise flags.Error("--unshare needs the weights to copy: --init_checkpoint.")
    return config.unshared() if FLAGS.unshare else config


def define_export_flags() -> None:
    """A model and where its SavedModel goes."""
    flags.DEFINE_string(
        "model",
        None,
        "Output folder of a run, or weights of any layout, their shape beside them.",
        required=True,
    )
    flags.DEFINE_alias("init_checkpoint", "model")
    define_config_file_flag(required=False)
    flags.DEFINE_string(
        "export_dir",
        None,
        "Folder of versions, to which one is added.",
        required=True,
    )
    flags.DEFINE_integer(
        "model_version",
        0,
        "Number of the version; 0: 1, or the next that is free.",
        lower_bound=0,
    )
    flags.DEFINE_bool(
        "text_signature",
        None,
        "Add the signature `text`, which needs tensorflow-text's operations in the "
        "server. Unless set: if a vocabulary lies beside the weights.",
    )
    flags.DEFINE_enum(
        "precision", "float32", ["float32", "bfloat16"], "Of activations."
    )
    flags.DEFINE_float(
        "threshold_to_export",
        None,
        "Value of the output `threshold`. A model of SQuAD v2.0 answers if the null "
        "score, a logit, is below it, inf and -inf included; default: what is stored "
        "with the model. To classifiers it gives that output, for clients to use.",
    )


def define_run_flags(**defaults) -> None:
    """What a run does, where, in which sizes and intervals; defaults by flag name."""
    flags.DEFINE_string(
        "output_dir",
        None,
        "Folder of checkpoints, TensorBoard events and results.json. A run that finds "
        "its checkpoints there resumes; those of other settings are refused.",
        required=True,
    )
    flags.DEFINE_bool("do_train", defaults["do_train"], "Train.")
    flags.DEFINE_bool("do_eval", defaults["do_eval"], "Evaluate, after training.")
    for name, help_text in {
        "train_batch_size": "Rows in an optimizer step, over all devices.",
        "eval_batch_size": "Rows in an evaluation step, over all devices.",
        "save_checkpoints_steps": "Steps between checkpoints.",
        "eval_steps": "Steps between evaluations while training, the best of which is "
        "kept in OUTPUT_DIR/best; 0: only evaluate after training.",
    }.items():
        flags.DEFINE_integer(name, defaults[name], help_text)
    flags.DEFINE_integer("keep_checkpoint_max", 5, "Checkpoints to keep; 0: all.")
    flags.DEFINE_integer(
        "iterations_per_loop",
        1000,
        "Steps in one graph call and between log lines. SIGTERM is answered between "
        "loops: keep one shorter than the notice that your machine gives.",
    )
    flags.DEFINE_integer(
        "max_eval_steps", 0, "Batches of an evaluation at most; 0: the whole set."
    )
    flags.DEFINE_float(
        "max_train_hours",
        0.0,
        "Stop, with a checkpoint, after so many hours of training, resumptions "
        "included; 0: no limit.",
    )
    define_random_seed_flag("Seed of initial weights, dropout and the order of rows.")
    define_device_flags()


def define_device_flags() -> None:
    """What a run computes on, and how it trades memory, speed and precision."""
    flags.DEFINE_string(
        "tpu", "", "TPU to train on: its name, grpc://HOST:8470, or local on a TPU VM."
    )
    flags.DEFINE_alias("tpu_name", "tpu")
    flags.DEFINE_string("tpu_zone", "", "Zone of a TPU that is given by name.")
    flags.DEFINE_string("gcp_project", "", "Project of a TPU that is given by name.")
    define_step_flags()
    define_jit_compile_flag()


def define_step_flags(precision: str = "float32") -> None:
    """How a step trades memory, speed and precision."""
    flags.DEFINE_integer(
        "gradient_accumulation_steps",
        1,
        "Parts into which each device cuts its rows of a step to need less memory.",
    )
    define_precision_flags(precision)


def define_precision_flags(precision: str = "float32") -> None:
    """How activations are computed and kept."""
    flags.DEFINE_enum(
        "precision",
        precision,
        ["float32", "bfloat16"],
        "Of activations; weights, LayerNorm, softmax and losses are float32 always.",
    )
    flags.DEFINE_enum(
        "rematerialize",
        "none",
        ["none", "attention", "block"],
        "What the backward pass computes again to need less memory: nothing, attention "
        "probabilities, or whole blocks.",
    )


def define_jit_compile_flag() -> None:
    """`--jit_compile`."""
    flags.DEFINE_bool(
        "jit_compile",
        False,
        "Compile the gradient's computation with XLA. TPUs always do; on CPUs it is "
        "slower than without.",
    )


def define_optimizer_flags(**defaults) -> None:
    """The optimizer and its schedule; defaults by flag name."""
    define_optimizer_choice_flag(defaults["optimizer"])
    flags.DEFINE_float(
        "learning_rate",
        defaults["learning_rate"],
        "Learning rate that warm-up aims at.",
    )
    flags.DEFINE_float("poly_power", 1.0, "Power of the decay; 1: linear.")
    flags.DEFINE_integer(
        "num_train_steps", defaults["num_train_steps"], "Optimizer steps of the run."
    )
    flags.DEFINE_integer(
        "num_warmup_steps", defaults["num_warmup_steps"], "Steps of linear warm-up."
    )
    flags.DEFINE_integer(
        "start_warmup_step", 0, "Step at which warm-up starts; the rate is 0 before it."
    )


def define_random_seed_flag(help_text: str) -> None:
    """`--random_seed`."""
    flags.DEFINE_integer("random_seed", 12345, help_text)


def define_optimizer_choice_flag(default: str) -> None:
    """`--optimizer`."""
    flags.DEFINE_enum("optimizer", default, ["lamb", "adamw"], "The optimizer.")


def optimizer_config():
    """What `define_optimizer_flags` says."""
    from albert_tf.config import OptimizerConfig

    return _from_flags(OptimizerConfig)


def train_config():
    """What `define_run_flags` says."""
    from albert_tf.config import TrainConfig

    return _from_flags(TrainConfig)


def _from_flags(config_class):
    """A dataclass from the flags that bear its fields' names; others keep defaults."""
    names = [field.name for field in dataclasses.fields(config_class)]
    return config_class(**{name: FLAGS[name].value for name in names if name in FLAGS})
