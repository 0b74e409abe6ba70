"""Flags and steps that all fine-tuning scripts share: from a model to its predictions.

A script brings its reader, its task and its writer:

    define_fine_tuning_flags(...)   its own defaults
    model = read_model()            what training starts from, or what was trained
    rows = cached(...)              for each of its sets
    run(...)                        trains, evaluates, predicts
"""

import dataclasses
import math
from pathlib import Path
from typing import Any

from absl import flags

from flags import common_flags

FLAGS = flags.FLAGS

# The paper's rates of fine-tuning end at 5e-5 (Table 14).
_HIGH_LEARNING_RATE = 2e-4


# The original classifier's; a script changes some.
_DEFAULTS = {
    "do_train": True,
    "do_eval": False,
    "max_seq_length": 512,
    "train_batch_size": 32,
    "eval_batch_size": 32,
    "save_checkpoints_steps": 1000,
    "eval_steps": 0,
    "optimizer": "adamw",
    "learning_rate": 5e-5,
    "num_train_steps": 1000,
    "num_warmup_steps": 0,
    "num_train_epochs": 0.0,
    "warmup_proportion": 0.1,
}


def define_fine_tuning_flags(**changes) -> None:
    """What a task's run does, with which model, how.

    Args:
      **changes: defaults, by flag name, in the place of the original classifier's.
    """
    defaults = {**_DEFAULTS, **changes}
    common_flags.define_run_flags(**defaults)
    flags.DEFINE_bool(
        "do_predict",
        False,
        "Predict, with the best weights. Needs a model and the input, nothing else.",
    )
    flags.DEFINE_integer(
        "early_stopping",
        0,
        "Stop after so many evaluations without a better one; 0: never.",
    )
    flags.DEFINE_bool(
        "length_buckets",
        True,
        "Pad batches to about their longest row. If false, or on TPUs, which want one "
        "shape, to --max_seq_length; the results are the same.",
    )
    flags.DEFINE_integer(
        "num_runs",
        1,
        "Runs from so many seeds; results.json has their median.",
        lower_bound=1,
    )
    flags.DEFINE_string(
        "export_dir",
        "",
        "Export the best weights there at the end, as export_saved_model.py does.",
    )
    flags.DEFINE_string(
        "cache_dir", "", "Where converted rows are kept. Empty: OUTPUT_DIR/cache."
    )
    _define_start_flags()
    common_flags.define_tokenizer_flags(cleaning=None)
    common_flags.define_max_seq_length_flag(defaults["max_seq_length"])
    flags.DEFINE_float(
        "classifier_dropout",
        0.1,
        "Probability of dropping in the head's input, below 1.",
        lower_bound=0.0,
    )
    common_flags.define_optimizer_flags(**defaults)
    flags.DEFINE_alias("train_step", "num_train_steps")
    flags.DEFINE_alias("warmup_step", "num_warmup_steps")
    flags.DEFINE_alias("predict_batch_size", "eval_batch_size")
    flags.DEFINE_float(
        "num_train_epochs",
        defaults["num_train_epochs"],
        "Passes over the training rows, in the place of --num_train_steps; 0: that.",
        lower_bound=0.0,
    )
    flags.DEFINE_float(
        "warmup_proportion",
        defaults["warmup_proportion"],
        "Share of the steps of --num_train_epochs that warm up.",
        lower_bound=0.0,
        upper_bound=1.0,
    )


def _define_start_flags() -> None:
    flags.DEFINE_string(
        "init_checkpoint",
        "",
        "The model to start from: a checkpoint or its folder, own or TensorFlow 1; a "
        "folder of a hub module, a SavedModel or a Hugging Face model. "
        "Without --do_train, the model to use; empty: that of --output_dir.",
    )
    flags.DEFINE_bool(
        "from_scratch", False, "Train from random weights, without --init_checkpoint."
    )
    common_flags.define_config_file_flag(required=False)
    common_flags.define_sharing_flags()


@dataclasses.dataclass(frozen=True)
class Model:
    """A model and its tokenizer.

    Attributes:
      checkpoint: its weights; empty: random ones.
      config: its shape.
      vocabulary: path of its vocabulary.
      tokenizer: the tokenizer.
      task: what it was trained for; empty where training starts.
    """

    checkpoint: str
    config: Any
    vocabulary: Path
    tokenizer: Any
    task: dict[str, Any]


def read_model() -> Model:
    """What the flags start from, or what they use."""
    if not (FLAGS.do_train or FLAGS.do_eval or FLAGS.do_predict):
        raise flags.Error("Nothing to do: pass --do_train, --do_eval or --do_predict.")
    # Bounds of flags let what is not a number pass.
    if not FLAGS.classifier_dropout < 1:
        raise flags.Error(
            f"--classifier_dropout={FLAGS.classifier_dropout} must be below 1."
        )
    for name in ("num_train_epochs", "warmup_proportion"):
        if not math.isfinite(FLAGS[name].value):
            raise flags.Error(f"--{name}={FLAGS[name].value} must be a number.")
    if FLAGS.early_stopping and not FLAGS.do_eval:
        raise flags.Error("--early_stopping needs evaluations: pass --do_eval.")
    if not FLAGS.do_train:
        return _trained_model()
    if bool(FLAGS.init_checkpoint) == FLAGS.from_scratch:
        raise flags.Error(
            "Say what training starts from: --init_checkpoint, or --from_scratch for "
            "random weights."
        )
    from albert_tf.checkpoints.model_dir import ModelDir, VocabularyFile

    folder = None
    if FLAGS.init_checkpoint:
        folder = ModelDir.read(FLAGS.init_checkpoint)
    vocabulary = FLAGS.spm_model_file or FLAGS.vocab_file
    vocabulary = Path(vocabulary) if vocabulary else folder and folder.vocabulary
    if not vocabulary:
        raise flags.Error("Name the vocabulary: --spm_model_file or --vocab_file.")
    known = folder.tokenizer_settings if folder else {}
    tokenizer = VocabularyFile.with_cleaning(
        vocabulary, known, FLAGS.do_lower_case, FLAGS.strip_accents
    ).tokenizer()
    _check_tokenizer(tokenizer, known)
    config = _config(folder, tokenizer)
    return Model(FLAGS.init_checkpoint, config, vocabulary, tokenizer, {})


