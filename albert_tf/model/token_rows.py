"""Hidden states as a matrix with a row for each token: what layers compute when XLA
does not compile them.

Projections, activations and layer normalizations then compute nothing for padding. Only
attention needs the sequences, [B, S].

Letters in shapes: B batch, S sequence, T tokens of all sequences.
"""

from typing import NamedTuple, TypeAlias

import tensorflow as tf


class TokenRows(NamedTuple):
    """The places of a batch's tokens in a matrix that has a row for each.

    The first token of a sequence always has a row, even if its mask is 0, since the
    pooled output is computed from it.

    Attributes:
      positions: int32 [T], places of the tokens in the flattened batch, increasing.
      rows: int32 [B, S], the row of each token. Padding has the row of the last token
        before it, so that what is read there belongs to the same sequence.
      mask_logits: float32 [B, 1, 1, S] or [B, 1, S, S], as attention adds them.
    """

    positions: tf.Tensor
    rows: tf.Tensor
    mask_logits: tf.Tensor

    @classmethod
    def of(cls, input_mask: tf.Tensor, mask_logits: tf.Tensor) -> "TokenRows":
        """Finds the tokens of a mask [B, S], of any dtype, that is above 0 for them."""
        is_first = tf.range(tf.shape(input_mask)[1]) == 0
        has_row = tf.reshape((tf.cast(input_mask, tf.float32) > 0) | is_first, [-1])
        positions = tf.cast(tf.where(has_row)[:, 0], tf.int32)
        rows = tf.cumsum(tf.cast(has_row, tf.int32)) - 1
        # A sequence without a visible token sees its first one, and no copy of it.
        hidden = tf.reduce_all(mask_logits < 0, axis=-1, keepdims=True)
        mask_logits = tf.where(hidden & is_first, 0.0, mask_logits)
        return cls(positions, tf.reshape(rows, tf.shape(input_mask)), mask_logits)

    @property
    def shape(self) -> tf.Tensor:
        """int32 [2]: B and S."""
        return tf.shape(self.rows)

    def collect(self, values: tf.Tensor) -> tf.Tensor:
        """[B * S, ...] -> [T, ...]; the gradient is 0 at padding."""

        @tf.custom_gradient
        def forward(values):
            return tf.gather(values, self.positions), self._scatter

        return forward(tf.convert_to_tensor(values))

    def spread(self, values: tf.Tensor) -> tf.Tensor:
        """[T, ...] -> [B, S, ...]; at padding there is the value of a token.

        The gradient of what is computed from it must be 0 at padding.
        """

        @tf.custom_gradient
        def forward(values):
            def gradient(upstream):
                flat = tf.concat([[-1], tf.shape(upstream)[2:]], axis=0)
                return self._gather(tf.reshape(upstream, flat))

            return tf.gather(values, self.rows), gradient

        return forward(values)

    def pad(self, values: tf.Tensor) -> tf.Tensor:
        """[T, size] -> [B, S, size], 0 at padding."""
        shape = tf.concat([self.shape, [values.shape[1]]], axis=0)
        padded = tf.reshape(self._scatter(values), shape)
        return tf.ensure_shape(padded, [*self.rows.shape, values.shape[1]])

    def first(self, values: tf.Tensor) -> tf.Tensor:
        """[T, size] -> [B, size], the first token of each sequence."""
        return tf.gather(values, self.rows[:, 0])

    def _gather(self, values: tf.Tensor) -> tf.Tensor:
        return tf.gather(values, self.positions)

    def _scatter(self, values: tf.Tensor) -> tf.Tensor:
        """[T, ...] -> [B * S, ...], 0 at padding."""
        shape = self.shape
        return tf.scatter_nd(
            self.positions[:, tf.newaxis],
            values,
            tf.concat([[shape[0] * shape[1]], tf.shape(values)[1:]], axis=0),
        )


class AllRows(NamedTuple):
    """As `TokenRows`, with a row for each position of a batch of fixed shape.

    Nothing is copied, and shapes are known when a graph is built. It is for rows that
    have little padding, as those of pretraining.

    Attributes:
      mask_logits: float32 [B, 1, 1, S] or [B, 1, S, S], B and S known.
    """

    mask_logits: tf.Tensor

    @property
    def shape(self) -> list[int]:
        """B and S."""
        return [self.mask_logits.shape[0], self.mask_logits.shape[-1]]

    def collect(self, values: tf.Tensor) -> tf.Tensor:
        """[B * S, ...] -> the same."""
        return values

    def spread(self, values: tf.Tensor) -> tf.Tensor:
        """[B * S, ...] -> [B, S, ...]."""
        return tf.reshape(values, [*self.shape, *values.shape[1:]])

    def pad(self, values: tf.Tensor) -> tf.Tensor:
        """[B * S, size] -> [B, S, size]."""
        return self.spread(values)

    def first(self, values: tf.Tensor) -> tf.Tensor:
        """[B * S, size] -> [B, size], the first token of each sequence."""
        return self.spread(values)[:, 0]


Rows: TypeAlias = TokenRows | AllRows
