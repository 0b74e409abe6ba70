"""TensorFlow Lite files: a model's answers to rows of one length, checked.

Weights that layers share are in the file once, and so are those of a quantized file.
It has them as whole numbers of 8 bits: kernels with a scale for each output, the table
of token embeddings with one scale. Activations are quantized while it runs, row by row.

Letters in shapes: B rows, C options, S tokens.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.files import (
    digest,
    json_bytes,
    make_folder,
    read_json,
    write_together,
)
from albert_tf.serving.base import IDS, Answers, ServedModel
from albert_tf.serving.create import create_served_model, load_model
from albert_tf.serving.export import MODEL_CARD, ExportedModel, check_output_file
from albert_tf.serving.tflite_check import (
    TOLERANCE,
    Answer,
    DevelopmentSet,
    largest_differences,
)
from albert_tf.serving.tflite_model import SIGNATURE, TfliteModel
from albert_tf.storage import AnyPath, PathLike, as_path
from albert_tf.task_config import MultipleChoice

# What is quantized -> type of the weights in the file.
QUANTIZATIONS = {"none": "float32", "dynamic": "int8"}
NOT_MEASURED = "not measured"
_OPTIONS = 4


@dataclasses.dataclass(frozen=True)
class TfliteSettings:
    """Sizes and types of a TensorFlow Lite file.

    Attributes:
      length: S, tokens of a row, padding included.
      quantize: "none": weights are float32. "dynamic": they are int8.
      options: multiple choice: C, options of a question, missing ones included; None:
        4.
    """

    length: int = 128
    quantize: str = "none"
    options: int | None = None

    def check(self, exported: ExportedModel) -> None:
        """Checks that a model can be such a file.

        Raises:
          ValueError: it cannot.
        """
        longest = exported.config.max_position_embeddings
        if not 1 <= self.length <= longest:
            raise ValueError(
                f"The length of a TFLite model is in 1 to max_position_embeddings, "
                f"{longest}. Received {self.length}."
            )
        if self.quantize not in QUANTIZATIONS:
            raise ValueError(
                f"A TFLite model is quantized by one of {', '.join(QUANTIZATIONS)}. "
                f"Received {self.quantize!r}."
            )
        threshold = getattr(exported.task_config, "threshold", None)
        if threshold is not None and not np.isfinite(np.float32(threshold)):
            raise ValueError(
                "A TFLite model holds a finite threshold. Received "
                f"--threshold_to_export={threshold}: pass a number."
            )
        if self.options is None:
            return
        if not isinstance(exported.task_config, MultipleChoice):
            raise ValueError(
                "Options are for models of multiple choice. Received "
                f"{self.options} for another model: leave --tflite_options out."
            )
        if self.options < 1:
            raise ValueError(
                "A question has one option at least. Received --tflite_options="
                f"{self.options}."
            )

    def options_of(self, exported: ExportedModel) -> int | None:
        """C of a model of multiple choice; None: the model has no options."""
        if isinstance(exported.task_config, MultipleChoice):
            return self.options or _OPTIONS
        return None

    def shape_of(self, exported: ExportedModel) -> list[int]:
        """Shape of the file's inputs: [1, S], or [1, C, S] for multiple choice."""
        options = self.options_of(exported)
        return [1, *([options] if options else []), self.length]


def check_output(path: PathLike) -> None:
    """Checks that a file can be written, as `check_output_file`."""
    check_output_file(path, "a TensorFlow Lite model", SIGNATURE)


