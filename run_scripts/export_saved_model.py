"""Exports a model as a SavedModel for TensorFlow Serving.

    python run_scripts/export_saved_model.py --model=rte --export_dir=serving/rte

`--model` is an output folder of any run, whose best weights are taken, or a checkpoint.
One that was trained for a task gives that task's answers, from ids, tf.Examples and
text; of others it is the encoder. EXPORT_DIR gets the next version, 1, 2, and so on.
"""

import dataclasses

from absl import flags

from flags import common_flags

FLAGS = flags.FLAGS


def main():
    from albert_tf.checkpoints.model_dir import ModelDir
    from albert_tf.config import AlbertConfig
    from albert_tf.serving import export

    folder = ModelDir.read(FLAGS.model)
    if FLAGS.albert_config_file:
        config = AlbertConfig.from_json(FLAGS.albert_config_file)
        folder = dataclasses.replace(folder, config=config)
    if folder.config is None:
        raise FileNotFoundError(
            f"No albert_config.json beside {folder.checkpoint}: pass "
            "--albert_config_file."
        )
    exported = export.of_folder(
        folder, FLAGS.text_signature, FLAGS.precision, FLAGS.threshold_to_export
    )
    version, report = export.export_model(
        exported, FLAGS.export_dir, FLAGS.model_version
    )
    print(
        f"Exported {folder.checkpoint} to {version}: {len(report.loaded)} variables, "
        f"{len(report.unused)} of its heads left out."
    )
    if not exported.tokenizer:
        print("Without the signature `text`: tokenization is left to the client.")
    if FLAGS.tflite:
        from albert_tf.serving import tflite

        # Last: whatever becomes of it, the SavedModel is there.
        differences = tflite.export_tflite(exported, FLAGS.tflite, FLAGS.tflite_length)
        print(f"{FLAGS.tflite}: within {max(differences.values()):.2g} of the model.")


if __name__ == "__main__":
    common_flags.define_export_flags()
    flags.DEFINE_string("tflite", "", "TensorFlow Lite file to write as well.")
    flags.DEFINE_integer(
        "tflite_length", 128, "Pieces that a TensorFlow Lite model takes, with padding."
    )
    common_flags.run(main)