def _trained_model() -> Model:
    """What was trained for a task."""
    from albert_tf.checkpoints.model_dir import ModelDir

    folder = ModelDir.read(FLAGS.init_checkpoint or FLAGS.output_dir)
    if not folder.task:
        raise ValueError(
            f"{folder.checkpoint} was not trained for a task: its head would be "
            "random. Pass --do_train first."
        )
    _check_length(folder.config)
    return Model(
        folder.checkpoint,
        folder.config,
        folder.vocabulary,
        folder.tokenizer(),
        folder.task,
    )


def _check_tokenizer(tokenizer, known) -> None:
    for name, value in tokenizer.metadata().items():
        if known.get(name, value) != value:
            raise ValueError(
                f"{FLAGS.init_checkpoint} was trained with {name}={known[name]}, but "
                f"{name}={value} is asked for: give its own vocabulary and cleaning."
            )


def _config(folder, tokenizer):
    """The model's shape, checked against its vocabulary."""
    if not FLAGS.albert_config_file and not (folder and folder.config):
        raise flags.Error("Name the model's shape: --albert_config_file.")
    config = folder.config if not FLAGS.albert_config_file else None
    config = common_flags.model_config(config)
    if config.vocab_size != tokenizer.vocab_size:
        raise ValueError(
            f"The model has {config.vocab_size} pieces, the vocabulary "
            f"{tokenizer.vocab_size}: give the ones that belong together."
        )
    _check_length(config)
    return config


def _check_length(config) -> None:
    """The flag is that of rows if a model is trained, or if it is given."""
    given = FLAGS.do_train or FLAGS["max_seq_length"].present
    if given and FLAGS.max_seq_length > config.max_position_embeddings:
        raise ValueError(
            "max_seq_length must be at most max_position_embeddings. Received "
            f"{FLAGS.max_seq_length} and {config.max_position_embeddings}: lower "
            "--max_seq_length."
        )


def cache_dir() -> Path:
    """Where converted rows are kept."""
    return Path(FLAGS.cache_dir or Path(FLAGS.output_dir) / "cache")


def run(task, model: Model, task_facts: dict[str, Any], sets: dict, train_rows=None):
    """Trains if asked to, then tries the best weights on the sets.

    Args:
      task: the task.
      model: from `read_model`.
      task_facts: JSON values that predictions and exports need.
      sets: name -> rows to evaluate or predict; the one called "dev", if there is one,
        is evaluated while training.
      train_rows: rows to train on; None: no training.
    Returns:
      Results and predictions, as `multi_run.FineTuned`.
    """
    from albert_tf.checkpoints import model_dir
    from albert_tf.training import devices, multi_run
    from albert_tf.training.job import Job

    optimizer_config = _optimizer_config(train_rows)
    train_config = common_flags.train_config()
    if not train_config.eval_steps:
        steps = train_config.save_checkpoints_steps
        train_config = dataclasses.replace(train_config, eval_steps=steps)
    job = Job(
        task=task,
        model_config=model.config,
        optimizer_config=optimizer_config,
        train_config=train_config,
        train_rows=train_rows,
        eval_rows=sets.get("dev"),
        init_checkpoint=model.checkpoint,
        unshare=FLAGS.unshare,
        files=model_dir.model_files(model.vocabulary, task_facts),
        settings={"classifier_dropout": FLAGS.classifier_dropout},
    )
    strategy = devices.create_strategy(FLAGS.tpu, FLAGS.tpu_zone, FLAGS.gcp_project)
    if not train_rows:
        outcome = multi_run.evaluate(job, strategy, sets)
        for name, report in outcome.results.items():
            print(f"{name}: {report}", flush=True)
        _export(model.checkpoint)
        return outcome
    if FLAGS.learning_rate > _HIGH_LEARNING_RATE and FLAGS.optimizer == "adamw":
        print(
            f"WARNING: learning_rate {FLAGS.learning_rate:g} is far above the paper's "
            "1e-5 to 5e-5 of fine-tuning: large models collapse.",
            flush=True,
        )
    outcome = multi_run.train(job, FLAGS.num_runs, strategy, sets)
    if not outcome.preempted:
        _export(FLAGS.output_dir)
    return outcome


def _export(model: str) -> None:
    """Exports a model if told to."""
    if not FLAGS.export_dir:
        return
    from albert_tf.checkpoints.model_dir import ModelDir
    from albert_tf.serving import export

    exported = export.from_model_dir(ModelDir.read(model))
    version, _ = export.export_model(exported, FLAGS.export_dir)
    print(f"Exported to {version}.", flush=True)


def _optimizer_config(train_rows):
    config = common_flags.optimizer_config()
    if not (train_rows and FLAGS.num_train_epochs):
        return config
    steps = train_rows.total_rows * FLAGS.num_train_epochs / FLAGS.train_batch_size
    steps = max(1, round(steps))
    return dataclasses.replace(
        config,
        num_train_steps=steps,
        num_warmup_steps=int(steps * FLAGS.warmup_proportion),
    )


def print_warnings(warnings: list[str]) -> None:
    """Says what looks like a slip."""
    for warning in warnings:
        print(f"WARNING: {warning}", flush=True)
