"""A model -> a TensorFlow Lite file of one length, checked against the model."""

import os
from pathlib import Path

import numpy as np
import tensorflow as tf

from albert_tf.files import write_whole
from albert_tf.serving import base as serving_base
from albert_tf.serving import export
from albert_tf.task_config import MultipleChoice, Squad

# Of each output, beside the model's own.
_TOLERANCE = 1e-4
_CHECKED_ROWS = 3


def export_tflite(
    exported: export.ExportedModel, path: str | os.PathLike, length: int
) -> dict[str, float]:
    """Writes a `.tflite` that takes one row of ids, of a fixed length.

    Its signature `serving_default` takes `input_ids`, `input_mask` and `segment_ids`,
    int32 [1, S], and gives the task's numbers; a client has the labels' names from the
    model card.

    Args:
      exported: what to write; its tokenizer is not used.
      path: the file.
      length: S, pieces of a row, padding included.
    Returns:
      Name of each output -> its largest difference from the model's.
    Raises:
      ValueError: the length is too long, the model cannot be converted, or the file
        gives other numbers than the model.
    """
    longest = exported.config.max_position_embeddings
    if not 1 <= length <= longest:
        raise ValueError(
            f"The length of a TFLite model is in 1 to max_position_embeddings, "
            f"{longest}. Received {length}."
        )
    task_config = exported.task_config
    if isinstance(task_config, MultipleChoice | Squad):
        raise ValueError(
            f"A model for {task_config.task_name} cannot be a TFLite file: these "
            "are of classifiers, regressions and encoders."
        )
    model, _ = export.load_model(exported)
    answer = serving_base.task_outputs(task_config)
    specs = [tf.TensorSpec([1, length], tf.int32, name=n) for n in serving_base.IDS]

    @tf.function(input_signature=specs)
    def numbers(input_ids, input_mask, segment_ids):
        values = (input_ids, input_mask, segment_ids)
        batch = dict(zip(serving_base.IDS, values, strict=True))
        outputs = answer(model(batch, training=False), batch)
        return {n: v for n, v in outputs.items() if v.dtype != tf.string}

    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [numbers.get_concrete_function()], model
    )
    try:
        content = converter.convert()
    except Exception as error:  # the converter raises whatever it meets
        reason = str(error).strip().splitlines()[0][:300]
        raise ValueError(f"The model cannot be a TFLite file: {reason}.") from error
    differences = _differences(content, numbers, exported.config.vocab_size, length)
    worst = max(differences.values())
    if not worst <= _TOLERANCE:
        raise ValueError(
            f"The TFLite model differs from the model by {worst:.2g} ({differences}): "
            "it is not written."
        )
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content)
    return differences


def _differences(content, numbers, vocab_size, length) -> dict[str, float]:
    interpreter = tf.lite.Interpreter(model_content=content)
    runner = interpreter.get_signature_runner()
    rng = np.random.default_rng(0)
    found: dict[str, float] = {}
    for _ in range(_CHECKED_ROWS):
        visible = np.arange(length) < rng.integers(1, length + 1)
        row = {
            "input_ids": rng.integers(0, vocab_size, (1, length)),
            "input_mask": visible[np.newaxis],
            "segment_ids": np.zeros((1, length)),
        }
        row = {name: values.astype(np.int32) for name, values in row.items()}
        expected = numbers(**row)
        for name, values in runner(**row).items():
            difference = float(np.abs(values - expected[name].numpy()).max())
            found[name] = max(found.get(name, 0.0), difference)
    return found
