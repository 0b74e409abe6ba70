"""Exports a model as a SavedModel for TensorFlow Serving.

    python run_scripts/export_saved_model.py --model=rte --export_dir=serving/rte

`--model` is the output folder of any run, of which the best weights are exported, or a
checkpoint. A model that was trained for a task answers as that task, from ids,
tf.Examples and text; any other model gives the encoder's outputs. The versions in
EXPORT_DIR are numbered 1, 2, and so on.
"""

import dataclasses

from absl import flags

from flags import common_flags

FLAGS = flags.FLAGS


def main() -> None:
    from albert_tf.checkpoints.model_dir import ModelDir
    from albert_tf.config import AlbertConfig
    from albert_tf.serving import export

    folder = ModelDir.read(FLAGS.model)
    if FLAGS.albert_config_file:
        config = AlbertConfig.from_json(FLAGS.albert_config_file)
        folder = dataclasses.replace(folder, config=config)
    exported = export.from_model_dir(
        folder, FLAGS.text_signature, FLAGS.precision, FLAGS.threshold_to_export
    )
    version, report = export.export_model(
        exported, FLAGS.export_dir, FLAGS.model_version
    )
    print(
        f"Exported {folder.checkpoint} to {version}: {len(report.loaded)} variables, "
        f"{len(report.unused)} variables of other heads left out."
    )
    if not exported.tokenizer:
        print("No signature `text`: clients have to tokenize texts.")
    if FLAGS.tflite:
        from albert_tf.serving import tflite

        # Last, so that the SavedModel is complete even if this fails.
        differences = tflite.export_tflite(exported, FLAGS.tflite, FLAGS.tflite_length)
        print(f"{FLAGS.tflite}: within {max(differences.values()):.2g} of the model.")


if __name__ == "__main__":
    common_flags.define_export_flags()
    flags.DEFINE_string("tflite", "", "TensorFlow Lite file to write in addition.")
    flags.DEFINE_integer(
        "tflite_length",
        128,
        "Tokens of a TensorFlow Lite model's row, padding included.",
    )
    common_flags.run(main)
