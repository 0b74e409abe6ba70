"""Self-attention in a window: a token sees those near it, and the first of its row.

Time and memory then grow with the length, not with its square. The paper names sparse
attention as future work (section 5); the form is that of Longformer (Beltagy et al.
2020, section 3.1), with one set of weights. A row is cut into blocks as wide as the
window, and each block sees itself and the two beside it, with what is too far masked.

Letters in shapes: B batch, N heads, S sequence, D width of a head, K blocks, W window,
G global tokens.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.model import kernels
from albert_tf.model.documents import MASKED_LOGIT


class Window(NamedTuple):
    """What a token sees.

    Attributes:
      size: W, tokens on either side.
      global_tokens: G, first tokens of a row, which see all and are seen by all.
    """

    size: int
    global_tokens: int

    @classmethod
    def of(cls, config: AlbertConfig) -> "Window | None":
        """The window of a model; None: every token sees all."""
        if config.attention_window is None:
            return None
        return cls(config.attention_window, config.global_attention_tokens or 0)


def attend(
    parts: Sequence[tf.Tensor],
    mask_logits: tf.Tensor,
    window: Window | None,
    drop: Callable[[tf.Tensor], tf.Tensor],
    recompute: bool = False,
    whole: Callable[[], tf.Tensor] | None = None,
) -> tf.Tensor:
    """Computes softmax attention of every head, each token in its window.

    Rows that the window covers are computed as a model without a window does, to the
    last bit.

    Args:
      parts: as in `kernels.attend`.
      mask_logits: float32 [B, 1, 1, S].
      window: what a token sees; None: all.
      drop: as in `kernels.attend`, of probabilities of other shapes, too.
      recompute: as there.
      whole: computes attention without a window; None: `kernels.attend`.
    Returns:
      [B, N, S, D].
    """
    if whole is None:
        whole = functools.partial(kernels.attend, parts, mask_logits, drop, recompute)
    if window is None:
        return whole()

    def windowed() -> tf.Tensor:
        return _attend_in_windows(parts, mask_logits, window, drop, recompute)

    query = parts[0]
    if query.shape[2] is not None:
        return whole() if query.shape[2] <= window.size + 1 else windowed()
    # Functions of their own, since the gradient of a branch finds no tensor that a
    # custom gradient keeps in it.
    branches = [tf.function(branch, autograph=False) for branch in (whole, windowed)]
    context = tf.cond(tf.shape(query)[2] <= window.size + 1, *branches)
    return tf.ensure_shape(context, query.shape)


def _attend_in_windows(
    parts: Sequence[tf.Tensor],
    mask_logits: tf.Tensor,
    window: Window,
    drop: Callable[[tf.Tensor], tf.Tensor],
    recompute: bool,
) -> tf.Tensor:
    """`attend` of rows that are longer than the window."""
    size, first = window
    length = tf.shape(parts[0])[2]
    query, key, value = (_blocks(part, 2, size, 0.0) for part in parts)
    # The global tokens are seen apart: in the windows they would count twice.
    is_global = tf.range(length) < first
    near = _blocks(
        tf.where(is_global, MASKED_LOGIT, mask_logits), 3, size, MASKED_LOGIT
    )
    near = _around(near, 3, MASKED_LOGIT)
    mask = tf.transpose(near, [0, 1, 3, 2, 4]) + _band(size)
    key, value = (_around(blocks, 2, 0.0) for blocks in (key, value))
    if first:
        blocks = tf.shape(query)[2]
        seen = [
            tf.repeat(part[:, :, tf.newaxis, :first], blocks, axis=2)
            for part in parts[1:]
        ]
        key, value = (
            tf.concat(pair, axis=3) for pair in zip(seen, (key, value), strict=True)
        )
        of_first = mask_logits[:, :, tf.newaxis, :, :first]
        shape = tf.concat([tf.shape(mask)[:-1], [first]], axis=0)
        mask = tf.concat([tf.broadcast_to(of_first, shape), mask], axis=-1)
    context = kernels.attend((query, key, value), mask, drop, recompute)
    context = tf.reshape(context, _joined(parts[0], tf.shape(query)[2] * size))
    if first:
        seeing_all = (parts[0][:, :, :first], *parts[1:])
        begin = kernels.attend(seeing_all, mask_logits, drop, recompute)
        context = tf.concat([begin, context[:, :, first:length]], axis=2)
    else:
        context = context[:, :, :length]
    return tf.ensure_shape(context, parts[0].shape)


def _blocks(values: tf.Tensor, axis: int, size: int, fill: float) -> tf.Tensor:
    """Cuts an axis into blocks [..., K, W, ...]; the last one is filled up."""
    length = tf.shape(values)[axis]
    paddings = [[0, 0]] * values.shape.rank
    paddings[axis] = [0, -length % size]
    padded = tf.pad(values, paddings, constant_values=fill)
    shape = tf.shape(padded)
    cut = [shape[:axis], [shape[axis] // size, size], shape[axis + 1 :]]
    blocks = tf.reshape(padded, tf.concat(cut, axis=0))
    known = values.shape.as_list()
    count = None if known[axis] is None else -(-known[axis] // size)
    return tf.ensure_shape(blocks, [*known[:axis], count, size, *known[axis + 1 :]])


def _around(blocks: tf.Tensor, axis: int, fill: float) -> tf.Tensor:
    """Joins each block with the two beside it: [..., K, W, ...] -> [..., K, 3 W, ...].

    Beside the first and the last one there are values to fill with.
    """
    paddings = [[0, 0]] * blocks.shape.rank
    paddings[axis] = [1, 1]
    padded = tf.pad(blocks, paddings, constant_values=fill)
    beside = [_from(padded, axis, shift, tf.shape(blocks)) for shift in range(3)]
    return tf.concat([tf.ensure_shape(b, blocks.shape) for b in beside], axis=axis + 1)


def _from(values: tf.Tensor, axis: int, start: int, size: tf.Tensor) -> tf.Tensor:
    """A part of some size that starts at a place of an axis."""
    begin = [0] * values.shape.rank
    begin[axis] = start
    return tf.slice(values, begin, size)


def _band(size: int) -> np.ndarray:
    """float32 [W, 3 W]: 0 within the window of a block's token, else `MASKED_LOGIT`."""
    row, column = np.arange(size)[:, np.newaxis], np.arange(3 * size)
    far = np.abs(row + size - column) > size
    return np.where(far, np.float32(MASKED_LOGIT), np.float32(0.0))


def _joined(like: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
    """The shape [B, N, length, D]."""
    shape = tf.shape(like)
    return tf.stack([shape[0], shape[1], length, shape[3]])
