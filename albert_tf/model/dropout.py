"""Dropout that depends on a seed and a site, and the numbers of all sites.

A site is one application of dropout in the forward pass. Sites are numbered:

    0             embeddings
    1 + 3 i       attention probabilities of the block applied as number i (from 0)
    2 + 3 i       output of its attention
    3 + 3 i       output of its feed-forward part
    2 ** 30       head

These numbers never change: with others, a run that was interrupted would resume with
other masks than it would have drawn.
"""

from typing import NamedTuple, TypeAlias

import tensorflow as tf
import tf_keras

# A number, or an int32 scalar in a graph that several layers share.
Site: TypeAlias = int | tf.Tensor

EMBEDDING_SITE = 0
HEAD_SITE = 1 << 30


class BlockSites(NamedTuple):
    """The sites of one application of a block."""

    probabilities: Site
    attention: Site
    feed_forward: Site


def block_sites(index: Site) -> BlockSites:
    """The sites of the block that is applied as number `index`, from 0."""
    first = 1 + 3 * index
    return BlockSites(first, first + 1, first + 2)


def resolve_seed(
    training: bool | None, dropout_seed: tf.Tensor | None
) -> tf.Tensor | None:
    """The seed of a forward pass.

    Args:
      training: True to drop.
      dropout_seed: int32 [2]; None to take one from TensorFlow's global generator.
    Returns:
      int32 [2], or None if nothing is dropped.
    """
    if not training:
        return None
    if dropout_seed is None:
        return tf.random.uniform([2], maxval=2**31 - 1, dtype=tf.int32)
    return dropout_seed


class Dropout(tf_keras.layers.Layer):
    """Dropout with a mask that is a function of seed and site alone.

    A resumed or recomputed step therefore drops the same values again.
    """

    def __init__(self, rate: float, **kwargs):
        # The dtype is kept: float32 probabilities stay float32.
        super().__init__(autocast=False, **kwargs)
        self._rate = rate

    def drops(self, seed: tf.Tensor | None) -> bool:
        """True if `call` with that seed drops values."""
        return self._rate > 0 and seed is not None

    def call(self, inputs: tf.Tensor, seed: tf.Tensor | None, site: Site) -> tf.Tensor:
        """Drops values and scales the others.

        Args:
          inputs: float tensor of any shape.
          seed: int32 [2], or None to drop nothing.
          site: number of this application.
        """
        if not self.drops(seed):
            return inputs
        site_seed = tf.random.experimental.stateless_fold_in(seed, site)
        return tf.nn.experimental.stateless_dropout(inputs, self._rate, site_seed)
