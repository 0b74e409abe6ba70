"""Exports a model as a TensorFlow Lite file of one length, and checks its numbers."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from albert_tf.file_kinds import check_suffix
from albert_tf.files import check_local, make_folder, write_whole
from albert_tf.serving.base import IDS
from albert_tf.serving.create import create_served_model, load_model
from albert_tf.serving.export import ExportedModel
from albert_tf.task_config import MultipleChoice, Squad

# Largest allowed difference of an output from the model's.
_TOLERANCE = 1e-4
_CHECKED_ROWS = 3


def export_tflite(
    exported: ExportedModel, path: str | os.PathLike[str], length: int
) -> dict[str, float]:
    """Writes a `.tflite` file that takes one row of ids, of a fixed length.

    Its signature `serving_default` takes `input_ids`, `input_mask` and `segment_ids`,
    int32 [1, S], and gives the task's numbers. The names of labels are not in the file;
    they are in the model card.

    Args:
      exported: the model; its tokenizer is not used.
      path: the file.
      length: S, tokens of a row, padding included.
    Returns:
      Name of each output -> its largest difference from the model's.
    Raises:
      ValueError: the model reads no rows of this length, it cannot be converted, or
        the file gives other numbers than the model.
    """
    check_local(path)
    check_suffix(path, "a TensorFlow Lite model")
    longest = exported.config.max_position_embeddings
    if not 1 <= length <= longest:
        raise ValueError(
            f"The length of a TFLite model is in 1 to max_position_embeddings, "
            f"{longest}. Received {length}."
        )
    if isinstance(exported.task_config, MultipleChoice | Squad):
        raise ValueError(
            f"A model for {exported.task_config.task_name} cannot be a TFLite file: "
            "these are of classifiers, regressions and encoders."
        )
    model, numbers = _numbers_function(exported, length)
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [numbers.get_concrete_function()], model
    )
    try:
        content = converter.convert()
    except Exception as error:  # The converter raises errors of many types.
        reason = str(error).strip().splitlines()[0][:300]
        raise ValueError(f"The model cannot be a TFLite file: {reason}.") from error
    differences = _differences(content, numbers, exported.config.vocab_size, length)
    worst = max(differences.values())
    if not worst <= _TOLERANCE:
        raise ValueError(
            f"The TFLite model differs from the model by {worst:.2g} ({differences}): "
            "it is not written."
        )
    make_folder(Path(path).parent)
    write_whole(path, content)
    return differences


def _numbers_function(exported: ExportedModel, length: int) -> tuple[tf.Module, Any]:
    """Returns the model, and a `tf.function` of ids -> outputs that are no strings."""
    model, _ = load_model(
        exported.config,
        exported.checkpoint,
        exported.task_config,
        exported.precision,
        skips_padding=False,
    )
    served = create_served_model(model, exported.config, exported.task_config)
    specs = [tf.TensorSpec([1, length], tf.int32, name=name) for name in IDS]

    @tf.function(input_signature=specs, autograph=False)
    def numbers(input_ids, input_mask, segment_ids):
        # TensorFlow Lite has no assertions, but refuses to look beyond a table.
        segments = tf.range(exported.config.type_vocab_size)
        batch = {
            "input_ids": input_ids,
            "input_mask": tf.gather([0, 1], input_mask),
            "segment_ids": tf.gather(segments, segment_ids),
        }
        outputs = served.answer(batch)
        return {n: v for n, v in outputs.items() if v.dtype != tf.string}

    return model, numbers


def _differences(
    content: bytes, numbers: Callable[..., dict], vocab_size: int, length: int
) -> dict[str, float]:
    """Compares the file's outputs with the model's, on random rows."""
    interpreter = Interpreter(model_content=content)
    runner = interpreter.get_signature_runner()
    rng = np.random.default_rng(0)
    differences: dict[str, float] = {}
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
            differences[name] = max(differences.get(name, 0.0), difference)
    return differences
