"""Exports the encoder of a checkpoint as a SavedModel for TensorFlow Serving.

    python run_scripts/export_saved_model.py --init_checkpoint=model \
        --export_dir=serving/1

The configuration is found beside the checkpoint or named by --albert_config_file.
"""

from absl import flags

import common_flags

FLAGS = flags.FLAGS


def main():
    from albert_tf import beside_weights, export
    from albert_tf.config import AlbertConfig

    source = FLAGS.init_checkpoint
    if FLAGS.albert_config_file:
        config = AlbertConfig.from_json(FLAGS.albert_config_file)
    else:
        config = beside_weights.require_config(source)
    report = export.export_encoder(
        config, source, FLAGS.export_dir, beside_weights.tokenizer_settings(source)
    )
    print(
        f"Exported the encoder of {source} to {FLAGS.export_dir}: {len(report.loaded)} "
        f"variables; {len(report.unused)} of its heads left out."
    )


if __name__ == "__main__":
    common_flags.define_export_flags()
    common_flags.run(main)
