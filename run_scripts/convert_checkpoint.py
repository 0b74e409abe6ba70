r"""Converts weights between checkpoint formats, with configuration and vocabulary.

    python run_scripts/convert_checkpoint.py --from=albert_base_v2 --to=model \
        --layout=own

The format of `--from` is detected: an own or TensorFlow 1 checkpoint, a hub module or
SavedModel, a Hugging Face folder, tf-models' AlbertEncoder, albert_zh. `--to` is a new
folder.
"""

from absl import flags

from albert_tf.checkpoints.checkpoint_format import (
    POSITION_METHODS,
    WRITABLE_FORMATS,
    CheckpointFormat,
)
from flags import common_flags

FLAGS = flags.FLAGS


def main():
    from albert_tf.checkpoints import agreement, convert, model_dir, output_folders

    source = output_folders.locate_best(FLAGS["from"].value)
    config = common_flags.model_config(source)
    named = (FLAGS.spm_model_file, FLAGS.vocab_file)
    cleaning = (FLAGS.do_lower_case, FLAGS.strip_accents)
    vocabulary = old_vocabulary = None
    if any(named) or cleaning != (None, None):
        may_differ = FLAGS.resize_vocabulary is not None
        vocabulary = agreement.choose_vocabulary(source, *named, *cleaning, may_differ)
    if FLAGS.old_vocabulary:
        if not FLAGS.resize_vocabulary:
            raise flags.Error("--old_vocabulary is for --resize_vocabulary.")
        old_vocabulary = model_dir.VocabularyFile.with_cleaning(
            FLAGS.old_vocabulary, model_dir.read_stated(source)
        )
    results = convert.convert(
        convert.Conversion(
            source=source,
            target=FLAGS.to,
            target_format=CheckpointFormat(FLAGS.layout),
            config=config,
            vocabulary=vocabulary,
            strict=FLAGS.strict,
            multiple_choice=FLAGS.multiple_choice,
            vocab_size=FLAGS.resize_vocabulary,
            positions=FLAGS.resize_positions,
            position_method=FLAGS.position_method,
            old_vocabulary=old_vocabulary,
            seed=FLAGS.random_seed,
            run_source=FLAGS.run_source,
            use_ema=FLAGS.use_ema,
        )
    )
    for kind, names in results["weights"].items():
        for name in names:
            print(f"{kind:8}{name}")
    for what, differences in results["largest_differences"].items():
        for name, difference in differences.items():
            print(f"{what}: {name} differs by {difference:.1e} at most")
    for note in results["notes"]:
        print(f"NOTE: {note}")
    counts = [f"{len(names)} {kind}" for kind, names in results["weights"].items()]
    print(
        f"Converted {source} ({results['source_layout']}) to {FLAGS.to} "
        f"({FLAGS.layout}): {', '.join(counts)}"
        f"{', averaged weights' * results['averaged_weights']}."
    )


if __name__ == "__main__":
    flags.DEFINE_string(
        "from",
        None,
        "Weights to convert: a checkpoint's path up to .index, or a folder.",
        required=True,
    )
    flags.DEFINE_string("to", None, "New folder of the converted model.", required=True)
    flags.DEFINE_enum(
        "layout",
        None,
        [target_format.value for target_format in WRITABLE_FORMATS],
        "Checkpoint format of --to.",
        required=True,
    )
    flags.DEFINE_alias("format", "layout")
    common_flags.define_config_file_flag(required=False)
    common_flags.define_config_override_flag()
    common_flags.define_use_ema_flag()
    flags.DEFINE_bool(
        "run_source",
        False,
        "Run the graph of a SavedModel or hub module as well, and compare its outputs. "
        "A graph can read and write files with your rights: only for sources that you "
        "trust. If false, only its weights are read.",
    )
    flags.DEFINE_bool(
        "strict",
        True,
        "Stop if a weight is missing, unknown or without a place in the format. If "
        "false, it starts fresh or is left out, as the report tells.",
    )
    flags.DEFINE_bool(
        "multiple_choice",
        False,
        "A head of one class scores the options of a question, for which Hugging Face "
        "has a class of its own. If false, it is a regression.",
    )
    flags.DEFINE_integer(
        "resize_vocabulary",
        None,
        "Number of rows that the embeddings and the masked-LM head's bias grow to.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "resize_positions",
        None,
        "Number of positions that the model grows to, for longer rows.",
        lower_bound=1,
    )
    flags.DEFINE_enum(
        "position_method",
        POSITION_METHODS[0],
        POSITION_METHODS,
        "With --resize_positions: the table of positions is repeated, or stretched.",
    )
    flags.DEFINE_string(
        "old_vocabulary",
        None,
        "With --resize_vocabulary: the vocabulary that the model was trained with, "
        "which the new one must extend. Default: the one next to the weights.",
    )
    common_flags.define_tokenizer_flags(cleaning=None)
    common_flags.define_random_seed_flag("Of new rows, and weights that start fresh.")
    common_flags.run(main)
