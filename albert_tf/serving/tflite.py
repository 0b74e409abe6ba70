"""TensorFlow Lite files: a model's answers to rows of one length, checked; and a class
that runs such files.

    rows = {"input_ids": [[2, 8, 3]], "input_mask": [[1, 1, 1]], "segment_ids": ...}
    TfliteModel("rte.tflite")(rows)["probabilities"]

Weights that layers share are in the file once, and so are those of a quantized file.
It has them as whole numbers of 8 bits: kernels with a scale for each output, the table
of token embeddings with one scale. Activations are quantized while it runs, row by row.

Letters in shapes: B rows, C options, S tokens.
"""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter
from numpy.typing import ArrayLike

from albert_tf.file_kinds import check_replaceable, check_suffix
from albert_tf.files import (
    check_local,
    digest,
    json_bytes,
    make_folder,
    read_json,
    write_together,
)
from albert_tf.serving.base import IDS, Answers, ServedModel
from albert_tf.serving.create import create_served_model, load_model
from albert_tf.serving.export import MODEL_CARD, ExportedModel
from albert_tf.serving.tflite_check import (
    TOLERANCE,
    Answer,
    DevelopmentSet,
    largest_differences,
)
from albert_tf.task_config import MultipleChoice

# What is quantized -> type of the weights in the file.
QUANTIZATIONS = {"none": "float32", "dynamic": "int8"}
NOT_MEASURED = "not measured"
_OPTIONS = 4
# The first bytes of every such file.
_SIGNATURE = b"\0\0\0\0TFL3"


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


class TfliteModel:
    """Runs a TensorFlow Lite file on rows of any length that it has room for.

    Attributes:
      shape: of a row of the file: [S], or [C, S] for multiple choice.
    """

    def __init__(
        self, model: str | os.PathLike[str] | bytes, num_threads: int | None = None
    ):
        """Opens a file of `export_tflite`.

        Args:
          model: path or content.
          num_threads: threads that compute; None: one for each processor that this
            process may use.
        Raises:
          FileNotFoundError: there is no such file.
          ValueError: it is not a file of `export_tflite`.
        """
        self._name = "The file" if isinstance(model, bytes) else os.fspath(model)
        source: dict[str, Any] = {"model_content": model}
        if not isinstance(model, bytes):
            if not Path(model).is_file():
                raise FileNotFoundError(f"There is no file {model}: check the path.")
            source = {"model_path": os.fspath(model)}
        threads = num_threads or _processors()
        try:
            interpreter = Interpreter(**source, num_threads=threads)
            self._runner = interpreter.get_signature_runner()
            inputs = self._runner.get_input_details()
            shapes = {tuple(inputs.pop(name)["shape"].tolist()) for name in IDS}
            [(_, *self.shape)] = shapes
        except (KeyError, RuntimeError, ValueError) as error:
            raise _not_ours(self._name) from error
        if inputs or not self.shape:
            raise _not_ours(self._name)

    def __call__(self, rows: Mapping[str, ArrayLike]) -> dict[str, np.ndarray]:
        """Answers rows, one after the other.

        Args:
          rows: whole numbers `input_ids`, `input_mask` and `segment_ids` of one shape,
            [B, tokens] or [B, options, tokens]; tokens at most S, options at most C.
            Missing tokens and options are padding.
        Returns:
          Name of each output -> [B, ...], where S and C are those of the file.
        Raises:
          ValueError: rows of another shape or type, or with an id, a mask or a segment
            that the model does not have.
        """
        batch = self._checked(rows)
        answers: dict[str, list[np.ndarray]] = {
            name: [np.empty([0, *each["shape"][1:]], each["dtype"])]
            for name, each in self._runner.get_output_details().items()
        }
        for place in range(len(batch[IDS[0]])):
            row = {name: values[place : place + 1] for name, values in batch.items()}
            for name, value in self._run(row).items():
                answers[name].append(value)
        return {name: np.concatenate(parts) for name, parts in answers.items()}

    def _run(self, row: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        try:
            return self._runner(**row)
        except RuntimeError as error:
            # The file's message is only that an index is out of bounds.
            raise ValueError(
                f"{self._name} does not read a row with an id outside the vocabulary, "
                "a mask or segments other than 0 and 1, or a question without an "
                "option: correct the row."
            ) from error

    def _checked(self, rows: Mapping[str, ArrayLike]) -> dict[str, np.ndarray]:
        """The rows padded to the file's shape, int32."""
        if set(rows) != set(IDS):
            raise ValueError(
                f"{self._name} reads {', '.join(IDS)}. Received {', '.join(rows)}."
            )
        batch = {name: np.asarray(values) for name, values in rows.items()}
        shapes = {values.shape for values in batch.values()}
        shape = batch[IDS[0]].shape
        fits = len(shape) == 1 + len(self.shape) and all(
            1 <= size <= most for size, most in zip(shape[1:], self.shape, strict=True)
        )
        if len(shapes) > 1 or not fits:
            raise ValueError(
                f"{self._name} reads rows of one shape, at least 1 and at most "
                f"{self.shape} each. Received {sorted(shapes)}."
            )
        padding = [(0, 0)]
        padding += [
            (0, most - size) for size, most in zip(shape[1:], self.shape, strict=True)
        ]
        return {n: np.pad(_as_int32(n, v), padding) for n, v in batch.items()}


def _processors() -> int:
    """The number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _as_int32(name: str, values: np.ndarray) -> np.ndarray:
    """Converts whole numbers; 2**32 + 5 is not 5."""
    if values.dtype.kind not in "biu":
        raise ValueError(f"{name} must be whole numbers. Received {values.dtype}.")
    converted = values.astype(np.int32)
    if (converted != values).any():
        raise ValueError(f"{name} must be below 2**31. Received {values.max()}.")
    return converted


def _not_ours(name: str) -> ValueError:
    return ValueError(
        f"{name} is not a TensorFlow Lite file of this project: make it with "
        "export_saved_model.py --tflite."
    )


def check_output(path: str | os.PathLike[str]) -> None:
    """Checks that a TensorFlow Lite file can be written, before it is made.

    Raises:
      ValueError: the name is that of another kind of file.
      OSError: the place cannot be written, or holds something else.
    """
    check_local(path)
    check_suffix(path, "a TensorFlow Lite model")
    check_replaceable(path, _SIGNATURE)
    folder = Path(path).absolute().parent
    above = next(each for each in (folder, *folder.parents) if os.path.lexists(each))
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise OSError(f"{path} cannot be written: {above} is no folder to write into.")


def export_tflite(
    exported: ExportedModel,
    path: str | os.PathLike[str],
    settings: TfliteSettings,
    *,
    development_set: DevelopmentSet | None = None,
    version: Path | None = None,
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
      `accuracy` of both on each split, or `NOT_MEASURED`.
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
        exported.checkpoint,
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
        "file": Path(path).name,
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
    make_folder(Path(path).parent)
    contents: dict[str | os.PathLike[str], bytes] = {path: content}
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
    """Returns the mask of options; that of a question without one is refused."""
    if mask.shape.rank == 2:
        return mask
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