def export_tflite(
    exported: ExportedModel,
    path: PathLike,
    settings: TfliteSettings,
    *,
    development_set: DevelopmentSet | None = None,
    version: AnyPath | None = None,
) -> dict[str, Any]:
    """Writes a `.tflite` file that takes one row of ids, of a fixed length.

    Its signature `serving_default` takes `input_ids`, `input_mask` and `segment_ids`,
    int32 [1, S], or [1, C, S] for multiple choice, and gives the task's numbers. The
    names of labels are not in the file; they are in the model card. Activations are
    float32, whatever the precision of the SavedModel.

    Args:
      exported: the model; its tokenizer is not used.
      path: the file.
      settings: its sizes and types.
      development_set: rows to measure the accuracy on; None: it is not measured.
      version: folder of the model's SavedModel, whose card gets the report as `tflite`;
        None: there is none. File and card are written together.
    Returns:
      The report, JSON values: the file, its size, digest and settings, the
      `largest_differences` of its outputs from the model's on random rows, and the
      `accuracy` of both on each split as of `DevelopmentSet.score`, or `NOT_MEASURED`.
    Raises:
      ValueError: the model cannot be such a file, or the file gives other numbers than
        the model.
      OSError: the file cannot be written.
    """
    check_output(path)
    settings.check(exported)
    options, shape = settings.options_of(exported), settings.shape_of(exported)
    if development_set is not None:
        check_options(development_set, options)
    model, _ = load_model(
        exported.config,
        exported.weights,
        exported.task_config,
        skips_padding=False,
    )
    served = create_served_model(model, exported.config, exported.task_config)
    content = _convert(served, shape, settings.quantize)
    ours, file = _model_answer(served), TfliteModel(content)
    is_exact = settings.quantize == "none"
    differences = largest_differences(ours, file, exported.config, shape, is_exact)
    _check_differences(differences, is_exact)
    report = {
        "file": as_path(path).name,
        "sha256": digest(content),
        "bytes": len(content),
        "weights": QUANTIZATIONS[settings.quantize],
        "input_shape": shape,
        "largest_differences": differences,
        "accuracy": NOT_MEASURED,
    }
    if development_set is not None:
        answers: dict[str, Answer] = {"model": ours, "tflite": file}
        report["accuracy"] = development_set.score(answers, options)
    make_folder(as_path(path).parent)
    contents: dict[PathLike, bytes] = {path: content}
    if version is not None:
        card = version / "assets.extra" / MODEL_CARD
        contents[card] = json_bytes({**read_json(card), "tflite": report})
    write_together(contents)
    return report


def check_options(development_set: DevelopmentSet, options: int | None) -> None:
    """Checks that a file has room for the options of all questions.

    Args:
      development_set: the questions.
      options: C of the file; None: rows have no options.
    Raises:
      ValueError: it has not.
    """
    if options is None:
        return
    most = max(rows.most_options() for rows in development_set.splits.values())
    if most > options:
        raise ValueError(
            f"The development set has questions of {most} options, the TFLite model "
            f"reads {options}: pass --tflite_options={most}."
        )


def _convert(served: ServedModel, shape: list[int], quantize: str) -> bytes:
    """Converts a model's answers to rows of ids, without those that are strings."""
    specs = [tf.TensorSpec(shape, tf.int32, name=name) for name in IDS]

    @tf.function(input_signature=specs, autograph=False)
    def numbers(input_ids, input_mask, segment_ids):
        return _numbers(
            served,
            {
                "input_ids": input_ids,
                # TensorFlow Lite has no assertions, but refuses to look beyond a table.
                "input_mask": _with_a_token(tf.gather([0, 1], input_mask)),
                "segment_ids": tf.gather(
                    tf.range(served.config.type_vocab_size), segment_ids
                ),
            },
        )

    # The variables alone: the converter would trace each layer of a Keras model anew.
    variables = tf.Module()
    variables.all = list(served.model.variables)
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [numbers.get_concrete_function()], variables
    )
    if quantize == "dynamic":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    try:
        return converter.convert()
    except Exception as error:  # The converter raises errors of many types.
        reason = str(error).strip().splitlines()[0][:300]
        raise ValueError(f"The model cannot be a TFLite file: {reason}.") from error


def _with_a_token(mask: tf.Tensor) -> tf.Tensor:
    """Returns the mask of a row or of a question; if it is 0 throughout, it fails."""
    return mask + tf.gather([0], 1 - tf.reduce_max(mask))


def _model_answer(served: ServedModel) -> Answer:
    """A function that answers rows of any number and length by the model itself."""
    shape = [None] * served.ids_rank
    specs = [tf.TensorSpec(shape, tf.int32, name=name) for name in IDS]

    @tf.function(input_signature=specs, autograph=False)
    def numbers(input_ids, input_mask, segment_ids):
        values = (input_ids, input_mask, segment_ids)
        return _numbers(served, dict(zip(IDS, values, strict=True)))

    def answer(rows):
        return {name: value.numpy() for name, value in numbers(**rows).items()}

    return answer


def _numbers(served: ServedModel, batch: Mapping[str, tf.Tensor]) -> Answers:
    answers = served.answer(batch)
    return {name: v for name, v in answers.items() if v.dtype != tf.string}


def _check_differences(differences: Mapping[str, float], is_exact: bool) -> None:
    """Raises ValueError unless a file's numbers are the model's, or are numbers."""
    worst = float(np.max(list(differences.values())))
    if not (worst <= TOLERANCE if is_exact else np.isfinite(worst)):
        raise ValueError(
            f"The TFLite model differs from the model by {worst:.2g} "
            f"({dict(differences)}): it is not written."
        )
