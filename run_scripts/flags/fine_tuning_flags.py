"""Flags and steps that all fine-tuning scripts share.

A script defines its flags and the flags of its data, and runs three steps:

    model, tokenizer = read_model()     the model to start from, or to use
    data = ...read_data(tokenizer, model.task_config)
    outcome = run(model, data)          trains, evaluates, predicts
"""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from absl import flags

from albert_tf.config import AlbertConfig, OptimizerConfig, TrainConfig
from albert_tf.storage import AnyPath, as_path
from albert_tf.task_config import TaskConfig
from albert_tf.text.tokenizer import AlbertTokenizer
from albert_tf.training.fine_tuning_config import OPTIMIZER, TRAIN, FineTuningConfig
from data_prep.fine_tuning.datasets import MAX_SEQ_LENGTH, TaskData
from flags import common_flags, device_flags, fields, optimizer_flags

if TYPE_CHECKING:
    from albert_tf.checkpoints.model_dir import ModelDir, VocabularyFile
    from albert_tf.training.multi_run import FineTuned

FLAGS = flags.FLAGS


def define_fine_tuning_flags(**changes: Any) -> None:
    """Defines the flags of a fine-tuning script.

    Args:
      **changes: defaults by flag name, in place of those of fine-tuning.
    """
    defaults = {**TRAIN, **dataclasses.asdict(OPTIMIZER), **changes}
    common_flags.define_run_flags(**defaults)
    flags.DEFINE_bool(
        "do_predict",
        False,
        "Predict, with the best weights. Needs a model and the input, nothing else.",
    )
    fields.define(
        TrainConfig, "early_stopping", "batching", "hard_examples", "length_buckets"
    )
    common_flags.define_export_dir_flag(
        "Export the best weights there at the end, as export_saved_model.py does.",
        required=False,
    )
    flags.DEFINE_string(
        "cache_dir", "", "Folder for converted rows. Default: OUTPUT_DIR/cache."
    )
    _define_start_flags()
    common_flags.define_tokenizer_flags(cleaning=None)
    common_flags.define_max_seq_length_flag(
        defaults.get("max_seq_length", MAX_SEQ_LENGTH)
    )
    optimizer_flags.define(**defaults)
    options = ("num_runs", "num_train_epochs", "warmup_proportion")
    fields.define(FineTuningConfig, *options, "classifier_dropout", **defaults)
    flags.DEFINE_alias("train_step", "num_train_steps")
    flags.DEFINE_alias("warmup_step", "num_warmup_steps")
    flags.DEFINE_alias("predict_batch_size", "eval_batch_size")


def _define_start_flags() -> None:
    common_flags.define_init_checkpoint_flag(
        "Without --do_train, the model to use; default: that of --output_dir."
    )
    flags.DEFINE_bool(
        "from_scratch", False, "Train from random weights, without --init_checkpoint."
    )
    common_flags.define_config_file_flag(required=False)
    common_flags.define_sharing_flags()


def read_model(
    default_task: Callable[[str], TaskConfig] | None = None,
) -> "tuple[ModelDir, AlbertTokenizer]":
    """Reads the model that the flags start from, or use, and its tokenizer.

    Args:
      default_task: weights -> the task of a model to use that was trained for none;
        None: such a model is refused.
    """
    _check_flags()
    from albert_tf.checkpoints.model_dir import ModelDir

    if not FLAGS.do_train:
        return _trained_model(default_task)
    if bool(FLAGS.init_checkpoint) == FLAGS.from_scratch:
        raise flags.Error(
            "Say what training starts from: --init_checkpoint, or --from_scratch for "
            "random weights."
        )
    weights = common_flags.initial_weights()
    vocabulary = _vocabulary(weights)
    if vocabulary is None:
        raise flags.Error("Name the vocabulary: --spm_model_file or --vocab_file.")
    tokenizer = vocabulary.tokenizer()
    config = common_flags.model_config(weights)
    if config.vocab_size != tokenizer.vocab_size:
        raise ValueError(
            f"The model has {config.vocab_size} tokens, the vocabulary "
            f"{tokenizer.vocab_size}: pass the ones that belong together."
        )
    _check_length(config)
    model = ModelDir(
        checkpoint=weights,
        config=config,
        task_config=None,
        vocabulary=vocabulary.path,
        tokenizer_settings=tokenizer.metadata(),
        metrics={},
    )
    return model, tokenizer


def _vocabulary(weights: str) -> "VocabularyFile | None":
    """The vocabulary that the flags name, or the one next to the weights."""
    from albert_tf.checkpoints import agreement

    return agreement.choose_vocabulary(
        weights,
        FLAGS.spm_model_file,
        FLAGS.vocab_file,
        FLAGS.do_lower_case,
        FLAGS.strip_accents,
    )


