"""Exports the encoder of a checkpoint as a SavedModel for TensorFlow Serving.

    python run_scripts/export_saved_model.py --init_checkpoint=model \
        --export_dir=serving/1

The configuration is found beside the checkpoint or named by --albert_config_file.
"""

from pathlib import Path

from absl import flags

import common_flags

FLAGS = flags.FLAGS


def main():
    from albert_tf import checkpoints, export
    from albert_tf.config import AlbertConfig

    prefix = checkpoints.find_checkpoint(FLAGS.init_checkpoint)
    folder = Path(prefix).parent
    config_file = FLAGS.albert_config_file or folder / "albert_config.json"
    if not Path(config_file).is_file():
        raise FileNotFoundError(
            f"No {config_file} beside the checkpoint: pass --albert_config_file."
        )
    report = export.export_encoder(
        AlbertConfig.from_json(config_file),
        prefix,
        FLAGS.export_dir,
        export.read_tokenizer_settings(folder),
    )
    print(
        f"Exported the encoder of {prefix} to {FLAGS.export_dir}: {len(report.loaded)} "
        f"variables; {len(report.unused)} of its heads left out."
    )


if __name__ == "__main__":
    common_flags.define_export_flags()
    common_flags.run(main)
