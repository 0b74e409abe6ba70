"""Self-attention in the form that moves the fewest bytes when XLA compiles it.

XLA for TPUs fuses element-wise operations, slices and concatenations with the matrix
product that reads them, and sums with the product that writes them, as long as no
reshape is between. So query, key and value are one product, the sums of the softmax are
a column of the product with the values, and heads keep an axis of their own.

Letters in shapes: B batch, S and T sequence, H hidden, N heads, D width of a head.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf

from albert_tf.model import local_attention
from albert_tf.model.local_attention import Window
from albert_tf.model.recomputation import barrier


def project_heads(
    hidden: tf.Tensor, kernels: Sequence[tf.Tensor], biases: Sequence[tf.Tensor]
) -> list[tf.Tensor]:
    """Projects `hidden` to queries, keys and values, for `attend`.

    Args:
      hidden: [B, S, H].
      kernels: three [H, N, D], of the dtype of `hidden`.
      biases: three [N, D], of the same dtype.
    Returns:
      Queries and keys [2, B, S, N, D], and values [B, S, N, D]. The values are apart:
      `attend` adds a column to them, which XLA fuses with a product, but not with a
      slice of one.
    """

    @tf.custom_gradient
    def project(hidden, kernel, bias):
        joined = tf.einsum("BSH,HKND->KBSND", hidden, kernel[:, :2], name="query_key")
        values = tf.einsum("BSH,HND->BSND", hidden, kernel[:, 2], name="value")
        parts = [joined + bias[:2, tf.newaxis, tf.newaxis], values + bias[2]]

        def gradient(joined_upstream, value_upstream):
            upstreams = [*tf.unstack(joined_upstream), value_upstream]
            stacked = tf.stack(upstreams)
            hidden_gradient = tf.einsum(
                "KBSND,HKND->BSH", stacked, kernel, name="hidden"
            )
            kernel_gradient = tf.einsum(
                "BSH,KBSND->HKND", hidden, stacked, name="kernels"
            )
            # Each sum is fused with the product that writes its tensor.
            sums = [tf.reduce_sum(upstream, axis=[0, 1]) for upstream in upstreams]
            return hidden_gradient, kernel_gradient, tf.stack(sums)

        return parts, gradient

    return project(hidden, tf.stack(kernels, axis=1), tf.stack(biases))


def attend(
    query_key: tf.Tensor,
    value: tf.Tensor,
    mask_logits: tf.Tensor,
    drop: Callable[[tf.Tensor], tf.Tensor],
    recompute: bool = False,
    window: Window | None = None,
) -> tf.Tensor:
    """Computes softmax attention of every head.

    The exponentials e are divided by their sums t after the product with the values:
    the sums are a product with one more value, 1, and take no pass over [B, N, S, S].
    In the gradient, too, t divides [B, S, N, D]: with g the gradient of the context,
    that of the logits is e * ((g / t) value - sum(context * g / t)).

    Args:
      query_key: [2, B, S, N, D], one tensor, so that XLA never copies its halves.
      value: [B, S, N, D].
      mask_logits: as in `kernels.attend`.
      drop: as there.
      recompute: as there.
      window: what a token sees; None: all.
    Returns:
      [B, S, N, D].
    """
    scale = value.shape[-1] ** -0.5
    if window is not None and value.shape[1] > window.size + 1:
        query, key = tf.unstack(query_key)
        by_head = [tf.transpose(p, [0, 2, 1, 3]) for p in (query * scale, key, value)]
        context = local_attention.attend(by_head, mask_logits, window, drop, recompute)
        return tf.transpose(context, [0, 2, 1, 3])

    @tf.custom_gradient
    def forward(query_key, value):
        query, key = tf.unstack(query_key)
        logits = _pairs(query, key, "logits") * scale + mask_logits
        largest = tf.reduce_max(logits, axis=-1, keepdims=True)
        exponentials = tf.exp(logits - largest)
        context, total = _weighted_mean(exponentials, value, drop)

        def gradient(upstream):
            kept = exponentials
            if recompute:
                (again,) = barrier(upstream, (query_key,))
                pairs = _pairs(again[0], again[1], "logits")
                kept = tf.exp(pairs * scale + mask_logits - largest)
            scaled = tf.cast(upstream, tf.float32) / total
            products = tf.cast(context, tf.float32) * scaled
            along = tf.reduce_sum(products, axis=-1, keepdims=True)
            scaled = tf.cast(scaled, value.dtype)
            value_gradient = _per_column(drop(kept), scaled, "value")
            slope = drop(_pairs(scaled, value, "slope"))
            slope = (slope - tf.transpose(along, [0, 2, 1, 3])) * kept * scale
            gradients = [
                _per_row(slope, key, "query"),
                _per_column(slope, query, "key"),
            ]
            return tf.stack(gradients), value_gradient

        return context, gradient

    return forward(query_key, value)


def _weighted_mean(
    weights: tf.Tensor, value: tf.Tensor, drop: Callable[[tf.Tensor], tf.Tensor]
) -> tuple[tf.Tensor, tf.Tensor]:
    """Mean of the values with weights that do not add up to 1.

    Args:
      weights: float32 [B, N, S, T].
      value: [B, T, N, D].
      drop: applied to the weights, not to those whose sum divides.
    Returns:
      The mean [B, S, N, D], of the dtype of `value`, and the sum of the weights,
      float32 [B, S, N, 1].
    """
    dropped = drop(weights)
    if dropped is weights:
        width = value.shape[-1]
        longer = tf.concat([value, tf.ones_like(value[..., :1])], axis=-1)
        product = _per_row(weights, longer, "context")
        # The last column; a sum is fused with the product, a slice is not.
        last = product * tf.one_hot(width, width + 1, dtype=product.dtype)
        total = tf.reduce_sum(tf.cast(last, tf.float32), axis=-1, keepdims=True)
        product = product[..., :-1]
    else:
        product = _per_row(dropped, value, "context")
        total = tf.reduce_sum(weights, axis=-1, keepdims=True)
        total = tf.transpose(total, [0, 2, 1, 3])
    return tf.cast(tf.cast(product, tf.float32) / total, value.dtype), total


def merge_heads(context: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """[B, S, N, D] @ [N * D, H] + [H] -> [B, S, H]."""
    kernel = tf.reshape(kernel, [*context.shape[-2:], kernel.shape[-1]])
    return tf.einsum("BSND,NDH->BSH", context, kernel, name="merge") + bias


def _pairs(rows: tf.Tensor, columns: tf.Tensor, name: str) -> tf.Tensor:
    """Product of each row with each column, float32 [B, N, S, T]."""
    pairs = tf.einsum("BSND,BTND->BNST", rows, columns, name=name)
    return tf.cast(pairs, tf.float32)


def _per_row(pairs: tf.Tensor, columns: tf.Tensor, name: str) -> tf.Tensor:
    """Sum of the columns, weighted by pairs, for each row: [B, S, N, D]."""
    pairs = tf.cast(pairs, columns.dtype)
    return tf.einsum("BNST,BTND->BSND", pairs, columns, name=name)


def _per_column(pairs: tf.Tensor, rows: tf.Tensor, name: str) -> tf.Tensor:
    """Sum of the rows, weighted by pairs, for each column: [B, T, N, D]."""
    pairs = tf.cast(pairs, rows.dtype)
    return tf.einsum("BNST,BSND->BTND", pairs, rows, name=name)
