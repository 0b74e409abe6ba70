"""Runs TensorFlow Lite files that `albert_tf.serving.tflite` wrote.

    rows = {"input_ids": [[2, 8, 3]], "input_mask": [[1, 1, 1]], "segment_ids": ...}
    TfliteModel("rte.tflite")(rows)["probabilities"]

Letters in shapes: B rows, C options, S tokens.
"""

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from numpy.typing import ArrayLike

from albert_tf.serving.base import IDS
from albert_tf.storage import PathLike, as_path

# The first bytes of every such file.
SIGNATURE = b"\0\0\0\0TFL3"


class TfliteModel:
    """Runs a TensorFlow Lite file on rows of any length that it has room for.

    Several threads may call it; it answers one row at a time.

    Attributes:
      shape: of a row of the file: [S], or [C, S] for multiple choice.
    """

    def __init__(self, model: PathLike | bytes, num_threads: int | None = None):
        """Opens a file of `export_tflite`.

        Args:
          model: path or content.
          num_threads: threads that compute; None: one for each processor that this
            process may use.
        Raises:
          FileNotFoundError: there is no such file.
          ValueError: it is not a file of `export_tflite`, or there are no threads.
        """
        self._name = "The file" if isinstance(model, bytes) else str(model)
        source = _source(model)
        if num_threads is not None and num_threads < 1:
            raise ValueError(f"num_threads must be at least 1. Received {num_threads}.")
        self._lock = threading.Lock()
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
            that the model does not have, or whose mask is 0 throughout.
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
            # An interpreter has one set of tensors for all threads.
            with self._lock:
                return self._runner(**row)
        except RuntimeError as error:
            # The file's message is only that an index is out of bounds.
            raise ValueError(
                f"{self._name} does not read a row with an id outside the vocabulary, "
                "a mask or segments other than 0 and 1, or a mask that is 0 "
                "throughout: correct the row."
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
        if len(shapes) == 1 and len(shape) > 1 and shape[-1] > self.shape[-1]:
            raise ValueError(
                f"{self._name} reads at most {self.shape[-1]} tokens a row. Received "
                f"{shape[-1]}: cut the row, or export with a larger --tflite_length."
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


def _source(model: PathLike | bytes) -> dict[str, Any]:
    """The argument of an interpreter that tells its file.

    Raises:
      FileNotFoundError: there is no such file.
    """
    if isinstance(model, bytes):
        return {"model_content": model}
    path = as_path(model)
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {model}: check the path.")
    if isinstance(path, Path):
        return {"model_path": str(path)}
    return {"model_content": path.read_bytes()}


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
