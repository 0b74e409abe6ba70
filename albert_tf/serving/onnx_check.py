"""Compares the numbers of an ONNX file with the model's."""

from typing import TypeAlias

import numpy as np
import onnxruntime
import tensorflow as tf

from albert_tf.serving.base import IDS, ServedModel
from albert_tf.tasks.answers import NO_SCORE

Arrays: TypeAlias = dict[str, np.ndarray]

# Largest allowed difference of an output from the model's.
TOLERANCE = 1e-4
# Scores that are closer than this may be in another order.
_TIE = 1e-5
_SHORT_LENGTH = 19
_OPTIONS = 3


def differences_from_model(content: bytes, served: ServedModel) -> dict[str, float]:
    """Compares a file's outputs with the model's, on random rows.

    Args:
      content: of the file.
      served: the model.
    Returns:
      Name of each output -> its largest difference from the model's, values that
      `is_certain` leaves out apart.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        content, options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    rng = np.random.default_rng(0)
    differences = dict.fromkeys(names, 0.0)
    longest = min(served.max_seq_length, served.config.max_position_embeddings)
    for rows, length in ((1, longest), (3, min(longest, _SHORT_LENGTH))):
        batch = _random_batch(served, rows, length, rng)
        found = dict(zip(names, session.run(names, batch), strict=True))
        answers = served.answer(
            {name: tf.constant(values, tf.int32) for name, values in batch.items()}
        )
        expected = {n: v.numpy() for n, v in answers.items() if v.dtype != tf.string}
        for name, values in found.items():
            difference = _difference(values, expected[name])
            difference = difference * is_certain(name, expected)
            # Not Python's `max`, which may leave NaN out.
            worst = np.max(difference, initial=differences[name])
            differences[name] = float(worst)
    return differences


def _random_batch(
    served: ServedModel, rows: int, length: int, rng: np.random.Generator
) -> Arrays:
    """Makes rows of two segments and padding."""
    shape = (rows, *[_OPTIONS] * (served.ids_rank - 2), length)
    columns = np.arange(length)
    ends = rng.integers(1, length + 1, (*shape[:-1], 1))
    second = rng.integers(0, ends)
    segments = (columns >= second) & (columns < ends)
    values = (
        rng.integers(0, served.config.vocab_size, shape),
        columns < ends,
        np.minimum(segments, served.config.type_vocab_size - 1),
    )
    return {n: v.astype(np.int64) for n, v in zip(IDS, values, strict=True)}


def _difference(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    difference = np.zeros(expected.shape)
    # Infinite thresholds are equal, but their difference is not a number.
    is_other = found != expected
    np.subtract(found, expected, out=difference, where=is_other, dtype=np.float64)
    return np.abs(difference)


def is_certain(name: str, expected: Arrays) -> np.ndarray:
    """Tells which values of an output do not depend on the last digits of others.

    Of two spans with nearly equal scores either may be the first one. In v2.0 either of
    two such starts may be in the beam, which changes all spans of the row.

    Args:
      name: of the output.
      expected: all outputs of the model.
    Returns:
      bool, of a shape that can be broadcast to the output's.
    """
    match name:
        case "answered":
            gaps = np.abs(expected["null_scores"] - expected["threshold"])
            return gaps > _TIE
        case "choice":
            best = np.sort(expected["probabilities"], axis=1)
            return best[:, -1] - best[:, -2] > _TIE
        case "span_starts" | "span_ends":
            is_apart = -np.diff(expected["span_scores"], axis=1) > _TIE
            # Nothing is before the first span; what follows the last one is not known.
            before = np.pad(is_apart, [(0, 0), (1, 0)], constant_values=True)
            after = np.pad(is_apart, [(0, 0), (0, 1)], constant_values=False)
            return before & after & _has_certain_spans(expected)
        case "span_scores" | "probabilities":
            return _has_certain_spans(expected)
    return np.array(True)


def _has_certain_spans(expected: Arrays) -> np.ndarray:
    """True for rows without a beam, or without nearly equal scores in it."""
    if "null_scores" not in expected:
        return np.array(True)
    scores = expected["span_scores"]
    is_none = scores[:, 1:] <= NO_SCORE
    is_apart = -np.diff(scores, axis=1) > _TIE
    return np.all(is_apart | is_none, axis=1, keepdims=True)
