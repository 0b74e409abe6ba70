"""Refuses requests that a model cannot answer, in the graph that is exported.

Servers do not compare a request's shape with the signature's: a batch of texts of rank
2 would be flattened, and answered with more rows than it has. On GPUs ids outside a
table are embedded as zeros without any message. So these checks are a part of the
graph. Each is an operation or two on the ids, or on a shape.

Letters in shapes: B rows.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from albert_tf.config import AlbertConfig


def checked_rows(inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Returns inputs that have the ranks of their signature and one number of rows.

    Args:
      inputs: name -> tensor whose static rank is the signature's.
    """
    ranked = _ranked(inputs)
    (first, tensor), *others = ranked.items()
    rows = tf.shape(tensor)[0]
    checks = [
        _refuse_unless(
            rows == tf.shape(other)[0],
            f"{first} and {name} must have as many rows. Received",
            rows,
            tf.shape(other)[0],
        )
        for name, other in others
    ]
    return _after(checks, ranked)


def checked_ids(
    batch: Mapping[str, tf.Tensor], config: AlbertConfig
) -> dict[str, tf.Tensor]:
    """Returns a batch of ids in int32 that the model can read.

    Values are checked before they are converted: 2**32 + 5 is not 5.

    Args:
      batch: `input_ids`, `input_mask` and `segment_ids`, int32 or int64, of one shape.
        A row [B, S] must have a token; an option of a question, [B, C, S], may be
        missing.
      config: the model's.
    """
    ranked = _ranked(batch)
    ids, segments = ranked["input_ids"], config.type_vocab_size
    vocab_size = config.vocab_size
    shape = tf.shape(ids)
    checks = [
        _refuse_unless(
            tf.reduce_all(tf.shape(values) == shape),
            f"{name} must have the shape of input_ids. Received",
            tf.shape(values),
            shape,
        )
        for name, values in ranked.items()
        if values is not ids
    ]
    checks += [
        _refuse_unless(shape[-1] > 0, "Rows must have at least one token."),
        *(
            _refuse_outside(name, ranked[name], rule, size)
            for name, rule, size in (
                ("input_ids", f"below vocab_size, {vocab_size}", vocab_size),
                ("input_mask", "0 or 1", 2),
                ("segment_ids", f"below type_vocab_size, {segments}", segments),
            )
        ),
    ]
    if ids.shape.rank == 2:
        # Not `> 0`: wrong values of a mask have a message of their own.
        shown = tf.reduce_max(ranked["input_mask"], axis=-1)
        checks.append(
            _refuse_unless(
                tf.reduce_all(shown != 0),
                "Every row must have a token that input_mask shows.",
            )
        )
    return {
        name: tf.cast(values, tf.int32)
        for name, values in _after(checks, ranked).items()
    }


def refuse_unless(
    condition: tf.Tensor, rule: str, tensors: Mapping[str, tf.Tensor]
) -> dict[str, tf.Tensor]:
    """Returns tensors that can be computed only if a condition is true.

    Args:
      condition: bool, a scalar.
      rule: message of the error.
      tensors: name -> tensor, ragged or not.
    """
    return _after([_refuse_unless(condition, rule)], tensors)


def _ranked(inputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Checks ranks when the graph runs: the static shape is what was promised."""
    return {name: tf.ensure_shape(v, v.shape) for name, v in inputs.items()}


def _refuse_outside(name: str, values: tf.Tensor, rule: str, size: int) -> Any:
    """Refuses values that are negative, or not below a size."""
    low, high = tf.reduce_min(values), tf.reduce_max(values)
    return _refuse_unless(
        (low >= 0) & (high < size),
        f"{name} must not be negative and must be {rule}. Received, at the least and "
        "at the most,",
        low,
        high,
    )


def _refuse_unless(condition: tf.Tensor, rule: str, *received: tf.Tensor) -> Any:
    # Not `tf.debugging.Assert`, which puts a conditional around int64 values.
    return tf.raw_ops.Assert(condition=condition, data=[rule, *received])


def _after(
    checks: Sequence[Any], tensors: Mapping[str, tf.Tensor]
) -> dict[str, tf.Tensor]:
    """Returns tensors that depend on checks."""
    # Eagerly a check has run already, and is None.
    with tf.control_dependencies([check for check in checks if check is not None]):
        return {name: tf.identity(values) for name, values in tensors.items()}