def _check_flags() -> None:
    if not (FLAGS.do_train or FLAGS.do_eval or FLAGS.do_predict):
        raise flags.Error("Nothing to do: pass --do_train, --do_eval or --do_predict.")
    try:
        fields.read(FineTuningConfig)
        optimizer_flags.config()
    except ValueError as error:
        raise flags.Error(str(error)) from None
    if FLAGS.early_stopping and not FLAGS.do_eval:
        raise flags.Error("--early_stopping needs evaluations: pass --do_eval.")


def _trained_model(
    default_task: Callable[[str], TaskConfig] | None,
) -> "tuple[ModelDir, AlbertTokenizer]":
    from albert_tf.checkpoints.model_dir import ModelDir
    from albert_tf.checkpoints.output_folders import locate_best

    weights = locate_best(FLAGS.init_checkpoint or FLAGS.output_dir)
    vocabulary = _vocabulary(weights)
    model = ModelDir.read(weights, vocabulary and vocabulary.path)
    task_config = model.task_config
    if task_config is None and default_task is not None:
        task_config = default_task(weights)
    if task_config is None:
        task_config = model.require_task()
    config = common_flags.model_config(weights)
    if FLAGS["max_seq_length"].present:
        _check_length(config)
    elif task_config.max_seq_length is None:
        # The files of some models do not say it.
        length = min(FLAGS.max_seq_length, config.max_position_embeddings)
        task_config = dataclasses.replace(task_config, max_seq_length=length)
    tokenizer = vocabulary.tokenizer() if vocabulary else model.tokenizer()
    model = dataclasses.replace(
        model,
        config=config,
        task_config=task_config,
        tokenizer_settings=tokenizer.metadata(),
    )
    return model, tokenizer


def _check_length(config: AlbertConfig) -> None:
    """Takes the model's longest row, if it is below the flag's default.

    Raises:
      ValueError: the flag asks for more than the model reads.
    """
    longest = config.max_position_embeddings
    if FLAGS.max_seq_length <= longest:
        return
    if FLAGS["max_seq_length"].present:
        raise ValueError(
            f"The model reads at most {longest} tokens (max_position_embeddings). "
            f"Received --max_seq_length={FLAGS.max_seq_length}: lower it."
        )
    FLAGS["max_seq_length"].value = longest
    print(
        f"Rows have at most {longest} tokens, as many as the model reads.", flush=True
    )


def cache_dir() -> AnyPath:
    """The folder for converted rows."""
    if FLAGS.cache_dir:
        return as_path(FLAGS.cache_dir)
    return as_path(FLAGS.output_dir) / "cache"


def run(model: "ModelDir", data: TaskData) -> "FineTuned":
    """Trains if asked to, then evaluates and predicts, and exports the best weights."""
    for note in data.notes:
        print(note, flush=True)
    for warning in data.warnings:
        print(f"WARNING: {warning}", flush=True)
    from albert_tf.training.fine_tune import evaluate, fine_tune

    strategy = device_flags.create_strategy()
    function = fine_tune if FLAGS.do_train else evaluate
    outcome = function(model, data, FLAGS.output_dir, strategy=strategy, **_settings())
    if FLAGS.export_dir and not outcome.preempted:
        _export(FLAGS.output_dir if FLAGS.do_train else model.checkpoint)
    return outcome


def _settings() -> dict[str, Any]:
    """The flags that set fields of the three configurations."""
    names = {
        field.name
        for config_class in (FineTuningConfig, OptimizerConfig, TrainConfig)
        for field in dataclasses.fields(config_class)
    }
    names -= {"output_dir"}
    settings = {name: FLAGS[name].value for name in sorted(names) if name in FLAGS}
    if FLAGS["num_train_steps"].present and not FLAGS["num_train_epochs"].present:
        # A script's default of epochs gives way to steps that the user asks for.
        settings["num_train_epochs"] = 0.0
    return settings


def _export(model: str) -> None:
    from albert_tf.checkpoints.model_dir import ModelDir
    from albert_tf.serving import export

    # A training without averages has nothing to choose from.
    is_asked = FLAGS.ema_decay or not FLAGS.do_train
    use_ema = FLAGS.use_ema if is_asked else None
    exported = export.from_model_dir(ModelDir.read(model), use_ema=use_ema)
    version, _ = export.export_model(exported, FLAGS.export_dir)
    print(f"Exported to {version}.", flush=True)
