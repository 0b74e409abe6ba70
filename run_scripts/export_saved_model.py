"""Exports a model as a SavedModel for TensorFlow Serving.

    python run_scripts/export_saved_model.py --model=rte --export_dir=serving/rte

`--model` is an output folder of any run, whose best weights are taken, or a checkpoint.
One that was trained for a task gives that task's answers, from ids, tf.Examples and
text; of others it is the encoder. EXPORT_DIR gets the next version, 1, 2, and so on.
"""

from absl import flags

import common_flags

FLAGS = flags.FLAGS


def main():
    from albert_tf import export, model_folder
    from albert_tf.config import AlbertConfig

    folder = model_folder.read(FLAGS.model)
    config = folder.config
    if FLAGS.albert_config_file:
        config = AlbertConfig.from_json(FLAGS.albert_config_file)
    if config is None:
        raise FileNotFoundError(
            f"No albert_config.json beside {folder.checkpoint}: pass "
            "--albert_config_file."
        )
    text = FLAGS.text_signature
    if text is None:
        text = folder.vocabulary is not None
    tokenizer = folder.tokenizer() if text else None
    settings = tokenizer.metadata() if tokenizer else folder.tokenizer_settings
    exported = export.ExportedModel(
        config=config,
        checkpoint=folder.checkpoint,
        task=folder.task,
        tokenizer=tokenizer,
        tokenizer_settings=settings,
        scores=folder.scores,
        precision=FLAGS.precision,
    )
    version, report = export.export_model(
        exported, FLAGS.export_dir, FLAGS.model_version
    )
    print(
        f"Exported {folder.checkpoint} to {version}: {len(report.loaded)} variables, "
        f"{len(report.unused)} of its heads left out."
    )
    if not text and folder.vocabulary is None:
        print("Without the signature `text`: no vocabulary lies beside the weights.")


if __name__ == "__main__":
    common_flags.define_export_flags()
    common_flags.run(main)
