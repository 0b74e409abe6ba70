"""Exports a model as a SavedModel for TensorFlow Serving.

    python run_scripts/export_saved_model.py --model=rte --export_dir=serving/rte

`--model` is the output folder of any run, of which the best weights are exported, or a
checkpoint. A model that was trained for a task answers as that task, from ids,
tf.Examples and text; any other model gives the encoder's outputs, and so does a task's
model in addition with `--signatures=embeddings`. A pretrained model fills in blanks
with `--signatures=fill_mask`. The versions in EXPORT_DIR are numbered 1, 2, and so on.
"""

import dataclasses

from absl import flags

from albert_tf.storage import comparable
from albert_tf.task_config import Classification, Regression, TaskConfig
from flags import common_flags, tflite_flags

FLAGS = flags.FLAGS


def define_flags() -> None:
    """Defines a model and the folder of its SavedModel."""
    common_flags.define_model_flag(
        "Output folder of a run, or weights of any checkpoint format with their "
        "configuration next to them."
    )
    flags.DEFINE_alias("init_checkpoint", "model")
    common_flags.define_config_file_flag(required=False)
    common_flags.define_config_override_flag()
    common_flags.define_export_dir_flag(
        "Folder of versions, to which one is added.", required=True
    )
    common_flags.define_model_version_flag(
        "Number of the version; 0: 1, or the next number that is free."
    )
    flags.DEFINE_bool(
        "text_signature",
        None,
        "Add the signature `text`, which needs tensorflow-text's operations in the "
        "server. Default: if there is a vocabulary next to the weights.",
    )
    flags.DEFINE_multi_enum(
        "signatures",
        [],
        ["embeddings", "fill_mask", "hub"],
        "Signatures to add to the task's: `embeddings` gives the encoder's outputs of "
        "ids, and with `text` there is `embeddings_text`, of texts; `fill_mask` gives "
        "a pretrained model's likeliest tokens for each [MASK] of texts; `hub` adds "
        "those of the original's hub modules, `tokens`, `sop`, `mlm` and "
        "`tokenization_info`, of a pretrained model.",
    )
    common_flags.define_top_k_flag()
    common_flags.define_use_ema_flag()
    common_flags.define_precision_flag()
    flags.DEFINE_float(
        "threshold_to_export",
        None,
        "Value of the output `threshold`. A model of SQuAD v2.0 answers if the null "
        "score, a logit, is below it, inf and -inf included; default: the one stored "
        "with the model. For a classifier it adds that output, for clients to use.",
    )
    tflite_flags.define_flags()
    flags.DEFINE_string(
        "onnx", "", "ONNX file to write in addition, of any number and length of rows."
    )


def _rows_are_unknown(task_config: TaskConfig | None) -> bool:
    is_of_texts = isinstance(task_config, Classification | Regression)
    return is_of_texts and not task_config.columns


def _check_files() -> None:
    """Raises flags.Error for files that would lie in a version, or be one file."""
    export_dir = comparable(FLAGS.export_dir)
    paths = {name: comparable(FLAGS[name].value) for name in ("tflite", "onnx")}
    for name, path in paths.items():
        within = (
            path.relative_to(export_dir).parts if export_dir in path.parents else ()
        )
        if FLAGS[name].value and within and within[0].isdigit():
            raise flags.Error(
                f"--{name}={FLAGS[name].value} lies in what a server takes for a "
                "version of --export_dir: name another place."
            )
    if FLAGS.tflite and paths["tflite"] == paths["onnx"]:
        raise flags.Error(
            f"--tflite and --onnx are one file, {FLAGS.onnx}: name two files."
        )


def main() -> None:
    tflite_flags.check()
    _check_files()
    from albert_tf.checkpoints.model_dir import ModelDir
    from albert_tf.serving import export, onnx_file

    folder = ModelDir.read(FLAGS.model)
    config = common_flags.model_config(folder.checkpoint)
    exported = export.from_model_dir(
        dataclasses.replace(folder, config=config),
        FLAGS.text_signature,
        FLAGS.precision,
        FLAGS.threshold_to_export,
        embeddings="embeddings" in FLAGS.signatures,
        fill_mask=FLAGS.top_k if "fill_mask" in FLAGS.signatures else 0,
        hub="hub" in FLAGS.signatures,
        use_ema=FLAGS.use_ema,
    )
    if FLAGS.tflite:
        development_set = tflite_flags.prepare(exported, folder)
    if FLAGS.onnx:
        onnx_file.check_exportable(exported, FLAGS.onnx)
    if FLAGS.tflite or FLAGS.onnx:
        exported = exported.read()
    version, report = export.export_model(
        exported, FLAGS.export_dir, FLAGS.model_version
    )
    print(
        f"Exported {folder.checkpoint} to {version}: {len(report.loaded)} variables"
        f"{' (averaged weights)' * report.averaged}, "
        f"{len(report.unused)} variables of other heads left out."
    )
    if exported.tokenizer and _rows_are_unknown(exported.task_config):
        print(
            "NOTE: the model's files do not say whether a row has one text or two: the "
            "signature `text` takes one."
        )
    if not exported.tokenizer:
        print("No signature `text`: clients have to tokenize texts.")
    if FLAGS.tflite:
        # Last, so that the SavedModel is complete even if this fails.
        tflite_flags.export(exported, development_set, version)
    if FLAGS.onnx:
        differences = onnx_file.export_onnx(exported, FLAGS.onnx)
        print(f"{FLAGS.onnx}: within {max(differences.values()):.2g} of the model.")


if __name__ == "__main__":
    define_flags()
    common_flags.run(main)
